"""Upper bounds on the minimal angle of a spherical code."""
