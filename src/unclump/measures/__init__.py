"""Measures of dispersion and tests of uniformity."""
