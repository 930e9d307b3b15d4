"""The numerical operations that everything else is built from, and their implementations."""
