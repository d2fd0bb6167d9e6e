"""Train a recipe: `run_recipe` puts data, encoding, model and training together.

A recipe is resolved once and its graph is read once, for all seeds. A run writes a folder with its
recipe, environment, metrics and weights, see `zoo.runs.run_folder`; `resume_run` continues a run
that was killed.
"""

import contextlib
import logging
import math
import shlex
import shutil
import statistics
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from zoo.config.recipe import Recipe, divide, recipe_text, word
from zoo.config.scores import figure, gain
from zoo.config.yaml_lines import line_text
from zoo.data.known_nodes import NODES
from zoo.data.load import resolved_dataset
from zoo.data.splits import PARTS, Split, constant_prediction
from zoo.errors import ZooError
from zoo.inference.forecast import simple_forecasts
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
    run_name,
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

Watch = Callable[[int, Epoch], None]  # called with seed and epoch


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
    data: Any = None,
) -> dict[str, Any]:
    """Train a recipe with each of its seeds and write the run's folder.

    Ctrl-C keeps what has been trained so far; the summary then says `interrupted: true`. With
    several processes (`zoo train --processes`) only rank 0 writes. `resume_run` continues a run
    that was killed.

    Args:
        recipe: a `Recipe`, what `load_recipe` takes (a name, path or dict), or the `Plan` that
            `resolve` returned. The code that it imports is run.
        device: `auto` (CUDA where there is one), `cpu` or `cuda`.
        runs: the parent of the run's folder; no run is ever overwritten.
        watch: called after every epoch with the seed and the epoch.
        begin: called before training if the recipe starts from pretrained weights.
        checkpoint: seconds between two checkpoints, from which a killed run can be resumed.
        track: experiment trackers to log to: `csv`, `tensorboard`, `wandb`, `mlflow`.
        tell: called with each warning about a file that is damaged or cannot be written.
        data: what `load_data` returns for the data set of a `Plan`, where it is read already.

    Returns:
        The content of `summary.json`: scores per seed, their mean and standard deviation, cost.

    Raises:
        ZooError: the recipe, its data or the device is wrong, found before anything is written;
            or training fails; or a file cannot be written: the message says what is kept where.
    """
    process_group.start()
    if not isinstance(recipe, Plan | Recipe):
        recipe = load_recipe(recipe, trust=True)
    plan = recipe if isinstance(recipe, Plan) else resolve(recipe, trust=True)
    check_processes(plan, process_group.count())
    if process_group.rank() > 0:  # only rank 0 keeps what it writes
        with tempfile.TemporaryDirectory() as scratch:
            return _run_plan(plan, device, lambda: _scratch_folder(scratch), watch, data=data)

    def make_folder() -> RunFolder:
        return RunFolder(new_folder(Path(runs), run_name(plan.recipe)), checkpoint, tell, new=True)

    return _run_plan(plan, device, make_folder, watch, begin, track, data)


def _scratch_folder(path: str) -> RunFolder:
    """Return a folder for a rank other than 0: temporary, without checkpoints and warnings."""
    return RunFolder(Path(path), math.inf, silent)


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
    """Resume a run that was killed; on a CPU its results are those of an uninterrupted run.

    The code that its recipe imports is run, whoever wrote it. The number of processes has to be the
    same; on the same device each uses as many threads as before.

    Args:
        folder: the run's folder; every process needs access to it.
        device: as for `run_recipe`.
        watch: as for `run_recipe`.
        begin: as for `run_recipe`.
        checkpoint: as for `run_recipe`.
        track: as for `run_recipe`; what was logged before is not logged again.
        tell: as for `run_recipe`; also called with each change of the environment that may change
            the results, such as another version of torch.

    Returns:
        The content of `summary.json`.

    Raises:
        ZooError: the folder is not that of a run, or the run is finished, or had another number
            of processes, or its recipe or its data have changed.
    """
    process_group.start()
    run_folder, plan = load_unfinished_run(Path(folder), process_group.count(), checkpoint, tell)
    recorded = read_environment(run_folder.path)  # of the processes that began the run
    if recorded is not None:
        check_same_files(recorded.files, plan)
    with using_threads(threads_of(recorded, str(choose_device(device)))):
        if process_group.rank() == 0:
            process_group.wait()  # until the other ranks have copied the folder
            current = last_digits(choose_device(device))
            for sentence in environment_changes(recorded, current, plan.code):
                tell(sentence)
            return _run_plan(plan, device, lambda: run_folder, watch, begin, track)
        with tempfile.TemporaryDirectory() as scratch:
            shutil.copytree(folder, scratch, dirs_exist_ok=True)
            process_group.wait()
            return _run_plan(plan, device, lambda: _scratch_folder(scratch), watch)


def load_unfinished_run(
    folder: Path, processes: int, checkpoint: float = EVERY, tell: Tell = warnings.warn
) -> tuple[RunFolder, Plan]:
    """Return the folder and the plan of a run that is not finished.

    Args:
        folder: the run's folder.
        processes: how many are to resume it.
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
        finetune = _finetune_sentence(folder, recipe, [f"train.epochs={recipe.train['epochs']}"])
        raise ZooError(
            f"{folder} is finished. {finetune}, for so many epochs more; "
            f"`zoo train {shlex.quote(str(path))}` begins a new run."
        )
    return run_folder, resolve(recipe, trust=True)


def explain_changed_resume(folder: Path, changes: Sequence[str]) -> str:
    """Return what to say, and to propose, when a run is resumed with changed settings.

    Raises:
        ZooError: the folder is not that of a run.
    """
    need_run(folder)
    path, _ = read_recipe(folder)
    new_run = shlex.join(["zoo", "train", str(path), *changes])
    return (
        f"--resume ends a run with the settings that it was begun with, and takes no KEY=VALUE. "
        f"{_finetune_sentence(folder, load_recipe(path), changes)}; `{new_run}` begins a new run."
    )


def _finetune_sentence(folder: Path, recipe: Recipe, changes: Sequence[str]) -> str:
    """Return a sentence with the command that fine-tunes a run's weights on its own data."""
    dataset, _ = divide(recipe.dataset, ("split",))  # `zoo finetune` uses the run's split
    with contextlib.suppress(ZooError):  # it has a required option, or unimported code
        defaults = resolved_dataset(dataset["name"])
        dataset = {k: v for k, v in dataset.items() if k == "name" or v != defaults.get(k)}
    data = line_text(dataset) if len(dataset) > 1 else dataset["name"]
    command = ["zoo", "finetune", str(folder), "--data", data]
    if word(recipe.graph) == "file":  # the weights do not include it
        changes = [f"graph={line_text(recipe.graph)}", *changes]
    for source in recipe.imports:
        command += ["--import", source]
    if start := recipe.start_from:
        frozen = [start.freeze] if isinstance(start.freeze, str) else start.freeze
        command += [f"--freeze={name}" for name in frozen if name != "none"]
        command += [f"--lr-decay={start.lr_decay:g}"] if start.lr_decay != 1 else []
    sentence = f"`{shlex.join([*command, *changes])}` trains on from its best weights"
    if any(folder.glob(f"seed-*/{CONFIG}")):
        return sentence
    return f"Once `zoo train --resume {shlex.quote(str(folder))}` has ended it, {sentence}"


def _run_plan(
    plan: Plan,
    device: str,
    make_folder: Callable[[], RunFolder],
    watch: Watch,
    begin: Callable[[Start], None] = lambda start: None,
    track: Sequence[str] = (),
    data: Any = None,
) -> dict[str, Any]:
    """Read the data, write the run's folder, train every seed and write the summary."""
    check_trackers(track)
    torch_device = choose_device(device)
    prepared = prepare(plan, data)
    with torch.random.fork_rng(devices=[]):  # a model that cannot be built fails early
        model, start = build(prepared)
    with make_folder() as folder:
        process_group.tell_run(folder.path)
        try:
            _write_run_inputs(folder, prepared, start, torch_device, track)
            if start is not None:
                begin(start)
            del model
            results, error = _train_all_seeds(prepared, torch_device, folder, watch)
            if not results:
                raise error
            warn_of_constant_predictions(prepared, results)
            warn_of_simple_forecasts(prepared, results)
            summary = summarise(
                plan.recipe,
                prepared.data,
                prepared.task.metric_name,
                results,
                torch_device,
                split=prepared.plan.split,
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


def _write_run_inputs(
    folder: RunFolder,
    prepared: Prepared,
    start: Start | None,
    device: torch.device,
    track: Sequence[str],
) -> None:
    """Write what is known before training; a resumed run has these files already."""
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


def warn_of_constant_predictions(prepared: Prepared, results: Sequence[dict[str, Any]]) -> None:
    """Log a warning for seeds whose model is no better than one answer for every row."""
    seeds_of: dict[str, list[int]] = {}
    for result, split in zip(results, prepared.splits, strict=False):  # interrupted: fewer results
        label = constant_prediction(prepared.task, prepared.data, split, result)
        if label is not None:
            seeds_of.setdefault(label, []).append(result["seed"])
    for label, seeds in seeds_of.items():
        which = f"seed {seeds[0]} is" if len(seeds) == 1 else f"{len(seeds)} seeds are"
        logging.getLogger(__name__).warning(
            f"{which} no better on the test part than always answering {label}; more epochs, "
            f"scaled features, an encoding or another learning rate may help{_of_maxima(prepared)}."
        )


def _of_maxima(prepared: Prepared) -> str:
    """Say what a largest number over nodes makes of dropout, which models with both suffer from."""
    plan = prepared.plan
    if word(plan.readout or "") != "max" or not plan.model.get("dropout"):
        return ""
    return ", and with `readout: max` a model needs `dropout: 0`: it moves the largest numbers"


def warn_of_simple_forecasts(prepared: Prepared, results: Sequence[dict[str, Any]]) -> None:
    """Log a warning where a rule that needs no model forecasts the test part better than a model.

    As where one answer for every row is as good; the splits of series are the same for all seeds.
    """
    data, task, split = prepared.data, prepared.task, prepared.splits[0]
    if data.unit != "snapshots":
        return
    rules = simple_forecasts(data, split.train, split.test)
    scores = {name: task.metric(values, data.y[split.test]) for name, values in rules.items()}
    best = max(scores, key=lambda name: gain(task.metric_name, scores[name]))
    own = statistics.fmean(result["test"] for result in results)
    if gain(task.metric_name, scores[best]) >= gain(task.metric_name, own):
        logging.getLogger(__name__).warning(
            f"{best} alone has {task.metric_name} {figure(scores[best])} on the test part, the "
            f"model {figure(own)}: more epochs, lags or another model may help, or that rule will "
            "do (`zoo evaluate RUN` has all of them)."
        )


def _train_all_seeds(
    prepared: Prepared, device: torch.device, folder: RunFolder, watch: Watch
) -> tuple[list[dict[str, Any]], BaseException | None]:
    """Train each seed without a result; return all results, and what ended the loop early."""
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
                result, model = _train_seed(prepared, seed, split, device, folder, watch)
                folder.write_result(result, model)
            except BaseException as error:  # whatever it is, earlier seeds are kept
                if type(error) is ZooError and results:
                    error = ZooError(
                        f"{error} This was seed {seed}; those before it are in {folder.path}."
                    )
                return results, error
        results.append(result)
        if result["interrupted"]:
            return results, KeyboardInterrupt()
    return results, None


def _train_seed(
    prepared: Prepared,
    seed: int,
    split: Split,
    device: torch.device,
    folder: RunFolder,
    watch: Watch,
) -> tuple[dict[str, Any], Model]:
    """Train one seed; return its result and the model with its best weights."""
    prepared = prepared.fit_columns(split)
    seed_everything(seed)
    model, start = build(prepared)

    def after_epoch(epoch: Epoch) -> None:
        folder.add_epoch({"seed": seed, **epoch._asdict()})
        watch(seed, epoch)

    hooks = prepared.hooks(model, start)._replace(
        before_training=lambda epochs: folder.drop_epochs(seed, epochs),
        after_epoch=after_epoch,
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
