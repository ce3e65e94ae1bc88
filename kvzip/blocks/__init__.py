"""Blocks: the independently checked unit of a container, an array of streams in, a payload out."""
