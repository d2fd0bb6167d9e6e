"""Words and options of a recipe, checked; without torch."""
