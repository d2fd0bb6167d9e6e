"""The command `zoo tune`: settings for a graph, found by validation."""

import contextlib
import json
import re
import shlex
import sys
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from zoo.cli import console, result_tables
from zoo.cli.common import (
    AsJson,
    Data,
    Device,
    DeviceName,
    Overrides,
    Quiet,
    Runs,
    Trusted,
    exit_code,
    graceful_shutdown,
    print_imports,
    typed_path,
    with_data,
)
from zoo.config.scores import figure, gain, with_deviation
from zoo.config.yaml_lines import line_text
from zoo.errors import ZooError

app = typer.Typer()


@app.command()
def tune(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE|MODEL", help="What to begin with.")
    ] = None,
    overrides: Overrides = None,
    data: Data = None,
    models: Annotated[
        str | None, typer.Option(help="Several models, such as sgformer,gcn,mlp: tune each.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="How many settings to try: 40, or as many as before.")
    ] = None,
    hours: Annotated[
        float | None, typer.Option(min=0, help="After which no trial is begun.")
    ] = None,
    splits: Annotated[int, typer.Option(min=1, help="Seeds that every trial is trained with.")] = 5,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="STUDY", help="Go on in its folder.", callback=typed_path),
    ] = None,
    device: DeviceName = Device.auto,
    runs: Runs = Path("runs"),
    trust: Trusted = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find settings for a graph by validation, and score the best on test once.

    zoo tune sgformer-cora --trials 40
    zoo tune sgformer --data mygraph.npz --hours 2
    zoo tune --models sgformer,gcn,mlp --data mygraph.npz train.epochs=200
    zoo tune --resume runs/tune-sgformer-cora-20261121-120000

    What is tried is what the model says is worth trying, changed by a block `search:` of the
    recipe. Ctrl-C and kill -9 lose one trial: --resume goes on, also in several processes at once.
    What the recipe imports is run, with --resume too.
    """
    if recipe and "=" in recipe and models:
        recipe, overrides = None, [recipe, *(overrides or [])]
    names = [name.strip() for name in models.split(",")] if models else [recipe or ""]
    _refuse_changes(resume, [recipe or "", *(overrides or [])])
    one_source = sum(map(bool, (recipe, models, resume))) == 1 and (all(names) or not models)
    if not one_source or (resume and (data or splits != 5)):
        raise ZooError(
            "name a recipe, `zoo tune sgformer-cora`, a model and a data set, `zoo tune sgformer "
            "--data mine`, several, `--models sgformer,gcn --data mine`, or `--resume STUDY` alone."
        )
    queue = [None] if resume else _queue(names, with_data(data, overrides), quiet)
    summaries: list[dict[str, Any]] = []
    for number, own in enumerate(queue):
        study = _study(resume, own and own.recipe, runs, splits=splits, device=device.value)
        print_imports(study.recipe.imports, quiet)
        _say_what_is_searched(study)
        try:
            with graceful_shutdown():
                study.run(trials, hours, (lambda *_: None) if quiet else print_trial)
                summaries.append(study.score())
        except (KeyboardInterrupt, ZooError) as error:
            options = {"trials": trials, "hours": hours, "splits": splits, "runs": runs,
                       "device": device.value}  # fmt: skip
            rest = queue[number + 1 :]
            if rest or isinstance(error, KeyboardInterrupt):
                _print_how_to_go_on(study, summaries, rest, options)
            if isinstance(error, ZooError):
                raise
            sys.exit(exit_code())
        if not as_json:
            print_study(study, summaries[-1])
    if as_json:
        typer.echo(json.dumps(summaries))
    elif len(summaries) > 1:
        _print_comparison([summary["folder"] for summary in summaries], device, runs)


def _say_what_is_searched(study) -> None:
    """Say how many settings are searched, and what of the recipe is outside of their spaces."""
    console.remark(f"searches {len(study.recipe.search)} settings, in {study.folder}")
    if study.outside:
        outside = ", ".join(f"{key}={line_text(value)}" for key, value in study.outside.items())
        console.remark(f"the first trial alone has, outside of what is searched: {outside}")


def _refuse_changes(study: Path | None, words: list[str]) -> None:
    """Refuse other settings for a study that goes on, and name what begins another with them."""
    changes = [word for word in words if "=" in word]
    if study and changes and (path := study / "recipe.yaml").is_file():
        raise ZooError(
            "--resume goes on with a study as it was begun, and takes no KEY=VALUE; "
            f"`{shlex.join(['zoo', 'tune', str(path), *changes])}` begins another."
        )


def _queue(names: list[str], changes: list[str], quiet: bool) -> list[Any]:
    """Return what is tuned, one after the other; say what they have in common."""
    from zoo.runs.tune import recipes_to_tune

    return recipes_to_tune(names, changes, (lambda text: None) if quiet else console.remark)


def _print_comparison(folders: list[str], device: Device, runs: Path) -> None:
    """Print how models that were tuned compare; all runs are finished, nothing is trained."""
    from zoo.runs.compare import candidates, compare

    entries = candidates(folders, baselines=False)
    result_tables.comparison(compare(entries, device=device.value, runs=runs))


def _study(begun: Path | None, recipe: Any, runs: Path, **options: Any):
    """Return a study that was begun, or that of a recipe, in a folder of its own."""
    from zoo.runs.run_folder import new_folder, run_name
    from zoo.runs.tune import Tuning

    if begun is not None:
        return Tuning(begun, **options)
    folder = new_folder(runs, f"tune-{run_name(recipe)}")
    try:
        return Tuning(folder, recipe, **options)
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # where nothing was begun


def _print_how_to_go_on(
    study, done: list[dict[str, Any]], rest: list[Any], options: dict[str, Any]
) -> None:
    """Print the commands that go on with a study that was ended, and with the models after it."""
    folder = shlex.quote(str(study.folder))
    console.remark(f"`zoo tune --resume {folder}` goes on.")
    runs = [shlex.quote(summary["folder"]) for summary in done] + [f"{folder}/*-tuned-*"]
    defaults = {"splits": 5, "runs": Path("runs"), "device": "auto"}
    given = [word for key, value in options.items() if value not in (None, defaults.get(key))
             for word in (f"--{key}", str(value))]  # fmt: skip
    for changes, alike in groupby(rest, lambda each: each.changes):
        words = ["zoo", "tune", "--models", ",".join(each.source for each in alike), *given]
        console.remark(f"`{shlex.join([*words, *changes])}` tunes what is left.")
    stems = [options["runs"] / f"tune-{each.recipe.name}-" for each in rest]
    runs += [f"{shlex.quote(str(stem))}*/*-tuned-*" for stem in stems]
    if len(runs) > 1:
        console.remark(f"`zoo compare {' '.join(runs)}` then compares them.")


def print_trial(trial, best) -> None:
    """Print a line on a trial that has ended."""
    state = f"{trial.state} {_score(trial)}".rstrip()
    so_far = f"best {figure(best.val)}, trial {best.number}" if best else "none is complete"
    took = f"{trial.splits} splits, {trial.seconds:.1f} s"
    console.remark(f"trial {trial.number}: {state}, {took}; {so_far}")


TELLING = 20
"""Complete trials from which on it is told how much settings matter."""


def print_study(study, summary: dict[str, Any]) -> None:
    """Print the best trials, how much settings matter, and the score of the best on test."""
    complete = [trial for trial in study.trials() if trial.state == "complete"]
    best = sorted(complete, key=lambda trial: -gain(study.metric, trial.val))[:5]
    columns = {
        f"{place}.": {
            "trial": trial.number,
            "validation": figure(trial.val),
            "deviation": "" if trial.std is None else figure(trial.std),
            **_short(trial.settings),
        }
        for place, trial in enumerate(best, start=1)
    }
    keys = list(columns["1."])
    told = study.importance() if len(complete) >= TELLING else {}
    importance = {key: f"{share:.0%}" for key, share in told.items()}
    columns |= {"matters": _short(importance)} if importance else {}
    console.rows([{"": key, **{name: column.get(key) for name, column in columns.items()}}
                  for key in keys])  # fmt: skip
    console.say("matters: how much of the spread of scores a setting explains" if importance
                else f"what settings matter is told from {TELLING} trials on")  # fmt: skip
    tried = sum(trial.state in ("complete", "pruned") for trial in study.trials())
    share = 1 - 0.05 ** (1 / tried)
    console.say(
        f"the best of {tried} settings, were they drawn at random, is with 95 % confidence "
        f"among the best {share:.0%} of all: more trials prove more"
    )
    first, tuned = study.as_it_was(), f"{_score(study.best())} tuned"
    console.say(f"validation {_score(first) if first else 'not known'} as it was, {tuned}")
    times = _times(summary["scored_before"])
    console.say(f"test {with_deviation(summary['test'])}, {times}")
    console.remark(f"the run of the best, for `zoo predict`, is in {summary['folder']}")
    console.remark(f"written: {', '.join(map(str, study.write()))}")


def _times(before: list[float]) -> str:
    """Return how often test has been scored, and the scores before this one."""
    if not before:
        return "scored once"
    times = {2: "second", 3: "third"}.get(len(before) + 1, f"{len(before) + 1}th")
    return f"scored for the {times} time; before: {', '.join(map(figure, before))}"


def _score(trial) -> str:
    if trial.val is None:
        return ""
    return with_deviation({"mean": trial.val, "std": trial.std})


def _short(settings: dict[str, Any]) -> dict[str, str]:
    return {re.sub("^(model|train)[.]", "", key): f"{value:.3g}" if isinstance(value, float)
            else str(value) for key, value in settings.items()}  # fmt: skip
