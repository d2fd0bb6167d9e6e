"""The modules and functions that models are made of: the one door between papers and kernels.

What is fast stands behind them, in `zoo.ops` and `zoo.graphs`; a model imports from here alone.
"""

from zoo.graphs.adjacency import degrees as in_degrees
from zoo.graphs.adjacency import edge_dst as edge_targets
from zoo.graphs.adjacency import ends as edge_ends
from zoo.graphs.adjacency import node_counts
from zoo.graphs.edge_weights import edge_features, edge_weights
from zoo.graphs.expander import Drawn, interaction
from zoo.graphs.graph_sets import Pairs
from zoo.graphs.pair_tables import path_lengths, return_probabilities, walk_probabilities
from zoo.graphs.sequences import cross_graph, grid_graph, sequence_graph, top_edges
from zoo.graphs.spmm import (
    edge_dot,
    edge_softmax,
    edge_sum,
    message_sum,
    neighbour_sum,
    weighted_sum,
)
from zoo.nn.attend import Attend, build_attend, per_graph
from zoo.nn.attention import ATTENTIONS, Attention, QueryKeyNorm, linear, softmax
from zoo.nn.closed_form import (
    Labels,
    as_logits,
    graph_means,
    label_walks,
    labels_of,
    neighbour_mean,
    ridge,
    squared_errors,
)
from zoo.nn.edge_probabilities import edge_log_probabilities
from zoo.nn.feature_linear import FeatureLinear
from zoo.nn.heads import MultiHead, mean_over_heads, merge_heads, split_heads
from zoo.nn.label_stem import TOKEN, LabelTokens, label_tokens
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
from zoo.nn.learned_encodings import ENCODING_NETWORKS, SPE, EncodingNetwork, SignNet
from zoo.nn.message_passing import MessagePassing
from zoo.nn.positions import (
    node_positions,
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
    EdgeScores,
    GraphAttention,
    Isomorphism,
    Propagation,
    Separate,
    attend_to_neighbours,
    build_propagation,
    gcn,
    mean,
    relation,
    weighted_softmax,
)
from zoo.nn.random_batch_attention import RandomBatchAttention, random_batches
from zoo.nn.random_features import RandomKernel, performer, random_directions, sine_attention
from zoo.ops.dropout import Dropout, ReluDropout, ReluDropoutAdd
from zoo.ops.global_sums import by_sums, count_nodes, sum_over_nodes
from zoo.ops.gumbel_attention import gumbel_attention, gumbel_noise
from zoo.ops.linear import HeadIdentity, HeadLinear, Linear
from zoo.ops.linear_attention import linear_attention
from zoo.ops.losses import cross_entropy
from zoo.ops.pair_attention import Bias, OncePerBlock, attend_by_rows, for_bias
from zoo.ops.precision import in_fp32
from zoo.ops.ragged import Ragged, for_ragged
from zoo.ops.random_order import drawn, seed_of

__all__ = [
    "ATTENTIONS",
    "Attend",
    "Attention",
    "BatchNorm",
    "Bias",
    "Convolution",
    "Directions",
    "Drawn",
    "Dropout",
    "ENCODING_NETWORKS",
    "EdgeScores",
    "EncodingNetwork",
    "FeatureLinear",
    "FeedForward",
    "GraphAttention",
    "HeadIdentity",
    "HeadLinear",
    "Isomorphism",
    "Labels",
    "Linear",
    "MessagePassing",
    "MultiHead",
    "NORMS",
    "Norm",
    "OncePerBlock",
    "PROPAGATIONS",
    "Pairs",
    "Projection",
    "Propagation",
    "QueryKeyNorm",
    "Ragged",
    "RandomBatchAttention",
    "RandomKernel",
    "ReluDropout",
    "ReluDropoutAdd",
    "SPE",
    "Separate",
    "SignNet",
    "TOKEN",
    "LabelTokens",
    "TiedHead",
    "as_logits",
    "attend_to_neighbours",
    "attend_by_rows",
    "build_attend",
    "build_norm",
    "build_propagation",
    "by_sums",
    "count_nodes",
    "cross_entropy",
    "cross_graph",
    "drawn",
    "edge_dot",
    "edge_ends",
    "edge_features",
    "edge_log_probabilities",
    "edge_softmax",
    "edge_sum",
    "edge_targets",
    "edge_weights",
    "for_bias",
    "for_ragged",
    "gcn",
    "graph_means",
    "grid_graph",
    "gumbel_attention",
    "gumbel_noise",
    "in_degrees",
    "in_fp32",
    "interaction",
    "label_tokens",
    "label_walks",
    "labels_of",
    "lerp",
    "linear",
    "linear_attention",
    "mean",
    "mean_over_heads",
    "merge_heads",
    "message_sum",
    "neighbour_mean",
    "neighbour_sum",
    "node_counts",
    "node_positions",
    "path_eigenvectors",
    "path_lengths",
    "per_graph",
    "performer",
    "random_batches",
    "random_directions",
    "relation",
    "return_probabilities",
    "ridge",
    "rotate",
    "rotation",
    "seed_of",
    "sequence_graph",
    "sine_attention",
    "sinusoids",
    "softmax",
    "split_heads",
    "squared_errors",
    "sum_over_nodes",
    "token_owners",
    "token_positions",
    "top_edges",
    "walk_probabilities",
    "weighted_softmax",
    "weighted_sum",
]
