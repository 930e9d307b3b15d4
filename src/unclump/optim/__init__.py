"""Optimisers on the sphere."""
