"""Tables of embeddings: their files and their health."""
