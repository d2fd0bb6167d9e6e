"""Random features: softmax and Gaussian attention estimated in time and memory linear in N.

"Rethinking Attention with Performers" (arXiv 2009.14794), FAVOR+. Lemma 1: exp(x . y) is the mean,
over Gaussian directions w, of f(x) f(y) with f(x) = exp(w . x - |x|^2 / 2), which is positive.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from zoo.errors import ZooError
from zoo.ops.precision import in_fp32
from zoo.ops.ragged import Ragged, for_ragged, sets_of, takes_ragged
from zoo.ops.random_order import Kept, drawn, drawn_seed
from zoo.system.memory import upload
from zoo.tracing import operator

_MOST_NUMBERS = 2**25  # whose QR decomposition takes about ten seconds


class RandomKernel(nn.Module):
    """An attention (q, k, v, w) by `count` random directions w, new ones in every training call.

    It has no weights and is a module only so that `train()` and `eval()` reach it. In training the
    global generator seeds the directions, by one draw; in evaluation `seed` does: they are kept.
    """

    def __init__(self, kernel: Callable, count: int, *, seed: int):
        super().__init__()
        self.kernel, self.count, self.seed = kernel, count, seed
        self._kept = Kept()

    @property
    def takes_ragged(self) -> bool:
        """Whether the kernel takes sets of several sizes in one call."""
        return takes_ragged(self.kernel)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, ragged: Ragged | None = None) -> Tensor:
        """Attend from q to k, v, all (..., N, H, D); all sets and heads share the directions."""
        dim, device = q.shape[-1], q.device
        draw = partial(random_directions, self.count, dim, device=device)
        if self.training:
            w, _ = drawn(draw)
        else:
            w = self._kept.get((dim, device), partial(draw, self.seed))
        return self.kernel(q, k, v, w) if ragged is None else self.kernel(q, k, v, w, ragged=ragged)


@for_ragged
@in_fp32
def performer(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, *, ragged: Ragged | None = None
) -> Tensor:
    """Return sum_j (f(q_i) . f(k_j)) v_j / sum_j f(q_i) . f(k_j), q and k divided by D^(1/4).

    The kernel is that of softmax, exp(q_i . k_j / sqrt(D)), in expectation; the ratio has a bias
    of order 1/M besides. The sums over the nodes are those of each of the M features, so they are
    read here as: each feature averages the values over its set, each node averages the features.
    Both averages are a softmax, which subtracts its maximum (over the nodes of the set per feature,
    over the features per query): nothing overflows, no denominator vanishes, and no constant has
    to be added to the features, as the authors' program does. Sums are kept in fp32.

    Args:
        q: queries (..., N, H, D).
        k: keys (..., N, H, D).
        v: values (..., N, H, D).
        w: random directions (M, D), see `random_directions`.
        ragged: of sets of several sizes, whose rows q, k and v are, (N, H, D).
    """
    sets = sets_of(ragged)
    q, k, v = map(sets.cut, (q, k, v))
    w = w.to(q) * q.shape[-1] ** -0.25
    lengths = k.square().sum(-1, keepdim=True) / q.shape[-1] ** 0.5
    # log f(k)
    keys = torch.einsum("...nhd,md->...nhm", k, w) - sets.only(lengths / 2, torch.inf)
    averages, mass = sets.averages(keys, v)  # mass (..., 1, H, M), the log of each feature's sum
    # The factor exp(-|q|^2 / 2) of f(q) is common to numerator and denominator.
    shares = (torch.einsum("...nhd,md->...nhm", q, w) + mass).softmax(-1)
    return sets.join(torch.einsum("...nhm,...hmd->...nhd", shares, averages))


@for_ragged
@in_fp32
def sine_attention(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, *, ragged: Ragged | None = None
) -> Tensor:
    """Return sum_j s_ij v_j / sum_j s_ij, s_ij the mean over directions of cos w (q_i - k_j).

    Linear in N: cos(a - b) = cos a cos b + sin a sin b. In expectation s_ij is the Gaussian kernel
    exp(-|q_i - k_j|^2 / 2), q and k divided by D^(1/4) ("Random Features for Large-Scale Kernel
    Machines", Rahimi and Recht 2007). The standard deviation of s_ij is at most (2 M)^-1/2; a mean
    over j below that, vanishing or negative, says nothing. What it lacks, c_i = max(0,
    (2 M)^-1/2 - mean_j s_ij), is added to all s_ij of the node: no denominator vanishes, the
    weights have sum 1, and a node that is near to no other gets the mean of all. Sums are kept in
    fp32.

    Args:
        q: queries (..., N, H, D).
        k: keys (..., N, H, D).
        v: values (..., N, H, E).
        w: random directions (M, D), see `random_directions`.
        ragged: of sets of several sizes, whose rows q, k and v are, (N, H, D).
    """
    sets = sets_of(ragged)
    q, k, v = map(sets.cut, (q, k, v))  # values of zero where there is no row
    queries, keys = (_waves(x, w) for x in (q, k))  # (..., N, H, 2 M)
    mass = torch.einsum("...nhm,...hm->...nh", queries, sets.mean(keys).squeeze(-3)).unsqueeze(-1)
    (state,) = sets.total(torch.einsum("...nhm,...nhe->...hme", keys, v))
    lacking = ((2 * len(w)) ** -0.5 - mass).clamp(min=0)
    out = torch.einsum("...nhm,...hme->...nhe", queries, state / sets.rows(v))
    return sets.join((out + lacking * sets.mean(v)) / (mass + lacking))


def _waves(x: Tensor, w: Tensor) -> Tensor:
    """Return [cos w x, sin w x] / sqrt(M), (..., 2 M), for x (..., D) divided by D^(1/4)."""
    angles = x @ w.to(x).mT * x.shape[-1] ** -0.25
    return torch.cat([angles.cos(), angles.sin()], dim=-1) * len(w) ** -0.5


def random_directions(
    count: int, dim: int, seed: int | None, device: torch.device | str = "cpu"
) -> Tensor:
    """Return random directions (count, dim) in double precision: orthogonal random features.

    Each one is a standard Gaussian; those of a block of `dim` are orthogonal, which lowers the
    variance. They are drawn on the CPU, from a generator of their own, so that all devices agree;
    None for its seed draws one.
    """
    return upload(_random_directions(count, dim, seed), device)


@operator(
    "(int count, int dim, int? seed) -> Tensor",
    lambda count, dim, _: torch.empty(count, dim, dtype=torch.double),
    random=True,
)
def _random_directions(count: int, dim: int, seed: int | None) -> Tensor:
    seed = drawn_seed() if seed is None else seed
    blocks = -(-count // dim)
    if blocks * dim**2 > _MOST_NUMBERS:
        raise ZooError(
            f"to draw {count:,} random features of {dim:,} columns takes minutes, each time anew; "
            "write fewer `random_features`, or a smaller width."
        )
    generator = torch.Generator().manual_seed(seed)
    gaussian = torch.randn(blocks, dim, dim, generator=generator, dtype=torch.double)
    basis, triangle = torch.linalg.qr(gaussian)
    # LAPACK fixes signs as it likes; with those of Gram-Schmidt the basis is uniform.
    basis = basis * triangle.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    lengths = torch.randn(count, dim, generator=generator, dtype=torch.double).norm(dim=1)
    return basis.mT.reshape(-1, dim)[:count] * lengths.unsqueeze(1)
