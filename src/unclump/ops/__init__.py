"""The operations that everything is made of, and their implementations."""
