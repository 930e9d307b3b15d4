"""Spherical codes in closed form."""
