"""A batch of pairs of sequences: what a translation model is given in the place of a graph.

Sequences follow one another without padding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.canonical_form import remember
from zoo.errors import ZooError


class Pairs:
    """Pairs of sequences, by their lengths. Rows of x are the sources' tokens, then the targets'.

    Attributes:
        sources: tokens of each source.
        targets: tokens of each target.

    Raises:
        ZooError: there are not as many sources as targets.
    """

    def __init__(self, sources: Sequence[int], targets: Sequence[int]):
        self.sources, self.targets = tuple(sources), tuple(targets)
        if len(self.sources) != len(self.targets):
            raise ZooError(
                f"there are {len(self.sources):,} sources and {len(self.targets):,} targets. "
                "Sequences come in pairs: write as many lengths of one as of the other."
            )
        remember(self)

    def batch_num_nodes(self) -> Tensor:
        """Return the tokens of each sequence, sources first, (2 B,)."""
        return torch.tensor([*self.sources, *self.targets])

    def divide(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows of the sources, (S, ...), and those of the targets, (T, ...)."""
        return x.split([sum(self.sources), sum(self.targets)])
