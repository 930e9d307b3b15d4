"""Moving the rows of a table apart."""
