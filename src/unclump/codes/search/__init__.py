"""The search for spherical codes."""
