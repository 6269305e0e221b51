"""Edits made on purpose that a careless merger gets wrong without noticing."""
