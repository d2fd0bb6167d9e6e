"""A recipe to a folder of results: resolve, run, resume, compare, estimate, tune."""
