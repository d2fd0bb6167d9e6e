"""What a model was given in a call that cannot succeed, or has failed, said in one paragraph."""

import re
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from zoo.errors import ZooError, file_of

FAILURES = (RuntimeError, TypeError, ValueError, IndexError, AttributeError)
"""What torch raises where shapes and types do not fit together."""

SHAPES = re.compile(
    r"shapes? cannot be multiplied|must match the size|must match except|size mismatch|"
    r"is invalid for input of size|normalized_shape|running_mean should contain|"
    r"Given normalized|expected input|Expected size|not broadcastable|doesn't match|unflatten"
)
"""What torch's messages say about widths; others are left as they are."""


def check_rows(model: nn.Module, graph: Any, x: Any) -> None:
    """Look whether there is a row of features for each node of a graph.

    Raises:
        ZooError: there are more, or fewer.
    """
    of_nodes = hasattr(graph, "adj_tensors") and isinstance(x, Tensor)
    if of_nodes and x.shape[:1] != (graph.num_nodes(),):
        raise ZooError(f"{type(model).__name__}: {_of_input(model, graph, x)}")


def explain(model: nn.Module, graph: Any, x: Any, error: Exception) -> None:
    """Raise in plain words what made a call fail, where it can be seen; else return.

    Raises:
        ZooError: features that do not fit the model or the graph, or a width inside the model.
    """
    if isinstance(error, ZooError):
        return
    said = _of_input(model, graph, x) or _of_frames(model, x, error)
    if said is None and graph is None and "NoneType" in str(error):
        said = "it looks along the edges of a graph, and was given None for one."
    if said:
        raise ZooError(f"{type(model).__name__}: {said}") from error


def _of_input(model: nn.Module, graph: Any, x: Any) -> str | None:
    if not isinstance(x, Tensor):
        return f"x is a {type(x).__name__}, not a tensor: write `torch.as_tensor(x).float()`."
    wanted = model.config["in_dim"]
    nodes = x.shape[:1].numel() if graph is None else int(sum(graph.batch_num_nodes()))
    if (x.dim() == 1 and x.dtype == torch.int64) or "translation" in type(model).tasks:
        return _of_tokens(x, nodes, wanted)
    if x.dim() != 2 or len(x) != nodes:
        return f"x is {tuple(x.shape)}, and has to be ({nodes}, {wanted}): a row for each node."
    if x.shape[1] != wanted:
        return (
            f"x has {x.shape[1]} features per node, and the model was made for {wanted}. Make it "
            f"with `in_dim={x.shape[1]}`, or `zoo.create_model(name, data.x.shape[1], ...)`; an "
            "encoding adds columns as well."
        )
    kind = next((each.dtype for each in model.parameters()), x.dtype)
    if not x.is_floating_point() or (
        x.dtype != kind and not torch.is_autocast_enabled(x.device.type)
    ):
        return f"x is of {x.dtype} and the weights are of {kind}: write `x.to({kind})`."
    return None


def _of_tokens(x: Tensor, places: int, words: int) -> str | None:
    if x.shape == (places,) and not x.is_floating_point() and ((x >= 0) & (x < words)).all():
        return None
    return f"x has to be {places} tokens from 0 to {words - 1}, int64, of the model's vocabulary."


def _of_frames(model: nn.Module, x: Tensor, error: Exception) -> str | None:
    """Return which part of the model failed at what, from the frames that the error passed."""
    names = {id(module): path for path, module in model.named_modules()}
    place = found = None
    for frame in _frames(error.__traceback__):
        values = frame.tb_frame.f_locals
        inherited = frame.tb_frame.f_code.co_qualname == "Model.forward"
        if inherited and not isinstance(values.get("hidden", x), Tensor):
            return (
                f"`features` returned a {type(values['hidden']).__name__}, and `head` reads one "
                "tensor (N, dim). Return that alone; a penalty goes into `Output(logits, penalty)` "
                "of a `forward` of your own."
            )
        owner = values.get("self")
        if id(owner) not in names:
            continue
        if frame.tb_frame.f_code.co_filename == file_of(type(model)):
            place = f"{file_of(type(model))}:{frame.tb_lineno}"
        tensors = [each for key, each in values.items() if isinstance(each, Tensor)]
        if owner is not model and tensors:
            found = (names[id(owner)], owner, tuple(tensors[0].shape))
    if "Expected more than 1 value per channel" in str(error):
        return (
            f"`{found[0] if found else 'a norm'}` takes the mean over all nodes that it is given, "
            "and fails on one node; in training it also mixes the graphs of a batch. Write "
            "`build_norm('batch', dim)` of zoo.nn, which passes one node through its "
            "running means, or nn.LayerNorm, which looks at each node alone."
        )
    if not SHAPES.search(str(error)):
        return None
    where = f", at {place}" if place else ""
    if found is None:
        return f"two widths do not fit{where}: {error}"
    path, owner, shape = found
    return (
        f"widths do not fit in `{path}`{where}: {owner} was given a tensor {shape}. Make what "
        f"comes before it as wide as it reads, or the module as wide as what it is given ({error})."
    )


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next
