"""The entropy coder: range coding in its asymmetric-numeral form (rANS) on interleaved lanes.

Knows intervals of a power-of-two total, lanes and words. Knows nothing of models, planes or dumps.
"""
