"""The command `zoo`: what can be typed; `zoo.cli.result_tables` and `console` print."""

import functools
import json
import logging
import os
import sys
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from zoo.cli import authors, console, data, hub, recipes, weights
from zoo.cli.common import (
    AsJson,
    Device,
    DeviceName,
    Overrides,
    Quiet,
    Runs,
    Track,
    Trusted,
    tell,
    train_plan,
    typed_path,
)
from zoo.errors import ZooError

# Torch, DGL and the zoo's own modules are imported inside the commands that need them: `zoo --help`
# answers at once, and `zoo doctor` where they do not import at all.

app = typer.Typer(
    cls=console.Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A model zoo of graph transformers: train, reproduce and compare them by name.",
)
app.add_typer(weights.app)
app.add_typer(hub.app)
app.add_typer(data.app, name="data")
app.add_typer(authors.app)
app.add_typer(recipes.app)


class Kind(StrEnum):
    """What `zoo list` can list."""

    models = "models"
    recipes = "recipes"
    attentions = "attentions"
    propagations = "propagations"
    encodings = "encodings"
    losses = "losses"
    metrics = "metrics"
    batching = "batching"
    datasets = "datasets"
    graphs = "graphs"
    files = "files"


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"zoo {version('graph-transformer-zoo')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Print the zoo's version."
        ),
    ] = False,
) -> None:
    """What may stand before the name of a command."""


@functools.cache
def command() -> Any:
    """Return what `app` is to click: made once, for a program or test that calls it often."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command; what the user can fix is printed as one paragraph, exit code 2."""
    code: Any = 0
    logging.getLogger("zoo").addHandler(console.warnings)
    try:
        command()()
    except SystemExit as left:
        code = left.code
    except Exception as error:
        code = console.explain(error)
    sys.exit(console.end(code))


@app.command()
def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A shipped name, a file, or a model.")
    ] = None,
    overrides: Overrides = None,
    device: DeviceName = Device.auto,
    runs: Runs = Path("runs"),
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Go on with a run that was ended, in its own folder.",
            callback=typed_path,
        ),
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            min=1, help="How many of this machine share the work; torchrun starts those of several."
        ),
    ] = 1,
    profile: Annotated[
        bool, typer.Option("--profile", help="Say which operations take longest, and trace them.")
    ] = False,
    track: Track = None,
    trust: Trusted = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a recipe, or a model as it is, with each of its seeds and write the run's folder.

    zoo train sgformer-cora
    zoo train sgformer-cora model.attention=rba train.epochs=100 'seeds=[0, 1, 2]'
    zoo train gcn-cora dataset=mygraph.npz dataset.label=species
    zoo train sgformer dataset=mygraph.npz
    zoo train --resume runs/sgformer-cora-20261121-120000

    What the recipe imports is run, with --resume too: look at the recipe of a run that is not
    yours. --resume ends a run with the settings that it was begun with; `zoo finetune RUN --data
    DATA train.lr=0.001` trains on with others, or for longer.

    Memory that one step frees is kept for the next: by jemalloc (Debian's libjemalloc2) or mimalloc
    (graph-transformer-zoo[memory]) where one is installed, which takes a quarter less of it than
    the C library. With a variable of an allocator set, such as MALLOC_TRIM_THRESHOLD_, or
    LD_PRELOAD, nothing is changed.
    """
    from zoo.runs.resolve import check_processes, load_recipe, remarks_on_dataset, resolve
    from zoo.runs.run import explain_resume, load_unfinished
    from zoo.system import allocator
    from zoo.system import process_group as running
    from zoo.system.launcher import launch

    # One that is not the first, or whose launcher has spoken.
    launched = os.environ.get("RANK", "0") != "0" or running.rendezvous() is not None
    changes = [each for each in (recipe, *(overrides or [])) if each and "=" in each]
    if resume is not None and changes:
        raise ZooError(explain_resume(resume, changes))
    if (recipe is None) == (resume is None):
        raise ZooError(
            "name a recipe, `zoo train sgformer-cora`, or a run to go on with, "
            "`zoo train --resume runs/sgformer-cora-20261121-120000`, which takes no KEY=VALUE."
        )
    if resume is None:
        plan = resolve(load_recipe(recipe, overrides or [], trust=True), trust=True)
        for said in () if quiet or launched else remarks_on_dataset(recipe, overrides or []):
            console.remark(said)
    else:
        running.start()
        plan = load_unfinished(resume, max(processes, running.count()))[1]
    if not (quiet or launched or runs.exists()) and allocator.advice():
        console.remark(f"large graphs take a quarter less memory after: {allocator.advice()}")
    if processes > 1 and os.environ.get("WORLD_SIZE", "1") == "1":
        check_processes(plan, processes)
        sys.exit(launch(processes, main))
    how = {"quiet": quiet, "track": track or ()}
    if profile:
        _profiled(plan, device, runs, resume, as_json, how)
    else:
        tell(train_plan(plan, device, runs, resume, **how), as_json)


@app.command("list")
def list_(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help=", ".join(Kind))],
    pretrained: Annotated[
        bool, typer.Option("--pretrained", help="Of models: the weights that come with the zoo.")
    ] = False,
    dataset: Annotated[str | None, typer.Option(help="Of recipes: those for a data set.")] = None,
    model: Annotated[str | None, typer.Option(help="Of recipes: those of a model.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the words that a recipe may use.

    zoo list models
    zoo list recipes --dataset cora
    zoo list recipes --model sgformer
    zoo list models --pretrained
    """
    from zoo.cli.describe import CATALOGUE, chosen_recipes
    from zoo.cli.describe import pretrained as weights

    if pretrained and kind != Kind.models:
        raise ZooError(
            f"only models have weights; write `zoo list models --pretrained`, not {kind}."
        )
    if (dataset or model) and kind != Kind.recipes:
        raise ZooError(f"--dataset and --model choose recipes; leave them out of {kind}.")
    if kind == Kind.recipes:
        rows = chosen_recipes(dataset, model)
    else:
        rows = weights() if pretrained else CATALOGUE[kind]()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    elif kind == Kind.recipes:
        console.recipes(rows)
    else:
        console.rows(rows)


def _profiled(
    plan, device: Device, runs: Path, resume: Path | None, as_json: bool, how: dict[str, Any]
) -> None:
    """Train and print what came of it, then the dearest operations of a few epochs."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler is silent unless it is asked
    from zoo.system.environment import choose_device
    from zoo.system.profiler import EPOCHS, FIRST, Profile

    if plan.train["epochs"] < FIRST + EPOCHS:
        raise ZooError(
            f"--profile looks at {EPOCHS} epochs after the first {FIRST}; write "
            f"`train.epochs={FIRST + EPOCHS}` or more."
        )
    profile = Profile(choose_device(device.value))
    summary = train_plan(plan, device, runs, resume, profile.watch, **how)
    profile.close()
    rows = profile.dearest()
    if rows:
        trace = Path(summary["folder"]) / "trace.json"
        profile.write(trace)
        console.remark(f"written: {trace}, for chrome://tracing or ui.perfetto.dev")
    if rows and not as_json:
        console.rows(rows)
    tell({**summary, "dearest": rows} if as_json else summary, as_json)


@app.command()
def info(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A word of `zoo list models`.")],
    as_json: AsJson = False,
) -> None:
    """Print what a model is: equations, paper, options, citation, and the recipes that use it.

    zoo info sgformer
    """
    from zoo.cli.describe import info as information

    found = information(model)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        console.info(found)


@app.command()
def doctor() -> None:
    """Print what is installed, where data lives, and the line that fixes what is broken.

    zoo doctor
    """
    from zoo.cli.doctor import diagnose

    sys.exit(diagnose())
