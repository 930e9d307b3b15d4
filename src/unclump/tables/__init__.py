"""Tables of embeddings: files and their health."""
