"""A model zoo of graph transformers on DGL, every attention in random batches if you like."""
