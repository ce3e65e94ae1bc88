"""Readers of dump files: what a file says about its tensors, before any of their data is read."""
