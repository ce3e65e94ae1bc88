"""Tensors as streams: which bytes of a dump are which (layer, kind, kv head), cut into blocks that can be coded."""
