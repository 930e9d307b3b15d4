"""The operations that everything is made of, and who computes them."""
