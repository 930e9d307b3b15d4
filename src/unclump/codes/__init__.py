"""Spherical codes: n directions in d dimensions with the largest minimal angle."""
