"""Models of sequences and what these are made of: importing this package registers the models."""

from zoo.sequences.gcn_gru import GCNGRU
from zoo.sequences.gru import GRU
from zoo.sequences.htgn_seq2seq import HTGNSeq2Seq
from zoo.sequences.transformer_seq2seq import TransformerSeq2Seq
from zoo.sequences.vit import ViT

__all__ = ["GCNGRU", "GRU", "HTGNSeq2Seq", "TransformerSeq2Seq", "ViT"]
