"""Data of sequences: texts as tokens, pairs of sentences, and the tokenizer of both."""
