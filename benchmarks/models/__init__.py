"""Pretrained targets: fetching them, and what they reach."""
