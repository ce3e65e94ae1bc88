"""Predictors: what a value is likely to be, from what the decoder already has."""
