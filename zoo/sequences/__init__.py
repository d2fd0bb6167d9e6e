"""Models of sequences and what these are made of: importing this package registers the models."""

from zoo.sequences.htgn_seq2seq import HTGNSeq2Seq
from zoo.sequences.transformer_seq2seq import TransformerSeq2Seq
from zoo.sequences.vit import ViT

__all__ = ["HTGNSeq2Seq", "TransformerSeq2Seq", "ViT"]
