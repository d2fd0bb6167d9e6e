"""The first linear map of a model, which skips the zeros of bag-of-words features.

Cora's features are 99 % zeros, and a product with all of them is most of a training step. Tokens
are read as one-hot rows of features, by a look-up.
"""

from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.weak import WeakIdKeyDictionary

from zoo.graphs.adjacency import quiet_beta
from zoo.graphs.spmm import sparse_product
from zoo.ops.dropout import Dropout, dropout
from zoo.ops.linear import Linear

WIDE = 256
"""Narrower features are multiplied as they are: a search for zeros would not pay."""

DENSITY = 0.1
"""Largest share of numbers other than zero at which the sparse product is taken."""


class FeatureLinear(Linear):
    """W Drop(x) + b for the features x of a data set: `nn.Linear`, quicker.

    Weights and their initialisation are those of `nn.Linear`. The sparse form of features that are
    mostly zeros is found once and kept for as long as their tensor lives, and found anew after
    torch has written into it. What numpy, or `x.data`, writes into its memory is not noticed.
    """

    def __init__(self, in_dim: int, out_dim: int, *, bias: bool = True, dropout: float = 0.0):
        super().__init__(in_dim, out_dim, bias=bias)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, out_dim) for x (N, in_dim), or for tokens (N,): for their one-hot rows."""
        if x.dim() == 1:
            return self._of_tokens(x)
        if torch.compiler.is_compiling() and searched(x):  # which it cannot trace
            return torch.compiler.disable(self._of_features)(x)
        return self._of_features(x)

    def _of_features(self, x: Tensor) -> Tensor:
        sparse = sparse_form(x)
        if sparse is None:
            return super().forward(dropout(x, self.dropout, self.training))
        if self.training and self.dropout:
            sparse = sparse.dropped(self.dropout)
        out = sparse_product(self.weight.T, sparse.matrix, sparse.transposed)
        return out if self.bias is None else out + self.bias

    def _of_tokens(self, tokens: Tensor) -> Tensor:
        """Return W[:, token] + b, (N, out_dim), for tokens (N,) int64: no row is written out."""
        out = functional.embedding(tokens, self.weight.T)
        if self.training and self.dropout:  # of a one-hot row there is one number to drop
            out = out * dropout(out.new_ones(len(out), 1), self.dropout)
        return out if self.bias is None else out + self.bias


class FeatureDropout(Dropout):
    """`Dropout` of the features of a data set, whose zeros are not looked for anew each time."""

    def forward(self, x: Tensor) -> Tensor:
        """Return Drop(x), in the shape of x."""
        if self.training and self.p and searched(x):
            return torch.compiler.disable(self._of_features)(x)  # which it cannot trace
        return super().forward(x)

    def _of_features(self, x: Tensor) -> Tensor:
        sparse = sparse_form(x)
        if sparse is None:
            return super().forward(x)
        with torch.inference_mode(False):  # whose tensors do not tell when they are changed
            sparse = sparse.dropped(self.p)
            dense = sparse.matrix.to_dense()
            _known[dense] = (dense._version, sparse)
        return dense


class SparseForm(NamedTuple):
    """x (N, F) and its transpose as CSR; `order` picks the second's numbers out of the first's."""

    matrix: Tensor
    transposed: Tensor
    order: Tensor

    def dropped(self, rate: float) -> Self:
        """Return the form of Drop(x): zeros stay zeros."""
        values = dropout(self.matrix.values(), rate)
        refilled = _refilled(self.matrix, values), _refilled(self.transposed, values[self.order])
        return SparseForm(*refilled, self.order)


def sparse_form(x: Tensor) -> SparseForm | None:
    """Return the sparse form of x (N, F), or None where the dense product is the one to take."""
    if not searched(x):
        return None
    known = _known.get(x)
    if known is None or known[0] != x._version:  # changed in place since
        known = _known[x] = (x._version, _found(x))
    return known[1]


def searched(x: Tensor) -> bool:
    """Return whether zeros are looked for in x: whether it is wide, and not learnt."""
    if x.dim() != 2 or x.shape[1] < WIDE or x.device.type != "cpu" or x.requires_grad:
        return False
    if x.is_inference():  # which does not tell when it is changed
        return False
    return x.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled("cpu")


_known: WeakIdKeyDictionary = WeakIdKeyDictionary()


@torch.inference_mode(False)  # what is found serves training too
def _found(x: Tensor) -> SparseForm | None:
    if x.count_nonzero() > DENSITY * x.numel():
        return None
    with quiet_beta():
        matrix = x.to_sparse_csr()
        rows, columns = torch.repeat_interleave(matrix.crow_indices().diff()), matrix.col_indices()
        order = torch.argsort(columns, stable=True)
        begins = functional.pad(torch.bincount(columns, minlength=x.shape[1]).cumsum(0), (1, 0))
        of_transposed = begins, rows[order], matrix.values()[order]
        transposed = torch.sparse_csr_tensor(*of_transposed, x.T.shape, check_invariants=False)
    return SparseForm(matrix, transposed, order)


def _refilled(matrix: Tensor, values: Tensor) -> Tensor:
    where = matrix.crow_indices(), matrix.col_indices()
    return torch.sparse_csr_tensor(*where, values, matrix.shape, check_invariants=False)
