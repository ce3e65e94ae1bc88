"""A slow, plain decoder of .kvz containers, written from docs/format.md alone. It imports nothing from kvzip."""
