"""A run: which contestants answer which samples in which order, the file that keeps every answer, and the loop."""
