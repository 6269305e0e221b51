"""Everything that can answer an edit and be measured: drafters in process, peers on the same target, other services.

A runner answers one record and says what it cost.  It judges nothing: scorers do.
"""
