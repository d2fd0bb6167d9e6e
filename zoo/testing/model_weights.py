"""The promises of a model's weights: found, trained, saved, and carried over to another graph."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch.nn import functional

from zoo.config.options import options_of
from zoo.registry import MODELS
from zoo.system.context import using
from zoo.tasks.task import TASKS
from zoo.testing.cases import CLASSES, FEATURES, Case, tiny
from zoo.testing.promise import keep
from zoo.weights.create import create_model
from zoo.weights.load import load, save
from zoo.weights.transfer import transfer


def it_can_be_made(case: Case) -> None:
    """It is made of `in_dim`, `out_dim` and its options, and has a head."""
    case.build()


def every_parameter_gets_a_gradient(case: Case) -> None:
    """Every parameter gets a finite gradient."""
    graph, x, y = tiny()
    model = case.build()
    output = model(graph, x)
    loss = functional.cross_entropy(output.logits, y) + output.penalty
    loss.backward()
    silent = [key for key, parameter in model.named_parameters() if parameter.grad is None]
    keep(
        not silent,
        f"{', '.join(silent)} got no gradient, and would never be trained. Use each in `features`, "
        "or do not make it; look for `.detach()`, `.data` and `torch.no_grad()`.",
    )
    wild = [
        key for key, parameter in model.named_parameters() if not parameter.grad.isfinite().all()
    ]
    keep(
        not wild,
        f"the gradient of {', '.join(wild)} is not finite: of a root, a norm or a logarithm at 0, "
        "or of a softmax over nothing. Add a small number inside: `(x + 1e-6).sqrt()`.",
    )


def every_parameter_is_trained_once(case: Case) -> None:
    """`parameter_groups` holds each parameter once."""
    model = case.build()
    grouped = [id(parameter) for group in model.parameter_groups() for parameter in group["params"]]
    names = {id(parameter): key for key, parameter in model.named_parameters()}
    missing = [key for parameter, key in names.items() if grouped.count(parameter) != 1]
    keep(
        sorted(grouped) == sorted(names),
        f"`parameter_groups` does not hold each parameter exactly once: look at "
        f"{', '.join(missing) or 'parameters that are not of the model'}. A parameter that is left "
        "out is never trained.",
    )


def it_memorises_the_tiny_graph(case: Case) -> None:
    """It learns 12 random labels by heart: 11 of 12 on average over random batches."""
    graph, x, y = tiny()
    known = options_of(MODELS[case.name])
    free = {key: 0.0 for key in known if key.startswith("drop") or "dropout" in key}
    model = case.build(**{key: rate for key, rate in free.items() if key not in case.options})
    optimiser = torch.optim.Adam(model.parameter_groups(), lr=0.005)
    # Random features are drawn anew at every step: their noise is learnt away slowly, by a rate
    # that falls to 0. One lucky draw is no memory. Nor is one random batch in evaluation: each
    # identity deals another one.
    recent, epochs = 1.0, 400 if case.options.get("attention") in (None, "native") else 1200
    falling = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda epoch: min(1.0, 2 - 2 * epoch / epochs)
    )
    for epoch in range(epochs):
        model.begin_epoch(epoch)
        optimiser.zero_grad()
        output = model.train()(graph, x)
        loss = functional.cross_entropy(output.logits, y)
        (loss + output.penalty).backward()
        optimiser.step()
        falling.step()
        recent = 0.9 * recent + 0.1 * loss.item()
        if recent < 0.01:
            break
    right = []
    for _ in range(16):
        with using(identities=torch.randint(2**62, (12,))):
            right.append(model.eval()(graph, x).logits.argmax(1) == y)
    rate = torch.stack(right).float().mean()
    keep(
        rate >= 11 / 12,
        f"after {epoch + 1} epochs it knows {rate:.0%} of 12 random labels, and should know 92 %. "
        "Something keeps it from learning: a wrong sign, a `detach`, weights that start at 0 or "
        "far too large, a layer that averages everything away, or a model too narrow.",
    )


def weights_move_to_other_sizes(case: Case) -> None:
    """Weights whose shape depends on the data set begin with `stem` or `head`, and no others."""
    source = case.build()
    target = create_model(case.name, 7, 2, **case.options)
    report = transfer(target, source.state_dict())
    wrong = [key for key in report.fresh if not key.startswith(("stem", "head"))]
    keep(
        report.fresh and not wrong,
        f"{', '.join(wrong) or 'no weight'} changes its shape with the numbers of features or "
        "classes. Such weights have to begin with `stem` (of the features) or `head` (of the "
        "logits), and only they: all others are carried over to another graph by fine-tuning.",
    )
    moved = dict(target.state_dict())
    keep(
        all(torch.equal(moved[key], source.state_dict()[key]) for key in report.loaded),
        "weights that were carried over have changed: do not make them anew in `load_state_dict`.",
    )
    same = transfer(create_model(case.name, FEATURES, CLASSES, **case.options), source.state_dict())
    keep(
        not same.fresh and not same.unused,
        f"made twice with the same options it has other weights: {same.fresh + same.unused}.",
    )


def saved_and_loaded_it_answers_the_same(case: Case) -> None:
    """Saved and loaded again it gives the very same logits, in evaluation."""
    graph, x, _ = tiny()
    model = case.build().eval()
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        save(model, Path(folder) / "weights")
        again = load(Path(folder) / "weights")
    keep(not again.training, "a loaded model is in training: do not override `train` or `eval`.")
    keep(
        torch.equal(again(graph, x).logits, model(graph, x).logits),
        "saved and loaded again it gives other logits. What it knows has to be in parameters, in "
        "buffers (`self.register_buffer`) and in its options; a plain attribute is not saved.",
    )


def it_says_what_it_is(case: Case) -> None:
    """The docstring of its class has a line for each option, and its tasks are known."""
    model = MODELS[case.name]
    said = model.__doc__ or ""
    keep(
        said and "Args:" in said,
        f"the class {model.__name__} has no docstring with `Args:`. Write what the model is, an "
        "empty line, `Args:` and a line for each option: `zoo info` prints it.",
    )
    missing = [key for key in options_of(model) if f"        {key}: " not in said]
    keep(
        not missing,
        f"the docstring of {model.__name__} says nothing about {', '.join(missing)}. Write a line "
        f"`{(missing or [''])[0]}: what it is` under `Args:`.",
    )
    strange = set(model.tasks) - set(TASKS)
    keep(not strange, f"there are no tasks {strange}; choose from {', '.join(TASKS)}.")
