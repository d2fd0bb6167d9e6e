"""Positions: rotations equal the table of sinusoids of i - j; eigenvectors equal numpy's."""

import math

import numpy as np
import pytest
import torch
from twins import assert_twins

from zoo.errors import ZooError
from zoo.nn import (
    naive,
    path_eigenvectors,
    rotate,
    rotation,
    sequence_graph,
    sinusoids,
    token_owners,
    token_positions,
)


def table(n, d):
    """The note's table (N, N, D) of sinusoids of i - j: sines in even columns, cosines in odd."""
    places = torch.arange(n, dtype=torch.double)
    apart = (places[:, None] - places)[..., None]
    waves = torch.tensor([10000 ** (-2 * f / d) for f in range(d // 2)], dtype=torch.double)
    angles = apart * waves
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def relative_scores(q, k):
    """Scores (H, N, N) of queries and keys (N, H, D) by the table: no token knows its place."""
    sines, cosines = (table(len(q), q.shape[-1])[..., start::2] for start in (0, 1))
    q1, q2, k1, k2 = q[..., 0::2], q[..., 1::2], k[..., 0::2], k[..., 1::2]

    def products(a, b, waves):
        return torch.einsum("ihf,jhf,ijf->hij", a, b, waves)

    along = products(q1, k1, cosines) + products(q2, k2, cosines)
    return along + products(q1, k2, sines) - products(q2, k1, sines)


def rotated_scores(q, k):
    by = rotation(torch.arange(len(q)), q.shape[-1], dtype=q.dtype)
    return torch.einsum("ihd,jhd->hij", rotate(q, by), rotate(k, by))


@pytest.mark.parametrize("n,d", [(1, 2), (7, 2), (60, 6), (512, 8)])
def test_rotated_scores_are_those_of_the_table(n, d):
    q, k = (torch.randn(n, 2, d, dtype=torch.double, requires_grad=True) for _ in range(2))
    fast, slow = rotated_scores(q, k), relative_scores(q, k)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-10)
    weight = torch.randn_like(slow)
    ours = torch.autograd.grad((fast * weight).sum(), (q, k))
    theirs = torch.autograd.grad((slow * weight).sum(), (q, k))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n", [3, 512])
def test_pairs_of_one_give_the_entries_of_the_table(n):
    """In one pair q = k = (1, 0) gives the cosine of i - j, and k = (0, 1) its sine."""
    d, entries = 4, table(n, 4)
    for column in range(0, d, 2):
        one, other = torch.zeros(n, 1, d).double(), torch.zeros(n, 1, d).double()
        one[..., column], other[..., column + 1] = 1, 1
        near = {"rtol": 0, "atol": 1e-11}
        torch.testing.assert_close(rotated_scores(one, one)[0], entries[..., column + 1], **near)
        torch.testing.assert_close(rotated_scores(one, other)[0], entries[..., column], **near)


@pytest.mark.parametrize("d", [1, 2, 5, 8])
@pytest.mark.parametrize("base", [10000.0, 100.0])
def test_each_pair_of_columns_turns(d, base):
    """An odd last column stays; positions are in any order."""
    x = torch.randn(6, 3, d, dtype=torch.double, requires_grad=True)
    positions = torch.tensor([4, 0, 7, 7, 1, 900])
    by = rotation(positions, d, base=base, dtype=torch.double)
    assert_twins(lambda: rotate(x, by), lambda: naive.rotate(x, positions, base), [x], atol=1e-12)


def test_a_rotation_by_hand():
    """At position 1 the first pair turns by 1, the second by 1/10 for base 100 and width 4."""
    turned = rotate(torch.tensor([[[1.0, 0, 0, 2]]]), rotation(torch.tensor([1]), 4, base=100.0))
    expected = [math.cos(1), math.sin(1), -2 * math.sin(0.1), 2 * math.cos(0.1)]
    torch.testing.assert_close(turned, torch.tensor([[expected]]))


def test_far_positions_stay_accurate():
    """In fp32, at 65,536, cosines are as accurate as at 0, and so is the product of neighbours."""
    far = torch.tensor([65_536, 65_535])
    by, exact = rotation(far, 16), rotation(far, 16, dtype=torch.double)
    assert by.dtype == torch.complex64
    assert (by - exact).abs().max() < 1e-7
    waves = sinusoids(far, 16)
    assert (waves - sinusoids(far, 16, dtype=torch.double)).abs().max() < 1e-7
    x = torch.randn(2, 1, 16)
    at_start, there = (rotate(x, rotation(each, 16)).flatten(1) for each in (far - 65_535, far))
    torch.testing.assert_close(at_start[0] @ at_start[1], there[0] @ there[1])


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_is_turned_in_fp32(kind):
    x, by = torch.randn(5, 2, 6).to(kind), rotation(torch.arange(5), 6)
    assert torch.equal(rotate(x, by), rotate(x.float(), by).to(kind))


@pytest.mark.parametrize("d", [4, 5])
def test_rows_may_lie_anywhere(d):
    """Columns of a wider tensor, a row that begins at an odd place, leading dimensions."""
    wide = torch.randn(3, 2 * d + 1)
    x, by = wide[:, 1 : d + 1].unsqueeze(1), rotation(torch.arange(3), d)
    expected = rotate(x.clone(), by)
    assert torch.equal(rotate(x, by), expected)
    for i in range(3):
        assert torch.equal(rotate(x[i : i + 1], by[i : i + 1]), expected[i : i + 1])
    assert torch.equal(rotate(x.expand(2, 3, 1, d), by)[1], expected)


def test_a_rotation_of_another_width():
    with pytest.raises(ZooError, match=r"Write `rotation\(positions, 8\)`"):
        rotate(torch.randn(3, 1, 8), rotation(torch.arange(3), 2))


@pytest.mark.parametrize("dim", [1, 2, 5, 8])
def test_sinusoids_are_those_of_the_paper(dim):
    positions = torch.tensor([0, 3, 1000])
    expected = torch.zeros(3, dim, dtype=torch.double)
    for row, p in enumerate(positions.tolist()):
        for column in range(dim):
            angle = p / 10000 ** ((column - column % 2) / dim)
            expected[row, column] = math.cos(angle) if column % 2 else math.sin(angle)
    found = sinusoids(positions, dim, dtype=torch.double)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    assert sinusoids(positions, dim).dtype == torch.float32


@pytest.mark.parametrize("n", [1, 2, 3, 8, 33])
def test_eigenvectors_of_a_path_equal_those_of_numpy(n):
    """Of the Laplacian D - A of the path that a window of 1 makes, its self-loops left out."""
    k, src, dst = 10, *(each.numpy() for each in sequence_graph([n], window=1).edges())
    adjacency = np.zeros((n, n))
    adjacency[dst, src] = 1 - (dst == src)
    values, vectors = np.linalg.eigh(np.diag(adjacency.sum(1)) - adjacency)
    found = path_eigenvectors(torch.arange(n), torch.full((n,), n), k, dtype=torch.double).numpy()
    there = min(k, n - 1)
    expected = vectors[:, 1 : there + 1] * math.sqrt(n)
    signs = np.sign((found[:, :there] * expected).sum(0))
    np.testing.assert_allclose(found[:, :there], expected * signs, atol=1e-9)
    np.testing.assert_allclose((found[:, :there] ** 2).mean(0), 1)
    np.testing.assert_allclose(
        values[1 : there + 1], 2 - 2 * np.cos(np.pi * np.arange(1, there + 1) / n), atol=1e-12
    )
    assert not found[:, there:].any()


def test_eigenvectors_of_a_batch_are_those_of_each_sequence():
    lengths = torch.tensor([4, 1, 7])
    owners = token_owners(lengths)
    found = path_eigenvectors(token_positions(lengths), lengths[owners], 5)
    for sequence, n in enumerate(lengths.tolist()):
        alone = path_eigenvectors(torch.arange(n), torch.full((n,), n), 5)
        assert torch.equal(found[owners == sequence], alone)


def test_eigenvectors_go_on_beyond_the_end():
    """The cosine is even about n - 1/2: position n has the entry of n - 1, and so on backwards."""
    n = 6
    found = path_eigenvectors(torch.arange(2 * n), torch.full((2 * n,), n), 3)
    torch.testing.assert_close(found[n:], found[:n].flip(0))


@pytest.mark.parametrize(
    "given", [[3, 1, 4], torch.tensor([3, 1, 4]), torch.tensor([3, 1, 4]).int()]
)
def test_tokens_know_their_place_and_their_sequence(given):
    assert token_positions(given).tolist() == [0, 1, 2, 0, 0, 1, 2, 3]
    assert token_owners(given).tolist() == [0, 0, 0, 1, 2, 2, 2, 2]


def test_no_sequences_have_no_tokens():
    assert token_positions([]).shape == token_owners([]).shape == (0,)
