"""Layouts of cache tensors: which axis is the token, the head, the channel; one file for each producer."""
