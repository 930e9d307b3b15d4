"""Spherical codes: n directions in d dimensions with a minimal angle as large as possible."""

from unclump.codes.bounds.upper_bound import upper_bound
from unclump.codes.code import Code, spherical_code

__all__ = ["Code", "spherical_code", "upper_bound"]
