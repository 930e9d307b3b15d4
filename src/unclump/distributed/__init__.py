"""Points that are distributed over processes."""
