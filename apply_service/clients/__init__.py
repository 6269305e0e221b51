"""Clients of a running service.  They share its types and errors with it, and nothing else."""
