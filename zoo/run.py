"""Run a recipe: the one place that puts data, encoding, model and training together.

A run leaves a folder behind that says what was run, on what, and what came of it: `recipe.yaml`
with every value, `environment.json`, a line per epoch in `metrics.jsonl`, the weights of each seed
in `seed-<s>/`, and `summary.json`.
"""

import functools
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from zoo import processes
from zoo.about import About
from zoo.datasets import Dataset, load_graph
from zoo.encodings import ENCODINGS, flip_signs
from zoo.environment import PACKAGES, choose_device, environment, installed_version
from zoo.errors import ZooError
from zoo.finetune import Start, layered
from zoo.finetune import start as start_from
from zoo.memory import peak_memory
from zoo.plan import check_processes, divide, import_sources, load_recipe, resolve
from zoo.recipe import Recipe, recipe_text, word
from zoo.registry import Model, create_model
from zoo.splits import PARTS, Split, make_split
from zoo.storage import write_whole
from zoo.table import pick
from zoo.tasks import TASKS, Task
from zoo.train import Epoch, Fit, fit
from zoo.weights import save

Watch = Callable[[int, Epoch], None]


class Prepared(NamedTuple):
    """A recipe's data, ready to train on: features with the encoding, and a split per seed."""

    data: Dataset
    task: Task
    splits: list[Split]
    augment: Callable[[torch.Tensor], torch.Tensor]
    about: About


def run_recipe(
    recipe: Recipe | str | Path | dict,
    *,
    device: str = "auto",
    runs: Path | str = "runs",
    watch: Watch = lambda seed, epoch: None,
    begin: Callable[[Start], None] = lambda start: None,
) -> dict[str, Any]:
    """Train a recipe with each of its seeds and write the run's folder.

    Ctrl-C keeps what has been trained so far; the summary then says `interrupted: true`. Of several
    processes (`torchrun`, `zoo train --processes`) the first one writes.

    Args:
        recipe: a recipe, or what `load_recipe` takes.
        device: `auto` (CUDA where there is one), `cpu` or `cuda`.
        runs: the folder in which the run's own folder is made; no run is ever overwritten.
        watch: called after every epoch with the seed and the epoch.
        begin: called before training, where the recipe starts from other weights.

    Returns:
        The content of `summary.json`: scores per seed, their mean and standard deviation, cost.

    Raises:
        ZooError: something is wrong with the recipe, its data or the device, found before
            anything is written.
    """
    processes.start()
    if processes.rank() > 0:  # what the others write is thrown away
        with tempfile.TemporaryDirectory() as folder:
            return _run(recipe, device, folder, watch, lambda start: None)
    return _run(recipe, device, runs, watch, begin)


def _run(recipe, device, runs, watch, begin) -> dict[str, Any]:
    recipe = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    check_processes(recipe, processes.count())
    where = choose_device(device)
    prepared = prepare(recipe)
    with torch.random.fork_rng(devices=[]):
        # What is wrong with the model is found before anything is written.
        start = _build(recipe, prepared)[1]
    folder = _new_folder(Path(runs), recipe.name)
    if start is not None:
        _write_json(folder / "start_from.json", start._asdict())
        begin(start)
    _write_json(folder / "environment.json", environment(where))
    text = recipe_text(resolve(recipe))
    write_whole(folder / "recipe.yaml", lambda path: path.write_text(text))
    results: list[dict[str, Any]] = []
    error: BaseException | None = None
    with (folder / "metrics.jsonl").open("a", buffering=1) as lines:
        for seed, split in zip(recipe.seeds, prepared.splits, strict=True):

            def report(epoch: Epoch, seed=seed) -> None:
                lines.write(json.dumps({"seed": seed, **epoch._asdict()}) + "\n")
                watch(seed, epoch)

            try:
                result, model = _train(recipe, prepared, seed, split, where, report)
                save(model, folder / f"seed-{seed}")
            except BaseException as caught:  # the seeds before are kept, whatever it is
                error = caught
                break
            results.append(result)
            if result["interrupted"]:
                error = KeyboardInterrupt()
                break
    if not results:
        shutil.rmtree(folder)
        raise error
    summary = _summary(recipe, prepared, results, folder, where, interrupted=error is not None)
    _write_json(folder / "summary.json", summary)
    if error is not None and not isinstance(error, KeyboardInterrupt):
        raise error
    return summary


def verdict(summary: dict[str, Any]) -> tuple[bool, str]:
    """Compare a finished run with what its recipe expects: at most `within` below is a pass."""
    expect, test = summary["expect"], summary["test"]["mean"]
    points = 100 * (test - expect["test"])
    lowest = -100 * expect["within"] - 1e-9  # 0.83 is within 0.015 of 0.845
    passed = not summary["interrupted"] and points >= lowest
    sentence = (
        f"measured {test:.4f}, expected {expect['test']:.4f} ({expect['source']}): "
        f"{points:+.2f} points, {100 * expect['within']:g} below is allowed."
    )
    return passed, sentence


def prepare(recipe: Recipe) -> Prepared:
    """Load a recipe's graph, its encoding, its task and one split per seed."""
    import_sources(recipe.imports, recipe.path.parent if recipe.path else Path())
    spec, own = divide(recipe.dataset, ("split",))
    data = load_graph(spec)
    task = pick(TASKS, data.task)
    split = own.get("split", data.split)
    try:
        splits = [make_split(split, data.y, data.masks, seed=seed) for seed in recipe.seeds]
    except ZooError as error:
        raise ZooError(f"dataset {word(spec)}: {error}") from None
    spec, own = divide(recipe.encoding, ("flip_signs",))
    encoding = pick(ENCODINGS, spec, data.graph)
    if data.x.shape[1] + encoding.shape[1] == 0:
        raise ZooError(
            f"{data.name} has no features to learn from; give its nodes some, or add an encoding, "
            "such as `encoding: {name: laplacian, k: 8}`."
        )
    augment = functools.partial(flip_signs, columns=encoding.shape[1])
    keep = not own.get("flip_signs", False)
    about = _about(recipe, data)
    return Prepared(data.add_features(encoding), task, splits, _same if keep else augment, about)


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _same(x: torch.Tensor) -> torch.Tensor:
    return x


def _build(recipe: Recipe, prepared: Prepared) -> tuple[Model, Start | None]:
    options = dict(recipe.model) if isinstance(recipe.model, dict) else {"name": recipe.model}
    outputs = prepared.task.outputs(prepared.data.classes)
    name = options.pop("name")
    try:
        model = create_model(name, prepared.data.x.shape[1], outputs, **options)
    except (MemoryError, RuntimeError) as error:
        raise ZooError(
            f"the model does not fit into memory; write a smaller `dim`. ({error})"
        ) from None
    if recipe.start_from is None:
        return model, None
    return model, start_from(model, name, recipe.start_from, prepared.about)


def _train(recipe, prepared, seed, split, device, report) -> tuple[dict[str, Any], Model]:
    seed_everything(seed)
    model, start = _build(recipe, prepared)
    data, task, augment = prepared.data, prepared.task, prepared.augment
    own = (layered(model, recipe.start_from.lr_decay),) if start else ()
    result: Fit = fit(model, data, split, task, device, augment, report, *own, **recipe.train)
    weights = sum(each.numel() for each in model.parameters())
    record = {"parameters": weights, "split_sha256": split.sha256}
    scores = {part: getattr(result, part) for part in PARTS}
    model.about = prepared.about.model_copy(update={"seed": seed, "scores": scores})
    return {"seed": seed, **result._asdict(), **record}, model


def _about(recipe: Recipe, data: Dataset) -> About:
    """Return what the weights of a recipe's runs will have to say of themselves."""
    full = resolve(recipe)
    return About(
        data=data.name,
        task=data.task,
        metric=data.metric,
        features=data.x.shape[1],
        feature_names=list(data.feature_names) if data.feature_names else None,
        labels=list(data.labels) if data.labels else None,
        transform=data.transform,
        encoding=divide(full["encoding"], ("flip_signs",))[0],
        recipe=full,
        versions={name: installed_version(name) for name in PACKAGES},
    )


def _summary(recipe, prepared, results, folder, device, *, interrupted) -> dict[str, Any]:
    return {
        "recipe": recipe.name,
        "dataset": prepared.data.name,
        "metric": prepared.data.metric,
        "seeds": results,
        "val": _spread([each["val"] for each in results]),
        "test": _spread([each["test"] for each in results]),
        "parameters": results[0]["parameters"],
        "seconds_per_epoch": statistics.median(each["seconds_per_epoch"] for each in results),
        "peak_memory_bytes": peak_memory(device),
        "device": str(device),
        "interrupted": interrupted,
        "folder": str(folder),
        "expect": recipe.expect.model_dump() if recipe.expect else None,
    }


def _spread(scores: list[float]) -> dict[str, float | int | None]:
    std = statistics.stdev(scores) if len(scores) > 1 else None
    return {"mean": statistics.fmean(scores), "std": std, "runs": len(scores)}


def _new_folder(runs: Path, name: str) -> Path:
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        try:
            (runs / f"{stem}{suffix}").mkdir(parents=True)
            return runs / f"{stem}{suffix}"
        except FileExistsError:
            continue
        except OSError as error:
            raise ZooError(f"{runs} cannot hold runs ({error}); name another folder.") from None
    raise ZooError(f"{runs} holds a thousand runs of this second; name another folder.")


def _write_json(path: Path, data: dict[str, Any]) -> None:
    write_whole(path, lambda draft: draft.write_text(json.dumps(data, indent=2) + "\n"))
