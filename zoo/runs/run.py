"""Train a recipe: the one place that puts data, encoding, model and training together.

A recipe is resolved once and its graph read once. A run leaves a folder behind that says what was
run, on what, and what came of it, see `zoo.runs.run_folder`; one that was killed goes on.
"""

import contextlib
import logging
import math
import shlex
import shutil
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from zoo.config.recipe import Recipe, divide, recipe_text, word
from zoo.config.yaml_lines import line_text
from zoo.data.known_nodes import NODES
from zoo.data.load import resolved_dataset
from zoo.data.splits import PARTS, Split, constant_answer
from zoo.errors import ZooError
from zoo.inference.training_data import nodes_of, warn_of_seen
from zoo.registry import Model
from zoo.runs.prepare import Prepared, build, check_same_files, prepare, seed_everything
from zoo.runs.resolve import Plan, check_processes, load_recipe, resolve
from zoo.runs.run_folder import (
    RunFolder,
    Tell,
    environment_changes,
    is_summarised,
    need_run,
    new_folder,
    read_environment,
    read_recipe,
    silent,
    summarise,
    threads_of,
)
from zoo.system import process_group
from zoo.system.environment import choose_device, environment, last_digits, using_threads
from zoo.system.files import WriteError
from zoo.trackers import check_trackers
from zoo.training.checkpoint import EVERY
from zoo.training.links import heuristic_scores
from zoo.training.trainer import Epoch, fit
from zoo.weights.files import CONFIG
from zoo.weights.finetune import Start

Watch = Callable[[int, Epoch], None]


def run_recipe(
    recipe: Plan | Recipe | str | Path | dict,
    *,
    device: str = "auto",
    runs: Path | str = "runs",
    watch: Watch = lambda seed, epoch: None,
    begin: Callable[[Start], None] = lambda start: None,
    checkpoint: float = EVERY,
    track: Sequence[str] = (),
    tell: Tell = warnings.warn,
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
        track: trackers that are told of it: `csv`, `tensorboard`, `wandb`, `mlflow`.
        tell: given a sentence about what cannot be written, or is damaged, and what is done.

    Returns:
        The content of `summary.json`: scores per seed, their mean and standard deviation, cost.

    Raises:
        ZooError: something is wrong with the recipe, its data or the device, found before
            anything is written; or a file of the run cannot be written: says what is kept where.
    """
    process_group.start()
    if not isinstance(recipe, Plan | Recipe):
        recipe = load_recipe(recipe, trust=True)
    plan = recipe if isinstance(recipe, Plan) else resolve(recipe, trust=True)
    check_processes(plan, process_group.count())
    if process_group.rank() > 0:  # what the others write is thrown away
        with tempfile.TemporaryDirectory() as scratch:
            return _run(plan, device, lambda: RunFolder(Path(scratch), math.inf, silent), watch)

    def make_folder() -> RunFolder:
        return RunFolder(new_folder(Path(runs), plan.recipe.name), checkpoint, tell, new=True)

    return _run(plan, device, make_folder, watch, begin, track)


def resume_run(
    folder: Path | str,
    *,
    device: str = "auto",
    watch: Watch = lambda seed, epoch: None,
    begin: Callable[[Start], None] = lambda start: None,
    checkpoint: float = EVERY,
    track: Sequence[str] = (),
    tell: Tell = warnings.warn,
) -> dict[str, Any]:
    """Go on with a run that was killed, and end with the numbers of one that was not (on a CPU).

    The code that its recipe imports is run, whoever's it is. A run of several processes goes on in
    as many, and on the same device each with as many threads as before.

    Args:
        folder: the run's folder; every process has to see it.
        device: as all others an argument of `run_recipe`.
        watch: called after every epoch.
        begin: called before training.
        checkpoint: seconds.
        track: what trackers were told before is not told again.
        tell: is also given what may make the numbers differ, such as another torch.

    Returns:
        The content of `summary.json`.

    Raises:
        ZooError: the folder is none of a run, or that of a finished one, or of a run of more or
            fewer processes, or its recipe or its data have changed.
    """
    process_group.start()
    run_folder, plan = load_unfinished(Path(folder), process_group.count(), checkpoint, tell)
    recorded = read_environment(run_folder.path)
    if recorded is not None:
        check_same_files(recorded.files, plan)
    with using_threads(threads_of(recorded, str(choose_device(device)))):
        if process_group.rank() == 0:
            process_group.wait()  # the others have read what is there
            now = last_digits(choose_device(device))
            for sentence in environment_changes(recorded, now, plan.code):
                tell(sentence)
            return _run(plan, device, lambda: run_folder, watch, begin, track)
        with tempfile.TemporaryDirectory() as scratch:
            shutil.copytree(folder, scratch, dirs_exist_ok=True)
            process_group.wait()
            return _run(plan, device, lambda: RunFolder(Path(scratch), math.inf, silent), watch)


def load_unfinished(
    folder: Path, processes: int, checkpoint: float = EVERY, tell: Tell = warnings.warn
) -> tuple[RunFolder, Plan]:
    """Return the folder and the plan of a run that has not come to its end.

    Args:
        folder: the run's folder.
        processes: how many are to go on with it.
        checkpoint: as for `run_recipe`.
        tell: as for `run_recipe`.

    Raises:
        ZooError: as `resume_run`.
    """
    need_run(folder)
    run_folder = RunFolder(folder, checkpoint, tell)
    recorded = read_environment(folder)
    if recorded is not None and recorded.processes != processes:
        raise ZooError(
            f"{folder} is a run of {recorded.processes} processes; write "
            f"`--processes {recorded.processes}`."
        )
    path = run_folder.read_recipe(recorded and recorded.recipe_sha256)
    name = recorded.recipe if recorded else folder.name
    recipe = load_recipe(path).model_copy(update={"name": name})
    if all(run_folder.result(seed) for seed in recipe.seeds) and is_summarised(folder):
        more = f"train.epochs={recipe.train['epochs']}"
        raise ZooError(
            f"{folder} is finished. {_finetuning(folder, recipe, [more])}, for so many epochs "
            f"more; `zoo train {shlex.quote(str(path))}` begins a new run."
        )
    return run_folder, resolve(recipe, trust=True)


def explain_resume(folder: Path, changes: Sequence[str]) -> str:
    """Say what to write to train on from a run with other settings, with which it cannot go on.

    Raises:
        ZooError: the folder is none of a run.
    """
    need_run(folder)
    path, _ = read_recipe(folder)
    anew = shlex.join(["zoo", "train", str(path), *changes])
    return (
        f"--resume ends a run with the settings that it was begun with, and takes no KEY=VALUE. "
        f"{_finetuning(folder, load_recipe(path), changes)}; `{anew}` begins a new run."
    )


def _finetuning(folder: Path, recipe: Recipe, changes: Sequence[str]) -> str:
    """Return the sentence that names the fine-tuning of a run on its own data."""
    dataset, _ = divide(recipe.dataset, ("split",))  # `zoo finetune` takes that of the run
    with contextlib.suppress(ZooError):  # it needs an option, or its code has not been run
        defaults = resolved_dataset(dataset["name"])
        dataset = {k: v for k, v in dataset.items() if k == "name" or v != defaults.get(k)}
    data = line_text(dataset) if len(dataset) > 1 else dataset["name"]
    words = ["zoo", "finetune", str(folder), "--data", data]
    if word(recipe.graph) == "file":  # which weights do not know
        changes = [f"graph={line_text(recipe.graph)}", *changes]
    for source in recipe.imports:
        words += ["--import", source]
    if start := recipe.start_from:
        frozen = [start.freeze] if isinstance(start.freeze, str) else start.freeze
        words += [f"--freeze={name}" for name in frozen if name != "none"]
        words += [f"--lr-decay={start.lr_decay:g}"] if start.lr_decay != 1 else []
    line = f"`{shlex.join([*words, *changes])}` trains on from its best weights"
    if any(folder.glob(f"seed-*/{CONFIG}")):
        return line
    return f"Once `zoo train --resume {shlex.quote(str(folder))}` has ended it, {line}"


def _run(
    plan: Plan,
    device: str,
    make_folder: Callable[[], RunFolder],
    watch: Watch,
    begin: Callable[[Start], None] = lambda start: None,
    track: Sequence[str] = (),
) -> dict[str, Any]:
    """Read the data, write the run's folder, train every seed and write the summary."""
    check_trackers(track)
    torch_device = choose_device(device)
    prepared = prepare(plan)
    with torch.random.fork_rng(devices=[]):  # a model's faults are found before anything is written
        model, start = build(prepared)
    with make_folder() as folder:
        process_group.tell_run(folder.path)
        try:
            _write_beginning(folder, prepared, start, torch_device, track)
            if start is not None:
                begin(start)
            del model
            results, error = _train_seeds(prepared, torch_device, folder, watch)
            if not results:
                raise error
            warn_of_constant_answers(prepared, results)
            summary = summarise(
                plan.recipe,
                prepared.data,
                prepared.task.metric_name,
                results,
                torch_device,
                folder=folder.path,
                interrupted=error is not None,
            )
            folder.write("summary.json", summary)
            if error is not None and not isinstance(error, KeyboardInterrupt):
                raise error
            return summary
        except BaseException as error:
            if not folder.discard_unless_begun() and isinstance(error, WriteError):
                again = f"`zoo train --resume {shlex.quote(str(folder.path))}`"
                raise WriteError(f"{error} Then {again} goes on from what is written.") from None
            raise


def _write_beginning(
    folder: RunFolder,
    prepared: Prepared,
    start: Start | None,
    device: torch.device,
    track: Sequence[str],
) -> None:
    """Write what is known before training; a run that goes on has it already."""
    plan, recipe = prepared.plan, prepared.plan.plain()
    folder.write_recipe(recipe_text(recipe))
    if start is not None:
        seen = warn_of_seen(start.weights, plan.dataset, prepared.data, prepared.splits)
        folder.write_start(start, seen)
    folder.track(track, recipe)
    about = {"recipe": plan.recipe.name, "files": prepared.about.files or {}}
    folder.write_environment(lambda: {**about, "imports": plan.code, **environment(device)})
    if not folder.holds(NODES):
        splits = dict(zip(plan.recipe.seeds, prepared.splits, strict=True))
        weights = plan.start_from and plan.start_from["weights"]
        if nodes := nodes_of(plan.dataset, prepared.data, splits, weights):
            folder.write(NODES, nodes)


def warn_of_constant_answers(prepared: Prepared, results: Sequence[dict[str, Any]]) -> None:
    """Name the seeds whose weights score as if they answered one class for every row."""
    seeds_of: dict[str, list[int]] = {}
    for result, split in zip(results, prepared.splits, strict=False):  # some may be left out
        answer = constant_answer(prepared.task, prepared.data, split, result)
        if answer is not None:
            seeds_of.setdefault(answer, []).append(result["seed"])
    for answer, seeds in seeds_of.items():
        which = f"seed {seeds[0]} scores" if len(seeds) == 1 else f"{len(seeds)} seeds score"
        logging.getLogger(__name__).warning(
            f"{which} just what always answering {answer} would: nothing has been learnt that "
            "tells the classes apart; more epochs, scaled features, an encoding or another "
            "learning rate may help."
        )


def _train_seeds(
    prepared: Prepared, device: torch.device, folder: RunFolder, watch: Watch
) -> tuple[list[dict[str, Any]], BaseException | None]:
    """Train each seed that has no result yet; return all results, and what ended it early."""
    results: list[dict[str, Any]] = []
    for seed, split in zip(prepared.plan.recipe.seeds, prepared.splits, strict=True):
        result = folder.result(seed)
        if result is not None and result["split_sha256"] != split.sha256:
            raise ZooError(
                f"the split of seed {seed} is not the one that it was trained with, and the scores "
                "of the other seeds would be of different nodes; begin anew."
            )
        if result is None:
            try:
                result, model = _train(prepared, seed, split, device, folder, watch)
                folder.write_result(result, model)
            except BaseException as error:  # the seeds before are kept, whatever it is
                if type(error) is ZooError and results:
                    error = ZooError(
                        f"{error} This was seed {seed}; those before it are in {folder.path}."
                    )
                return results, error
        results.append(result)
        if result["interrupted"]:
            return results, KeyboardInterrupt()
    return results, None


def _train(
    prepared: Prepared,
    seed: int,
    split: Split,
    device: torch.device,
    folder: RunFolder,
    watch: Watch,
) -> tuple[dict[str, Any], Model]:
    """Train one seed; return its result and the best model."""
    prepared = prepared.fit_columns(split)
    seed_everything(seed)
    model, _ = build(prepared)

    def after_epoch(epoch: Epoch) -> None:
        folder.add_epoch({"seed": seed, **epoch._asdict()})
        watch(seed, epoch)

    hooks = prepared.hooks(model)._replace(
        begin=lambda epochs: folder.drop_epochs(seed, epochs),
        watch=after_epoch,
        checkpoint=folder.checkpoint(seed),
    )
    result = fit(model, prepared.training_data(split), hooks, device, **prepared.plan.train)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    scores = {part: getattr(result, part) for part in PARTS}
    model.about = prepared.about.model_copy(update={"seed": seed, "scores": scores})
    model.tokenizer = prepared.data.tokenizer and prepared.data.tokenizer.text
    row = {"seed": seed, **result._asdict(), "parameters": parameters}
    if prepared.task.kind == "links":
        row["heuristics"] = heuristic_scores(prepared.training_data(split))
    return {**row, "split_sha256": split.sha256}, model
