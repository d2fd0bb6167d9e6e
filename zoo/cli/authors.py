"""The commands for those who write models and recipes: check, show, estimate, tune, ..."""

import contextlib
import json
import shlex
import sys
import time
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NoReturn

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
    Trusted,
    exit_code,
    graceful_shutdown,
    spec_of,
    tell_imports,
    typed_path,
)
from zoo.cli.progress_bar import tell_study, tell_trial
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
def show(recipe: RecipeName, overrides: Overrides = None, trust: Trust = False) -> None:
    """Print a recipe with the value of every option.

    zoo show sgformer-cora model.attention=rba
    """
    from zoo.config.recipe import recipe_text
    from zoo.runs.resolve import load_recipe, write_out

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
    from zoo.runs.estimate_memory import estimate as estimated
    from zoo.runs.resolve import load_recipe, resolve
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
        str | None, typer.Argument(metavar="RECIPE|MODEL", help="What to begin with.")
    ] = None,
    overrides: Overrides = None,
    data: Annotated[str | None, typer.Option("--data", help="A data set, or its PATH.")] = None,
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
    names = [each.strip() for each in models.split(",")] if models else [recipe or ""]
    _refuse_changes(resume, [recipe or "", *(overrides or [])])
    alone = sum(map(bool, (recipe, models, resume))) == 1 and (all(names) or not models)
    if not alone or (resume and (data or splits != 5)):
        raise ZooError(
            "name a recipe, `zoo tune sgformer-cora`, a model and a data set, `zoo tune sgformer "
            "--data mine`, several, `--models sgformer,gcn --data mine`, or `--resume STUDY` alone."
        )
    plans = [None]
    if resume is None:
        given = spec_of(data) if data else None
        plans = [_to_tune(each, overrides, given) for each in names]
    found = []
    for number, each in enumerate(plans):
        study = _study(resume, each, runs, splits=splits, device=device.value)
        tell_imports(study.recipe.imports, quiet)
        console.remark(f"{len(study.recipe.search)} settings of {study.folder}")
        try:
            with graceful_shutdown():
                study.run(trials, hours, (lambda *_: None) if quiet else tell_trial)
                found.append(study.score())
        except (KeyboardInterrupt, ZooError) as error:
            options = {"data": data, "trials": trials, "hours": hours, "splits": splits,
                       "runs": runs, "device": device.value}  # fmt: skip
            if names[number + 1 :] or isinstance(error, KeyboardInterrupt):
                _tell_rest(study, found, names[number + 1 :], options, overrides or [])
            _end(error)
        if not as_json:
            tell_study(study, found[-1])
    if as_json:
        typer.echo(json.dumps(found))
    elif len(found) > 1:
        from zoo.runs.compare import candidates, compare

        entries = candidates([each["folder"] for each in found], baselines=False)
        how = {"device": device.value, "runs": runs, "quiet": quiet}
        result_tables.comparison(compare(entries, **how))  # of what is finished: trains nothing


def _refuse_changes(study: Path | None, words: list[str]) -> None:
    """Refuse other settings for a study that goes on, and name what begins another with them."""
    changes = [each for each in words if "=" in each]
    if study and changes and (path := study / "recipe.yaml").is_file():
        raise ZooError(
            "--resume goes on with a study as it was begun, and takes no KEY=VALUE; "
            f"`{shlex.join(['zoo', 'tune', str(path), *changes])}` begins another."
        )


def _end(error: BaseException) -> NoReturn:
    """End the command with what ended a study: an error, or Ctrl-C."""
    if isinstance(error, ZooError):
        raise error
    sys.exit(exit_code())


def _tell_rest(
    study, found: list[dict[str, Any]], left: list[str], options: dict[str, Any], changes: list[str]
) -> None:
    """Say what goes on with a study that was ended, and with those that were to come."""
    folder = shlex.quote(str(study.folder))
    console.remark(f"`zoo tune --resume {folder}` goes on.")
    runs = [shlex.quote(each["folder"]) for each in found] + [f"{folder}/*-tuned-*"]
    if left:
        usual = {"splits": 5, "runs": Path("runs"), "device": "auto"}
        words = ["zoo", "tune", "--models", ",".join(left)]
        for key, value in options.items():
            words += [] if value in (None, usual.get(key)) else [f"--{key}", str(value)]
        words += changes
        console.remark(f"`{shlex.join(words)}` tunes what is left.")
        stems = [f"tune-{Path(each).stem}-" for each in left]
        runs += [f"{shlex.quote(str(options['runs'] / each))}*/*-tuned-*" for each in stems]
    if len(runs) > 1:
        console.remark(f"`zoo compare {' '.join(runs)}` then compares them.")


def _study(begun: Path | None, recipe: Any, runs: Path, **options: Any):
    """Return a study that was begun, or that of a recipe, in a folder of its own."""
    from zoo.runs.run_folder import new_folder
    from zoo.runs.tune import Tuning

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
    from zoo.runs.resolve import is_model, load_recipe

    if data is None and is_model(source):
        raise ZooError(f"{source} is a model: write `zoo tune {source} --data DATASET`.")
    other = [f"dataset={json.dumps(data)}"] if data is not None else []
    recipe = load_recipe(source, [*(overrides or []), *other], trust=True)
    return recipe.model_copy(update={"name": Path(source).stem})
