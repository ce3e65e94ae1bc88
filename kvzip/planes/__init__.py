"""Values as planes: a value's bits, most telling first, cut into symbols of at most 8 bits."""
