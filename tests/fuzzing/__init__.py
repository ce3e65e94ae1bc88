"""Hostile containers: what is done with one, how they are made, and runs that are long, by hand, or short, in CI."""
