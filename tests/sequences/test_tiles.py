"""Tiles: what is packed comes back, sequences of a tile are alike, and less than half is empty."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.sequences.tiles import Tiles, alike

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=12)


@settings(max_examples=100, deadline=None)
@given(LENGTHS)
def test_what_is_packed_comes_back(lengths):
    tiles, x = Tiles(lengths), torch.randn(sum(lengths), 2, 3)
    packed = tiles.pack(x)
    assert torch.equal(tiles.unpack(packed), x)
    for each, there in zip(packed, tiles.present, strict=True):
        assert each.shape == (*there.shape, 2, 3)


@settings(max_examples=100, deadline=None)
@given(LENGTHS)
def test_each_sequence_stands_in_a_row_of_its_own(lengths):
    tiles, x = Tiles(lengths), torch.arange(sum(lengths))
    rows = [
        row[there].tolist()
        for tile, present in zip(tiles.pack(x), tiles.present, strict=True)
        for row, there in zip(tile, present, strict=True)
    ]
    order = torch.cat(tiles.groups).tolist()
    sequences = [each.tolist() for each in x.split(lengths)]
    assert rows == [sequences[each] for each in order]
    assert sorted(order) == list(range(len(lengths)))


@settings(max_examples=100, deadline=None)
@given(LENGTHS)
def test_less_than_half_is_empty(lengths):
    tiles = Tiles(lengths)
    assert sum(each.numel() for each in tiles.present) < 2 * sum(lengths)
    assert sum(int(each.sum()) for each in tiles.present) == sum(lengths)
    for group in tiles.groups:
        own = [lengths[each] for each in group.tolist()]
        assert max(own) < 2 * min(own)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=12))
def test_pairs_are_alike_on_both_sides(pairs):
    sides = tuple(zip(*pairs, strict=True))
    groups = alike(*sides)
    assert sorted(torch.cat(groups).tolist()) == list(range(len(pairs)))
    for lengths in sides:
        tiles, x = Tiles(lengths, groups), torch.randn(sum(lengths), 2)
        assert torch.equal(tiles.unpack(tiles.pack(x)), x)
        assert [len(each) for each in tiles.present] == [len(each) for each in groups]
        assert sum(each.numel() for each in tiles.present) < 2 * sum(lengths)


def test_sequences_of_one_length_are_not_copied():
    x = torch.randn(12, 2)
    tile, *others = (tiles := Tiles([4, 4, 4])).pack(x)
    assert tile.shape == (3, 4, 2) and tile.data_ptr() == x.data_ptr() and not others
    assert tiles.unpack([tile]).data_ptr() == x.data_ptr()


def test_gradients_of_empty_places_go_nowhere():
    x = torch.randn(13, 2, dtype=torch.double, requires_grad=True)
    tiles = Tiles([3, 4, 1, 5])
    weight = torch.randn(13, 2)
    loss = (tiles.unpack([2 * each for each in tiles.pack(x)]) * weight).sum()
    torch.testing.assert_close(torch.autograd.grad(loss, x)[0], 2 * weight.double())


def test_a_group_may_hold_some_of_the_sequences_in_any_order():
    tiles = Tiles([2, 1, 3], [torch.tensor([2, 0, 1])])
    packed = tiles.pack(torch.arange(6))[0]
    assert packed[tiles.present[0]].tolist() == [3, 4, 5, 0, 1, 2]
    assert tiles.unpack([packed]).tolist() == list(range(6))


def test_no_sequences_are_no_tiles():
    tiles = Tiles([])
    assert tiles.unpack(tiles.pack(torch.zeros(0, 3))).shape == (0, 3)
