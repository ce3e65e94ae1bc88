"""The ``.kvz`` container: framing, the structures inside, writing and reading them in one pass (docs/format.md)."""
