"""The models of the zoo, one file each: importing this package registers them all."""

from zoo.models.gat import GAT
from zoo.models.gcn import GCN
from zoo.models.mlp import MLP
from zoo.models.sage import SAGE
from zoo.models.sgformer import SGFormer

__all__ = ["GAT", "GCN", "MLP", "SAGE", "SGFormer"]
