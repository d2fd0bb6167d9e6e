"""Optimisers and schedules of their learning rate, by name.

A schedule is a function of the epoch, from 0, and of the share of its steps that are taken with the
present one; most change once an epoch and ignore the latter.
"""

import inspect
import math
from collections.abc import Callable

import torch
from torch import Tensor

from zoo.config.options import Fraction, Positive, Rate, Table


def _adam(
    groups, lr, weight_decay, *, beta1: Rate = 0.9, beta2: Rate = 0.999, eps: Positive = 1e-8
) -> torch.optim.Optimizer:
    """Adam, weight decay added to the gradient.

    Args:
        beta1: decay of the mean gradient.
        beta2: decay of the mean squared gradient.
        eps: what is added to the root of that.
    """
    fused = _on_gpu(groups)
    return _bare(torch.optim.Adam)(groups, lr, (beta1, beta2), eps, weight_decay, fused=fused)


def _adamw(
    groups, lr, weight_decay, *, beta1: Rate = 0.9, beta2: Rate = 0.999, eps: Positive = 1e-8
) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay.

    Args:
        beta1: decay of the mean gradient.
        beta2: decay of the mean squared gradient.
        eps: what is added to the root of that.
    """
    fused = _on_gpu(groups)
    return _bare(torch.optim.AdamW)(groups, lr, (beta1, beta2), eps, weight_decay, fused=fused)


def _lamb(
    groups, lr, weight_decay, *, beta1: Rate = 0.9, beta2: Rate = 0.999, eps: Positive = 1e-6
) -> torch.optim.Optimizer:
    """LAMB: Adam's step of each weight matrix, as long as the matrix itself; for large batches.

    Args:
        beta1: decay of the mean gradient.
        beta2: decay of the mean squared gradient.
        eps: what is added to the root of that.
    """
    return _bare(Lamb)(groups, lr, (beta1, beta2), eps, weight_decay)


class Lamb(torch.optim.Optimizer):
    """Layer-wise adaptive moments: You et al. (arXiv 1904.00962), algorithm 2, phi the identity.

    With m and v the bias-corrected moments of Adam, r = m / (sqrt(v) + eps) + weight_decay x, every
    tensor x moves by -lr |x| / |r| r; by -lr r where one of the norms is 0.

    Args:
        params: parameters, or groups of them.
        lr: learning rate.
        betas: decays of the mean gradient and of the mean squared gradient.
        eps: what is added to the root of that.
        weight_decay: lambda of the paper.
    """

    def __init__(self, params, lr: float, betas: tuple[float, float], eps, weight_decay: float):
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure=None) -> None:
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            for x in group["params"]:
                if x.grad is not None:
                    self._update(x, group)

    def _update(self, x: Tensor, group: dict) -> None:
        state, (beta1, beta2) = self.state[x], group["betas"]
        if not state:
            state |= {"step": torch.tensor(0.0), "exp_avg": torch.zeros_like(x)}
            state["exp_avg_sq"] = torch.zeros_like(x)
        state["step"] += 1
        count, m, v = state["step"].item(), state["exp_avg"], state["exp_avg_sq"]
        m.lerp_(x.grad, 1 - beta1)
        v.mul_(beta2).addcmul_(x.grad, x.grad, value=1 - beta2)
        root = (v / (1 - beta2**count)).sqrt_().add_(group["eps"])
        r = (m / (1 - beta1**count)).div_(root).add_(x, alpha=group["weight_decay"])
        size, other = x.norm(), r.norm()
        trust = torch.where((size > 0) & (other > 0), size / other, 1.0)
        x.sub_(r.mul_(trust), alpha=group["lr"])


class _Still(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 0.0})

    def step(self, closure=None) -> None:
        """Update nothing."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Leave the gradients as they are."""


def still(groups) -> torch.optim.Optimizer:
    """Return an optimiser that updates nothing and frees no gradient, for estimates of memory."""
    return _bare(_Still)(groups)


def _on_gpu(groups: list[dict] | list[Tensor]) -> bool | None:
    """Return True where one kernel of the GPU can update all weights, None to leave it to torch."""
    params = ([group] if isinstance(group, Tensor) else group["params"] for group in groups)
    weights = [weight for group in params for weight in group]
    return all(weight.is_cuda and weight.is_floating_point() for weight in weights) or None


def _bare(kind: type[torch.optim.Optimizer]) -> type[torch.optim.Optimizer]:
    """Return the optimiser without what prepares it for torch.compile: to import that takes 2 s."""
    names = ("add_param_group", "load_state_dict", "state_dict", "step", "zero_grad")
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    methods["step"] = torch.no_grad()(methods["step"])
    return type(kind.__name__, (kind,), methods)


OPTIMIZERS = Table("optimizer", {"adam": _adam, "adamw": _adamw, "lamb": _lamb})
"""Word to builder `(groups, lr, weight_decay, *, options) -> optimizer`."""

Factor = Callable[..., float]
"""`(epoch, until = 1)` to a factor of the learning rate."""


def _constant(epochs: int) -> Factor:
    """The same learning rate throughout."""
    return lambda epoch, until=1.0: 1.0


def _cosine(epochs: int, *, warmup: Fraction = 0.0, floor: Fraction = 0.0):
    """Linear warm-up, then half a cosine down, moving once an epoch.

    Args:
        warmup: share of the epochs spent warming up.
        floor: where the rate would be after the last epoch, as a share of `lr`.
    """
    return _warmed_up(
        epochs, warmup, lambda t: floor + (1 - floor) * (1 + math.cos(math.pi * t)) / 2
    )


def _linear(epochs: int, *, warmup: Fraction = 0.1, floor: Fraction = 0.0):
    """Linear warm-up, then a straight line down, moving once an epoch.

    Args:
        warmup: share of the epochs spent warming up.
        floor: where the rate would be after the last epoch, as a share of `lr`.
    """
    return _warmed_up(epochs, warmup, lambda t: 1 - (1 - floor) * t)


def _inverse_sqrt(epochs: int, *, warmup: Positive = 4.0) -> Factor:
    """Linear warm-up, then down with the root of the time, moving at every step.

    Vaswani et al. (arXiv 1706.03762), equation 3, with `lr` as its peak.

    Args:
        warmup: epochs spent warming up, also a fraction of one.
    """

    def factor(epoch: int, until: float = 1.0) -> float:
        time = epoch + until
        return min(time / warmup, math.sqrt(warmup / time))

    return factor


SCHEDULES = Table(
    "schedule",
    {
        "constant": _constant,
        "cosine": _cosine,
        "inverse-sqrt": _inverse_sqrt,
        "linear": _linear,
    },
)
"""Word to builder `(epochs, *, options) -> Factor`."""


def _warmed_up(epochs: int, warmup: float, decay: Callable[[float], float]) -> Factor:
    """Return a factor that rises from 1/w to 1 in the first w epochs and then follows `decay`."""
    rising = round(warmup * epochs)

    def factor(epoch: int, until: float = 1.0) -> float:
        if epoch < rising:
            return (epoch + 1) / rising
        return decay((epoch - rising) / max(1, epochs - rising))

    return factor
