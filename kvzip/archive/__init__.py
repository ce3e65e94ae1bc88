"""Archives: many dumps in one file, each coded relative to the earlier one that is most like it."""
