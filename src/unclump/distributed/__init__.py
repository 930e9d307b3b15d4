"""Points that are spread over processes."""
