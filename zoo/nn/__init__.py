"""The modules and functions that models are made of."""
