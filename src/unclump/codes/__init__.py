"""Spherical codes: n points on the sphere in d dimensions, as far apart as they can be."""
