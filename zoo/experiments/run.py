"""Run an experiment: the one place that puts data, encoding, model and training together.

A recipe is resolved once and its graph read once. A run leaves a folder behind that says what was
run, on what, and what came of it, see `zoo.experiments.run_folder`; one that was killed goes on.
"""

import json
import math
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zoo.config.recipe import Recipe, recipe_text
from zoo.datasets.splits import PARTS, Split
from zoo.errors import ZooError
from zoo.experiments.imports import SIGNATURE, signature, signed_code
from zoo.experiments.prepare import Prepared, prepare
from zoo.experiments.resolve import Plan, check_processes, load_recipe, resolve
from zoo.experiments.run_folder import Record, new_record, summarise
from zoo.registry import Model
from zoo.system import process_group
from zoo.system.environment import choose_device, environment
from zoo.training.checkpoint import EVERY
from zoo.training.fit import Epoch, Hooks, fit
from zoo.weights.create import create_model
from zoo.weights.finetune import Start, layered
from zoo.weights.finetune import start as start_from

Watch = Callable[[int, Epoch], None]


def run_recipe(
    recipe: Plan | Recipe | str | Path | dict,
    *,
    device: str = "auto",
    runs: Path | str = "runs",
    watch: Watch = lambda seed, epoch: None,
    begin: Callable[[Start], None] = lambda start: None,
    checkpoint: float = EVERY,
) -> dict[str, Any]:
    """Train a recipe with each of its seeds and write the run's folder.

    Ctrl-C keeps what has been trained so far; the summary then says `interrupted: true`. Of several
    processes (`zoo train --processes`) the first one writes. `resume_run` goes on.

    Args:
        recipe: a recipe, what `load_recipe` takes, or what `resolve` made of a recipe. The code
            that it imports is run.
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
    plan = recipe if isinstance(recipe, Plan) else resolve(_loaded(recipe), trust=True)
    check_processes(plan, process_group.count())
    if process_group.rank() > 0:  # what the others write is thrown away
        with tempfile.TemporaryDirectory() as folder:
            return _run(plan, device, lambda: Record(Path(folder), math.inf), watch)
    name = plan.recipe.name
    return _run(plan, device, lambda: new_record(Path(runs), name, checkpoint), watch, begin)


def _loaded(recipe: Recipe | str | Path | dict) -> Recipe:
    return recipe if isinstance(recipe, Recipe) else load_recipe(recipe, trust=True)


def resume_run(
    folder: Path | str,
    *,
    device: str = "auto",
    watch: Watch = lambda seed, epoch: None,
    begin: Callable[[Start], None] = lambda start: None,
    checkpoint: float = EVERY,
    trust: bool = False,
) -> dict[str, Any]:
    """Go on with a run that was killed, and end with the numbers of one that was not (on a CPU).

    A run of several processes goes on in as many.

    Args:
        folder: the run's folder; every process has to see it.
        device: as for `run_recipe`.
        watch: as for `run_recipe`.
        begin: as for `run_recipe`.
        checkpoint: as for `run_recipe`.
        trust: run what the recipe imports, whoever began the run and whatever has changed.

    Returns:
        The content of `summary.json`.

    Raises:
        ZooError: the folder is none of a run, or that of a finished one, or damaged, or of a run
            of more or fewer processes, or imports code that is not to be trusted.
    """
    process_group.start()
    record, plan = unfinished(Path(folder), process_group.count(), checkpoint, trust)
    if process_group.rank() == 0:
        process_group.wait()  # the others have read what is there
        return _run(plan, device, lambda: record, watch, begin)
    with tempfile.TemporaryDirectory() as own:
        shutil.copytree(folder, own, dirs_exist_ok=True)
        process_group.wait()
        return _run(plan, device, lambda: Record(Path(own), math.inf), watch)


def unfinished(
    folder: Path, count: int, checkpoint: float = EVERY, trust: bool = False
) -> tuple[Record, Plan]:
    """Return the record and the plan of a run that has not come to its end.

    Args:
        folder: the run's folder.
        count: how many processes are to go on with it.
        checkpoint: as for `run_recipe`.
        trust: as for `resume_run`.

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
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise ZooError(
                f"{path} is a link, and a run goes on inside its own folder alone; put what the "
                "link leads to in its place."
            )
    return record, resolve(recipe, trust or signed_code(folder, recipe.plain()))


def _run(
    plan: Plan,
    device: str,
    find: Callable[[], Record],
    watch: Watch,
    begin: Callable[[Start], None] = lambda start: None,
) -> dict[str, Any]:
    where = choose_device(device)
    prepared = prepare(plan)
    with torch.random.fork_rng(devices=[]):
        # What is wrong with the model is found before anything is written.
        start = _build(prepared)[1]
    record = find()
    process_group.tell_run(record.folder)
    if start is not None:
        record.write("start_from.json", start._asdict())
        begin(start)
    record.write("environment.json", {"recipe": plan.recipe.name, **environment(where)})
    written = prepared.plan.plain()
    record.write_text("recipe.yaml", recipe_text(written))
    if plan.imports and (signed := signature(written, plan.code)):
        record.write(SIGNATURE, signed)
    results, error = _train_seeds(prepared, where, record, watch)
    if not results:
        record.discard_unless_begun()
        raise error
    summary = summarise(plan.recipe, prepared.data, results, where, folder=record.folder,
                        interrupted=error is not None)  # fmt: skip
    record.write("summary.json", summary)
    if error is not None and not isinstance(error, KeyboardInterrupt):
        raise error
    return summary


def _train_seeds(
    prepared: Prepared, where: torch.device, record: Record, watch: Watch
) -> tuple[list[dict[str, Any]], BaseException | None]:
    """Train each seed that has no result yet; return all results, and what ended it early."""
    results: list[dict[str, Any]] = []
    for seed, split in zip(prepared.plan.recipe.seeds, prepared.splits, strict=True):
        result = record.result(seed)
        if result is None:
            try:
                result, model = _train(prepared, seed, split, where, record, watch)
                record.keep(result, model)
            except BaseException as caught:  # the seeds before are kept, whatever it is
                return results, caught
        results.append(result)
        if result["interrupted"]:
            return results, KeyboardInterrupt()
    return results, None


def seed_everything(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _build(prepared: Prepared) -> tuple[Model, Start | None]:
    recipe, outputs = prepared.plan.recipe, prepared.task.outputs(prepared.data.classes)
    options = dict(recipe.model) if isinstance(recipe.model, dict) else {"name": recipe.model}
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
    prepared: Prepared,
    seed: int,
    split: Split,
    device: torch.device,
    record: Record,
    watch: Watch,
) -> tuple[dict[str, Any], Model]:
    seed_everything(seed)
    model, start = _build(prepared)
    checkpoint = record.checkpoint(seed)
    record.forget_after(seed, checkpoint.epochs())
    with record.lines() as lines:

        def report(epoch: Epoch) -> None:
            lines.write(json.dumps({"seed": seed, **epoch._asdict()}) + "\n")
            watch(seed, epoch)

        hooks = Hooks(watch=report, checkpoint=checkpoint)
        if start is not None:
            decay = prepared.plan.recipe.start_from.lr_decay
            hooks = hooks._replace(arrange=layered(model, decay))
        result = fit(model, prepared.on(split), hooks, device, **prepared.plan.train)
    weights = sum(each.numel() for each in model.parameters())
    own = {"parameters": weights, "split_sha256": split.sha256}
    scores = {part: getattr(result, part) for part in PARTS}
    model.about = prepared.about.model_copy(update={"seed": seed, "scores": scores})
    return {"seed": seed, **result._asdict(), **own}, model
