"""Linear prediction within a layer, and from the layers before it: the slow, strong end of the levels.

Every value is predicted from every value before it by recursive least squares, and coded by what a normalised
distribution of its residual says. Knows columns, tokens and bit patterns; knows nothing of dumps or containers.
"""
