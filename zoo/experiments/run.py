"""Run a recipe: the one place that puts data, encoding, model and training together.

A run leaves a folder behind that says what was run, on what, and what came of it, see
`zoo.experiments.run_folder`; one that was killed goes on from there.
"""

import functools
import json
import math
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from zoo.config.metadata import About
from zoo.config.options import pick
from zoo.config.recipe import Recipe, divide, recipe_text, word
from zoo.datasets import Dataset
from zoo.datasets.load import load_graph
from zoo.datasets.splits import PARTS, Split, make_split
from zoo.datasets.tasks import TASKS, Task
from zoo.encodings import ENCODINGS, flip_signs
from zoo.errors import ZooError
from zoo.experiments.resolve import check_processes, import_sources, load_recipe, resolve
from zoo.experiments.run_folder import Record, new_record
from zoo.experiments.summary import summarise
from zoo.registry import Model
from zoo.system import process_group
from zoo.system.environment import PACKAGES, choose_device, environment, installed_version
from zoo.training.checkpoint import EVERY
from zoo.training.fit import Epoch, fit
from zoo.weights.create import create_model
from zoo.weights.finetune import Start, layered
from zoo.weights.finetune import start as start_from

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
    checkpoint: float = EVERY,
) -> dict[str, Any]:
    """Train a recipe with each of its seeds and write the run's folder.

    Ctrl-C keeps what has been trained so far; the summary then says `interrupted: true`. Of several
    processes (`torchrun`, `zoo train --processes`) the first one writes. `resume_run` goes on.

    Args:
        recipe: a recipe, or what `load_recipe` takes.
        device: `auto` (CUDA where there is one), `cpu` or `cuda`.
        runs: the folder in which the run's own folder is made; no run is ever overwritten.
        watch: called after every epoch with the seed and the epoch.
        begin: called before training, where the recipe starts from other weights.
        checkpoint: seconds between two writings of all that a killed run needs to go on.

    Returns:
        The content of `summary.json`: scores per seed, their mean and standard deviation, cost.

    Raises:
        ZooError: something is wrong with the recipe, its data or the device, found before
            anything is written.
    """
    process_group.start()
    recipe = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    check_processes(recipe, process_group.count())
    if process_group.rank() > 0:  # what the others write is thrown away
        with tempfile.TemporaryDirectory() as folder:
            return _run(recipe, device, lambda: Record(Path(folder), math.inf), watch, _same)
    return _run(
        recipe, device, lambda: new_record(Path(runs), recipe.name, checkpoint), watch, begin
    )


def resume_run(
    folder: Path | str,
    *,
    device: str = "auto",
    watch: Watch = lambda seed, epoch: None,
    begin: Callable[[Start], None] = lambda start: None,
    checkpoint: float = EVERY,
) -> dict[str, Any]:
    """Go on with a run that was killed, and end with the numbers of one that was not (on a CPU).

    A run of several processes goes on in as many.

    Args:
        folder: the run's folder; every process has to see it.
        device: as for `run_recipe`.
        watch: as for `run_recipe`.
        begin: as for `run_recipe`.
        checkpoint: as for `run_recipe`.

    Returns:
        The content of `summary.json`.

    Raises:
        ZooError: the folder is none of a run, or that of a finished one, or damaged, or of a run
            of more or fewer processes.
    """
    process_group.start()
    record, recipe = unfinished(Path(folder), process_group.count(), checkpoint)
    if process_group.rank() == 0:
        process_group.wait()  # the others have read what is there
        return _run(recipe, device, lambda: record, watch, begin)
    with tempfile.TemporaryDirectory() as own:
        shutil.copytree(folder, own, dirs_exist_ok=True)
        process_group.wait()
        return _run(recipe, device, lambda: Record(Path(own), math.inf), watch, _same)


def unfinished(folder: Path, count: int, checkpoint: float = EVERY) -> tuple[Record, Recipe]:
    """Return the record and the recipe of a run that has not come to its end.

    Args:
        folder: the run's folder.
        count: how many processes are to go on with it.
        checkpoint: as for `run_recipe`.

    Raises:
        ZooError: as `resume_run`.
    """
    record = Record(folder, checkpoint)
    environment = record.read("environment.json")
    name, begun = environment.get("recipe", folder.name), environment.get("processes", 1)
    if begun != count:
        raise ZooError(f"{folder} is a run of {begun} processes; write `--processes {begun}`.")
    recipe = load_recipe(folder / "recipe.yaml").model_copy(update={"name": name})
    if all(record.result(seed) for seed in recipe.seeds):
        raise ZooError(f"{folder} is finished; `zoo train {name}` begins a new run.")
    return record, recipe


def _run(recipe, device, find: Callable[[], Record], watch, begin) -> dict[str, Any]:
    where = choose_device(device)
    prepared = prepare(recipe)
    with torch.random.fork_rng(devices=[]):
        # What is wrong with the model is found before anything is written.
        start = _build(recipe, prepared)[1]
    record = find()
    if start is not None:
        record.write("start_from.json", start._asdict())
        begin(start)
    record.write("environment.json", {"recipe": recipe.name, **environment(where)})
    record.write_text("recipe.yaml", recipe_text(resolve(recipe)))
    results: list[dict[str, Any]] = []
    error: BaseException | None = None
    for seed, split in zip(recipe.seeds, prepared.splits, strict=True):
        result = record.result(seed)
        if result is None:
            try:
                result, model = _train(recipe, prepared, seed, split, where, record, watch)
                record.keep(result, model)
            except BaseException as caught:  # the seeds before are kept, whatever it is
                error = caught
                break
        results.append(result)
        if result["interrupted"]:
            error = KeyboardInterrupt()
            break
    if not results:
        record.discard_unless_begun()
        raise error
    summary = summarise(
        recipe, prepared, results, record.folder, where, interrupted=error is not None
    )
    record.write("summary.json", summary)
    if error is not None and not isinstance(error, KeyboardInterrupt):
        raise error
    return summary


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


def _train(
    recipe, prepared, seed, split, device, record: Record, watch
) -> tuple[dict[str, Any], Model]:
    seed_everything(seed)
    model, start = _build(recipe, prepared)
    checkpoint = record.checkpoint(seed)
    record.forget_after(seed, checkpoint.epochs())
    with record.lines() as lines:

        def report(epoch: Epoch) -> None:
            lines.write(json.dumps({"seed": seed, **epoch._asdict()}) + "\n")
            watch(seed, epoch)

        hooks = {"augment": prepared.augment, "watch": report, "checkpoint": checkpoint}
        if start is not None:
            hooks["arrange"] = layered(model, recipe.start_from.lr_decay)
        result = fit(model, prepared.data, split, prepared.task, device, **hooks, **recipe.train)
    weights = sum(each.numel() for each in model.parameters())
    own = {"parameters": weights, "split_sha256": split.sha256}
    scores = {part: getattr(result, part) for part in PARTS}
    model.about = prepared.about.model_copy(update={"seed": seed, "scores": scores})
    return {"seed": seed, **result._asdict(), **own}, model


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
