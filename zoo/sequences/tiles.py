"""Sequences that follow one another without padding, side by side where a product wants them so.

A tile holds sequences of which none is twice as long as another: less than half of it is empty,
however the lengths are mixed, and it exists inside of one operation alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Tiles:
    """Where the rows of sequences stand in tiles.

    Args:
        lengths: rows of each sequence, B of them.
        groups: which sequences share a tile, see `alike`; left out, those of like length.

    Attributes:
        rows: for each tile the row of each of its places, (n, L) int64; an empty place repeats the
            last row of its sequence.
        present: for each tile which places are not empty, (n, L) bool.
    """

    def __init__(self, lengths: Sequence[int], groups: Sequence[Tensor] | None = None):
        sizes = torch.tensor(lengths, dtype=torch.int64)
        starts = sizes.cumsum(0) - sizes
        self.groups = alike(lengths) if groups is None else groups
        self.rows, self.present = [], []
        for group in self.groups:
            counts = sizes[group].unsqueeze(1)  # (n, 1)
            places = torch.arange(int(counts.max()) if len(counts) else 0)
            self.present.append(places < counts)
            self.rows.append(starts[group].unsqueeze(1) + places.minimum(counts - 1).clamp(min=0))
        filled = [rows[there] for rows, there in zip(self.rows, self.present, strict=True)]
        order = torch.cat(filled) if filled else torch.arange(0)
        self._back = torch.empty_like(order)
        self._back[order] = torch.arange(len(order))
        self._whole = len(filled) == 1 and bool(self.present[0].all()) and _ascends(order)

    def pack(self, x: Tensor) -> list[Tensor]:
        """Return the rows of x (N, ...) in tiles, (n, L, ...) each; empty places hold any row."""
        if self._whole:
            return [x.unflatten(0, tuple(self.rows[0].shape))]
        devices = (rows.to(x.device) for rows in self.rows)
        return [x.index_select(0, rows.flatten()).unflatten(0, rows.shape) for rows in devices]

    def present_at(self, device: torch.device) -> list[Tensor]:
        """Return which places are not empty, (n, L) bool of each tile, on a device."""
        return [there.to(device) for there in self.present]

    def unpack(self, tiles: Sequence[Tensor]) -> Tensor:
        """Return the rows (N, ...) of tiles (n, L, ...), without the empty places."""
        if self._whole:
            return tiles[0].flatten(0, 1)
        filled = [
            tile.flatten(0, 1).index_select(0, there.flatten().nonzero().squeeze(1).to(tile.device))
            for tile, there in zip(tiles, self.present, strict=True)
        ]
        return torch.cat(filled).index_select(0, self._back.to(filled[0].device))


def alike(*lengths: Sequence[int]) -> list[Tensor]:
    """Return which sequences, (n,) int64, are of like length: within a factor of two.

    Args:
        lengths: of each sequence; several, to be alike in all of them, such as those of pairs.
    """
    classes = [torch.tensor(sizes).clamp(min=1).double().log2().ceil() for sizes in lengths]
    _, group = torch.stack(classes, 1).unique(dim=0, return_inverse=True)
    count = int(group.max()) + 1 if len(group) else 1  # of no sequences, a group that is empty
    return [(group == number).nonzero().squeeze(1) for number in range(count)]


def _ascends(order: Tensor) -> bool:
    return bool((order == torch.arange(len(order))).all())
