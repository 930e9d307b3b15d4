"""Constructions of spherical codes in closed form."""
