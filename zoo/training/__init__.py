"""A model, a split and a task to the best weights."""
