"""The models of the zoo, one file each: importing this package registers them all."""

from zoo.models.anygraph import AnyGraph
from zoo.models.boosting import Boosting
from zoo.models.difformer import DIFFormer
from zoo.models.exphormer import Exphormer
from zoo.models.gat import GAT
from zoo.models.gcn import GCN
from zoo.models.gcnii import GCNII
from zoo.models.gine import GINE
from zoo.models.gprgnn import GPRGNN
from zoo.models.graphany import GraphAny
from zoo.models.graphgps import GraphGPS
from zoo.models.graphormer import Graphormer
from zoo.models.grit import GRIT
from zoo.models.htgn import HTGN
from zoo.models.label_propagation import LabelPropagation
from zoo.models.mlp import MLP
from zoo.models.nagphormer import NAGphormer
from zoo.models.nodeformer import NodeFormer
from zoo.models.nsa import NSA
from zoo.models.polynormer import Polynormer
from zoo.models.ridge import Ridge
from zoo.models.sage import SAGE
from zoo.models.sgformer import SGFormer
from zoo.models.transformer import Transformer

__all__ = [
    "AnyGraph",
    "Boosting",
    "DIFFormer",
    "Exphormer",
    "GAT",
    "GCN",
    "GCNII",
    "GINE",
    "GPRGNN",
    "GRIT",
    "GraphAny",
    "GraphGPS",
    "Graphormer",
    "HTGN",
    "LabelPropagation",
    "MLP",
    "NAGphormer",
    "NSA",
    "NodeFormer",
    "Polynormer",
    "Ridge",
    "SAGE",
    "SGFormer",
    "Transformer",
]
