"""A folder of weights: write, read, carry over, fine-tune, publish."""
