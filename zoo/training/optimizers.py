"""Optimisers by name."""

import inspect

import torch

from zoo.config.options import Table


def _adam(groups, lr, weight_decay) -> torch.optim.Optimizer:
    """Adam, weight decay added to the gradient."""
    return _bare(torch.optim.Adam)(groups, lr=lr, weight_decay=weight_decay)


def _adamw(groups, lr, weight_decay) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay."""
    return _bare(torch.optim.AdamW)(groups, lr=lr, weight_decay=weight_decay)


def _bare(kind: type[torch.optim.Optimizer]) -> type[torch.optim.Optimizer]:
    """Return the optimiser without what prepares it for torch.compile: to import that takes 2 s."""
    names = ("add_param_group", "load_state_dict", "state_dict", "step", "zero_grad")
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    methods["step"] = torch.no_grad()(methods["step"])
    return type(kind.__name__, (kind,), methods)


OPTIMIZERS = Table("optimizer", {"adam": _adam, "adamw": _adamw})
"""Word to builder `(groups, lr, weight_decay) -> optimizer`."""
