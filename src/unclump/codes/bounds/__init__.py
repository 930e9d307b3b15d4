"""Upper bounds on the smallest angle."""
