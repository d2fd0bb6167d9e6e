"""The commands for those who write models and recipes: check, show, estimate, tune, ..."""

import contextlib
import json
import math
import re
import sys
import time
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from zoo.cli import console, result_tables
from zoo.cli.common import (
    AsJson,
    Device,
    DeviceName,
    Overrides,
    Quiet,
    RecipeName,
    Runs,
    Trust,
    asked_kindly,
    exit_code,
    spec_of,
    typed_path,
)
from zoo.errors import ZooError

app = typer.Typer()

Target = Annotated[
    str,
    typer.Argument(
        metavar="MODEL_OR_FILE", help="A word of `zoo list models`, or a .py or .ipynb file."
    ),
]


@app.command()
def check(target: Target, as_json: AsJson = False) -> None:
    """Hold a model to what every model promises; exit code 1 where a promise is broken.

    zoo check sgformer
    zoo check my_model.py

    Of a file every model that it registers is checked. Of a notebook, imports,
    functions, classes and plain assignments are run, and nothing else.
    """
    from zoo.testing.models import LAST, checked, row_of
    from zoo.testing.sources import RefusedModel, models_of

    start, found = time.perf_counter(), []
    tell = console.remark if as_json else console.say
    try:
        names = models_of(target)
    except RefusedModel as error:
        names = []
        found.append(row_of(target, "it_can_be_registered", [(target, str(error))], 0.0))
        _tell_promise(found[-1], set(), tell)
    for name in names:
        tell(f"{name}:")
        said: set[str] = set()
        for row in checked(name):
            found.append(row)
            _tell_promise(row, said, tell)
    broken = [row for row in found if row["broken"]]
    seconds = time.perf_counter() - start
    if as_json:
        summary = {"promises": found, "kept": not broken, "seconds": round(seconds, 1)}
        typer.echo(json.dumps(summary))
    elif broken:
        more = "; fix them to see the others" if found[-1]["promise"] != LAST else ""
        tell(f"{len(broken)} of {len(found)} promises are broken, in {seconds:.0f} s{more}.")
    else:
        tell(f"{', '.join(names)} keeps all {len(found)} promises, in {seconds:.0f} s.")
    sys.exit(1 if broken else 0)


def _tell_promise(row: dict[str, Any], said: set[str], tell) -> None:
    """Say one promise: a line if it is kept, else also what is wrong, once for each text."""
    cases = "" if row["cases"] == 1 else f", {row['cases']} cases"
    words = row["promise"].replace("_", " ")
    tell(f"  {'broken' if row['broken'] else 'kept  '}  {words}{cases} ({row['seconds']:.1f} s)")
    for text, those in groupby(row["broken"], lambda each: each["said"]):
        of = [each["of"] for each in those]
        more = f" and {len(of) - 2} more" if len(of) > 2 else ""
        shown = "as above" if text in said else text
        tell(f"          {', '.join(of[:2])}{more}: {shown}")
        said.add(text)


@app.command()
def schema() -> None:
    """Print the JSON schema of recipes, for editors.

    zoo schema > recipe.schema.json
    """
    from zoo.cli.describe import schema_of_recipes

    typer.echo(json.dumps(schema_of_recipes(), indent=2))


@app.command()
def pages(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Holds a folder of recipes for each model.", callback=typed_path
        ),
    ] = Path("recipes"),
) -> None:
    """Write the README.md of each model's folder of recipes, from recipes and docstrings.

    zoo pages
    """
    from zoo.reports.recipe_pages import write_pages

    changed = write_pages(folder)
    for path in changed:
        console.remark(f"written: {path}")
    if not changed:
        console.remark("every page is up to date")


@app.command()
def show(recipe: RecipeName, overrides: Overrides = None, trust: Trust = False) -> None:
    """Print a recipe with the value of every option.

    zoo show sgformer-cora model.attention=rba
    """
    from zoo.config.recipe import recipe_text
    from zoo.experiments.resolve import load_recipe, write_out

    loaded = load_recipe(recipe, overrides or [], trust=trust)
    typer.echo(recipe_text(write_out(loaded, trust)), nl=False)
    if loaded.imports and not trust:
        console.remark(
            f"imports were not run ({', '.join(loaded.imports)}): what only they define is as it "
            "is written, unchecked; --trust runs them."
        )


@app.command()
def estimate(
    recipe: RecipeName, overrides: Overrides = None, trust: Trust = False, as_json: AsJson = False
) -> None:
    """Say how much memory a recipe will take, from small graphs of the same kind.

    zoo estimate sgformer-cora model.dim=512
    """
    from zoo.experiments.estimate_memory import estimate as estimated
    from zoo.experiments.resolve import load_recipe, resolve
    from zoo.system.allocator import keep_freed_memory

    keep_freed_memory()  # as in training
    loaded = load_recipe(recipe, overrides or [], trust=trust)
    if loaded.imports and not trust:
        raise ZooError(
            f"{recipe} imports code, {', '.join(loaded.imports)}, which an estimate has to run: it "
            "makes the model and trains it for some steps. Read it, and write `--trust`."
        )
    found = estimated(resolve(loaded, trust))
    if as_json:
        typer.echo(json.dumps(found._asdict()))
    else:
        result_tables.estimate(found)


@app.command()
def tune(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[RECIPE|MODEL]", help="What to begin with.")
    ] = None,
    overrides: Overrides = None,
    data: Annotated[str | None, typer.Option("--data", help="A data set, or its PATH.")] = None,
    models: Annotated[
        str | None, typer.Option(help="Several models, such as sgformer,gcn,mlp: tune each.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="How many settings to try.")] = 40,
    hours: Annotated[float, typer.Option(min=0, help="After which no trial is begun.")] = math.inf,
    splits: Annotated[int, typer.Option(min=1, help="Seeds that every trial is trained with.")] = 5,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="STUDY", help="Go on in its folder.", callback=typed_path),
    ] = None,
    device: DeviceName = Device.auto,
    runs: Runs = Path("runs"),
    trust: Trust = False,
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
    """
    if recipe and "=" in recipe and models:
        recipe, overrides = None, [recipe, *(overrides or [])]
    if sum(map(bool, (recipe, models, resume))) != 1 or (resume and (data or splits != 5)):
        raise ZooError(
            "name a recipe, `zoo tune sgformer-cora`, a model and a data set, `zoo tune sgformer "
            "--data mine`, several, `--models sgformer,gcn --data mine`, or `--resume STUDY` alone."
        )
    plans = [None]
    if resume is None:
        given = spec_of(data) if data else None
        plans = [_to_tune(each, overrides, given) for each in (models or recipe).split(",")]
    found = []
    for each in plans:
        study = _study(resume, each, runs, splits=splits, device=device.value, trust=trust)
        console.remark(f"{len(study.recipe.search)} settings of {study.folder}")
        try:
            with asked_kindly():
                study.run(trials, hours, (lambda *_: None) if quiet else _tell_trial)
                found.append(study.score())
        except KeyboardInterrupt:
            console.remark(f"`zoo tune --resume {study.folder} --trials {trials}` goes on.")
            sys.exit(exit_code())
        if not as_json:
            _tell_study(study, found[-1])
    if as_json:
        typer.echo(json.dumps(found))
    elif len(found) > 1:
        from zoo.experiments.compare import compare, contestants

        result_tables.comparison(compare(contestants([each["folder"] for each in found])))


def _study(begun: Path | None, recipe: Any, runs: Path, **options: Any):
    """Return a study that was begun, or that of a recipe, in a folder of its own."""
    from zoo.experiments.run_folder import new_folder
    from zoo.studies.tuning import Tuning

    if begun is not None:
        return Tuning(begun, **options)
    folder = new_folder(runs, f"tune-{recipe.name}")
    try:
        return Tuning(folder, recipe, **options)
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # where nothing was begun


def _to_tune(source: str, overrides: list[str] | None, data: Any):
    """Return a recipe, or that of a model with its default options, on a data set."""
    from zoo.experiments.resolve import is_model, load_recipe

    if data is None and is_model(source):
        raise ZooError(f"{source} is a model: write `zoo tune {source} --data DATASET`.")
    other = [f"dataset={json.dumps(data)}"] if data is not None else []
    recipe = load_recipe(source, [*(overrides or []), *other], trust=True)
    return recipe.model_copy(update={"name": Path(source).stem})


def _tell_trial(trial, best) -> None:
    """Print a line on a trial that has ended."""
    ended = f"{trial.state} {_score(trial)}".rstrip()
    took = f"{trial.splits} splits, {trial.seconds:.1f} s"
    known = f"best {best.val:.4f}, trial {best.number}" if best else "none is complete"
    console.remark(f"trial {trial.number}: {ended}, {took}; {known}")


def _tell_study(study, summary: dict[str, Any]) -> None:
    """Print the best trials, what the settings matter, and the score of the best on test."""
    trials = study.trials()
    done = sorted((each for each in trials if each.state == "complete"), key=study.gain)
    shown = [{"trial": each.number, "validation": f"{each.val:.4f}",
              "deviation": "" if each.std is None else f"{each.std:.4f}", **_short(each.settings)}
             for each in done[:-6:-1]]  # fmt: skip
    matters = _short({key: f"{each:.0%}" for key, each in study.importance().items()})
    columns = {f"{n}.": each for n, each in enumerate(shown, start=1)}
    columns |= {"matters": matters} if matters else {}
    console.rows([{"": key, **{name: each.get(key) for name, each in columns.items()}}
                  for key in shown[0]])  # fmt: skip
    console.say("matters: how much of the spread of scores a setting explains" if matters
                else "too few trials to tell what the settings matter")  # fmt: skip
    first, tuned = study.as_it_was(), f"{_score(study.best())} tuned"
    test, std = summary["test"]["mean"], summary["test"]["std"]
    when = "as it was" if len(study.start) == len(study.recipe.search) else "at first"
    console.say(f"validation {_score(first) if first else 'not known'} {when}, {tuned}")
    console.say(f"test {test:.4f} ± {std or 0:.4f}, scored once")
    console.remark(f"written: {', '.join(map(str, study.write()))}")


def _score(trial) -> str:
    score = "" if trial.val is None else f"{trial.val:.4f}"
    return score if trial.std is None else f"{score} ± {trial.std:.4f}"


def _short(found: dict[str, Any]) -> dict[str, str]:
    return {re.sub("^(model|train)[.]", "", key): f"{each:.3g}" if isinstance(each, float)
            else str(each) for key, each in found.items()}  # fmt: skip
