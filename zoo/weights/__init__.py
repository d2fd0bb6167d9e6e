"""Weights on disk: save, load whole or in part, fine-tune, model card, Hugging Face Hub."""
