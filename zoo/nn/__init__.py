"""The modules and functions that models are made of: the one door between papers and kernels.

What is fast stands behind them, in `zoo.ops` and `zoo.graphs`; a model imports from here alone.
"""

from zoo.graphs.adjacency import degrees as in_degrees
from zoo.graphs.adjacency import ends as edge_ends
from zoo.graphs.adjacency import node_counts
from zoo.graphs.adjacency import tips as edge_targets
from zoo.graphs.message_passing import (
    edge_dot,
    edge_softmax,
    edge_sum,
    neighbour_sum,
    weighted_sum,
)
from zoo.graphs.pairs import Pairs
from zoo.graphs.sequences import cross_graph, grid_graph, sequence_graph, top_edges
from zoo.nn.attend import Attend, build_attend, per_graph
from zoo.nn.attention import ATTENTIONS, Attention, QueryKeyNorm, linear, softmax
from zoo.nn.edge_probabilities import edge_log_probabilities
from zoo.nn.feature_linear import FeatureLinear
from zoo.nn.heads import MultiHead, mean_over_heads, merge_heads, split_heads
from zoo.nn.layers import (
    NORMS,
    BatchNorm,
    Convolution,
    FeedForward,
    Norm,
    Projection,
    TiedHead,
    build_norm,
    lerp,
)
from zoo.nn.positions import (
    path_eigenvectors,
    rotate,
    rotation,
    sinusoids,
    token_owners,
    token_positions,
)
from zoo.nn.propagation import (
    PROPAGATIONS,
    Directions,
    GraphAttention,
    Propagation,
    Separate,
    build_propagation,
    gcn,
    mean,
    relation,
    weighted_softmax,
)
from zoo.nn.random_batch_attention import RandomBatchAttention, random_batches
from zoo.nn.random_features import RandomKernel, performer, random_directions
from zoo.ops.dropout import Dropout, ReluDropout, ReluDropoutAdd
from zoo.ops.global_sums import by_sums, count_nodes, sum_over_nodes
from zoo.ops.gumbel_attention import gumbel_attention, gumbel_noise
from zoo.ops.linear import HeadIdentity, HeadLinear, Linear
from zoo.ops.linear_attention import linear_attention
from zoo.ops.losses import cross_entropy
from zoo.ops.precision import in_fp32
from zoo.ops.random_order import seed_of

__all__ = [
    "cross_entropy",
    "Pairs",
    "TiedHead",
    "cross_graph",
    "edge_sum",
    "grid_graph",
    "path_eigenvectors",
    "rotate",
    "rotation",
    "sequence_graph",
    "sinusoids",
    "token_owners",
    "token_positions",
    "top_edges",
    "ATTENTIONS",
    "Attend",
    "Attention",
    "BatchNorm",
    "Convolution",
    "Directions",
    "Dropout",
    "FeatureLinear",
    "FeedForward",
    "GraphAttention",
    "HeadIdentity",
    "HeadLinear",
    "Linear",
    "MultiHead",
    "NORMS",
    "Norm",
    "PROPAGATIONS",
    "Projection",
    "Propagation",
    "QueryKeyNorm",
    "RandomBatchAttention",
    "RandomKernel",
    "ReluDropout",
    "ReluDropoutAdd",
    "Separate",
    "build_attend",
    "build_norm",
    "build_propagation",
    "by_sums",
    "count_nodes",
    "edge_dot",
    "edge_ends",
    "edge_log_probabilities",
    "edge_softmax",
    "edge_targets",
    "gcn",
    "gumbel_attention",
    "gumbel_noise",
    "in_degrees",
    "in_fp32",
    "lerp",
    "linear",
    "linear_attention",
    "mean",
    "mean_over_heads",
    "merge_heads",
    "neighbour_sum",
    "node_counts",
    "per_graph",
    "performer",
    "random_batches",
    "random_directions",
    "relation",
    "seed_of",
    "softmax",
    "split_heads",
    "sum_over_nodes",
    "weighted_softmax",
    "weighted_sum",
]
