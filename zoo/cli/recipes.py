"""The commands that train beside `zoo train`: compare, reproduce and finetune; and report."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from zoo.cli import console, result_tables
from zoo.cli.common import (
    AsJson,
    Device,
    DeviceName,
    Overrides,
    Quiet,
    Runs,
    Track,
    exit_code,
    graceful_shutdown,
    spec_of,
    tell,
    train_plan,
    typed_path,
)
from zoo.cli.weights import Imports, Layerwise, Unverified, Weights, import_first, located
from zoo.errors import ZooError

app = typer.Typer()


@app.command()
def compare(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE|RUN|KEY=VALUE",
            help="Recipes or folders of finished runs, and changes of all recipes.",
        ),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Each model's recipe for this data set, as it is tuned.")
    ] = None,
    attention: Annotated[
        list[str] | None, typer.Option(help="Once with each attention: native, rba, softmax ...")
    ] = None,
    tuned: Annotated[
        bool,
        typer.Option(
            "--tuned", help="Added baselines as shipped: own features, tuning and budget."
        ),
    ] = False,
    device: DeviceName = Device.auto,
    runs: Annotated[
        Path, typer.Option(help="Where runs are looked for and written.", callback=typed_path)
    ] = Path("runs"),
    again: Annotated[bool, typer.Option("--again", help="Train even what is finished.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train recipes on one data set, or read their finished runs, into one table.

    zoo compare sgformer-cora gat-cora train.epochs=200 'seeds=[0, 1, 2]'
    zoo compare sgformer-cora --attention native --attention rba
    zoo compare sgformer-cora --tuned
    zoo compare --dataset cora train.epochs=200 train.patience=50
    zoo compare runs/sgformer-cora-20261121-120000 gcn-cora

    A GCN and an MLP are added where none is named: with their default
    options, on the data, splits and seeds of the first recipe, and with its
    budget (epochs, patience, batching). Changes reach them too. A row whose
    budget, evaluation or `inductive` is not that of the first is marked.

    Beside each score stands its difference from the best one, over pairs of
    one seed and split, with a 95 % interval; `noise` where that holds 0.

    What a recipe that is named imports is run; of finished runs nothing is.
    """
    from zoo.runs.compare import candidates
    from zoo.runs.compare import compare as run_all

    changes = [each for each in words or [] if "=" in each and not os.path.exists(each)]
    sources = [each for each in words or [] if each not in changes]
    entries = candidates(sources, changes, dataset, attention or [], tuned)
    how = {"device": device.value, "again": again, "quiet": quiet, "tell": console.remark}
    try:
        with graceful_shutdown():
            found = run_all(entries, runs=runs, **how)
    except KeyboardInterrupt:
        which = "the same command without --again" if again else "the same command"
        console.complain(f"stopped; {which} reads what is finished, and goes on.")
        sys.exit(exit_code())
    if as_json:
        typer.echo(json.dumps(found))
    else:
        result_tables.comparison(found)


@app.command()
def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Folders of runs.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write. Left out: report.html in the run, of several here.",
            callback=typed_path,
        ),
    ] = None,
    layerwise: Layerwise = False,
    device: DeviceName = Device.auto,
    imports: Imports = None,
    quiet: Quiet = False,
) -> None:
    """Write a page about a run, or one that compares several: a file for any browser.

    zoo report runs/gcn-cora-20261121-120000
    zoo report runs/gcn-cora-* runs/mlp-cora-* --out compared.html

    It has scores, curves of every seed, the classes, calibration, scores by degree and homophily
    of the nodes, embeddings, and the command that repeats it. A run may still be in training. What
    recipes import is not run, and what needs it is left out, unless --import names it. A page that
    was written before is replaced, any other file is kept.
    """
    from zoo.reports.report import write_report

    import_first(imports)
    say = (lambda text: None) if quiet else console.remark
    place = write_report(runs, out, device=device.value, layerwise=layerwise, tell=say)
    console.remark(f"written: {place}")


@app.command()
def reproduce(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A shipped recipe, or a .yaml file.")
    ] = None,
    overrides: Overrides = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every recipe whose data is at hand; none is downloaded.")
    ] = False,
    within_hours: Annotated[
        float, typer.Option(min=0, help="With --all: the longest that a recipe may take.")
    ] = 3.0,
    only: Annotated[
        str, typer.Option(metavar="PATTERN", help="With --all: names such as 'gcn-*'.")
    ] = "*",
    write: Annotated[
        bool, typer.Option("--write", help="Write what was measured into the recipes.")
    ] = False,
    device: DeviceName = Device.auto,
    runs: Runs = Path("runs"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a recipe and compare it with the number it should reach: PASS or FAIL.

    zoo reproduce sgformer-cora
    zoo reproduce --all --only 'gcn-*' --within-hours 1

    `zoo reproduce --all` does so with every recipe, each in a process of its own, and tells a line
    of each as it comes. Ended and given again, both go on where they were. FAIL is exit code 1.
    """
    if every and recipe:
        raise ZooError(f"--all trains every recipe as it is; leave {recipe} out, or --all.")
    if not every and recipe is None:
        raise ZooError("name a recipe, `zoo reproduce sgformer-cora`, or write --all for every.")
    if recipe and (within_hours != 3.0 or only != "*"):
        raise ZooError("--within-hours and --only choose among all; write --all for RECIPE.")
    if every:
        _reproduce_all(within_hours, only, device, runs, write, quiet, as_json)
    else:
        _reproduce(recipe, overrides or [], device, runs, write, quiet, as_json)


def _reproduce(
    recipe, overrides, device: Device, runs: Path, write: bool, quiet: bool, as_json: bool
) -> None:
    from zoo.runs.earlier_runs import find_unfinished
    from zoo.runs.reproduce import measurement, write_verified
    from zoo.runs.resolve import load_recipe, resolve
    from zoo.runs.run_folder import verdict
    from zoo.system.environment import using_threads

    loaded = load_recipe(recipe, overrides, trust=True)
    if loaded.expect is None:
        raise ZooError(
            f"{recipe} says no number to reach; use `zoo train`, or write "
            "`expect: {test: 0.84, within: 0.015, source: where it is from}` into the recipe."
        )
    if write and overrides:
        raise ZooError("--write is for a recipe as it is; leave KEY=VALUE out.")
    plan = resolve(loaded, trust=True)
    if folder := find_unfinished(plan, runs):
        console.remark(f"{loaded.name}: goes on in {folder}")
    with using_threads(loaded.verified and loaded.verified.threads):
        summary = train_plan(plan, device, runs, folder, quiet=quiet)
    summary["expect"] = loaded.expect.model_dump()  # it may be another than when it was begun
    if summary["interrupted"]:
        tell(summary, as_json)
    passed, sentence = verdict(summary)
    if as_json:
        typer.echo(json.dumps({**summary, "passed": passed}))
    else:
        result_tables.result(summary)
        missed = None if passed else loaded.expect.missed
        result_tables.verdict(passed, sentence, loaded.differs, missed)
    if write:
        write_verified(loaded, measurement(loaded, summary))
    sys.exit(0 if passed else 1)


def _reproduce_all(
    hours: float, only: str, device: Device, runs: Path, write: bool, quiet: bool, as_json: bool
) -> None:
    from zoo.runs.reproduce import reproduce_all

    passed, rows = True, 0
    given = {"device": device.value, "runs": runs, "write": write, "quiet": quiet,
             "tell": console.remark}  # fmt: skip
    try:
        with graceful_shutdown():
            for row in reproduce_all(hours=hours, only=only, **given):
                passed, rows = passed and row["state"] not in ("FAIL", "error"), rows + 1
                if as_json:
                    typer.echo(json.dumps(row))
                else:
                    result_tables.reproduction(row)
    except KeyboardInterrupt:
        console.complain("stopped; what is finished is kept, and what was begun goes on next time.")
        sys.exit(exit_code())
    if not rows:
        raise ZooError(f"no recipe is called {only!r}; see `zoo list recipes`.")
    sys.exit(0 if passed else 1)


@app.command()
def finetune(
    weights: Weights,
    data: Annotated[
        str, typer.Option("--data", help="A name or PATH; or {name: PATH, label: species}.")
    ],
    overrides: Overrides = None,
    freeze: Annotated[
        list[str] | None,
        typer.Option(help="none, backbone, or names of weights, such as layers.0; again for more."),
    ] = None,
    lr_decay: Annotated[
        float, typer.Option(help="Factor of the learning rate per layer, from the head down.")
    ] = 1.0,
    probe: Annotated[bool, typer.Option("--probe", help="Train nothing but the head.")] = False,
    device: DeviceName = Device.auto,
    runs: Runs = Path("runs"),
    imports: Imports = None,
    unverified: Unverified = False,
    track: Track = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train on from weights: a recipe with `start_from`, written out and run.

    zoo finetune runs/gcn-cora-20261121-120000 --data mygraph.npz
    zoo finetune gcn-digits --data mygraph.npz --probe train.epochs=50
    """
    from zoo.config.recipe import divide, word
    from zoo.data.load import load_data
    from zoo.inference.training_data import (
        as_trained,
        split_from_start,
        split_of_same_rows,
        training_of,
        training_split,
    )
    from zoo.runs.resolve import load_recipe, resolve
    from zoo.weights.create import hint_imports
    from zoo.weights.finetune import finetuning

    if probe and freeze:
        raise ZooError("--probe freezes all but the head; leave out --freeze.")
    words = ["except-head"] if probe else freeze or ["none"]
    frozen = words[0] if len(words) == 1 else words
    folder = located(weights)
    import_first(imports, folder)
    training = training_of(str(folder))
    about = training.about
    _, said = divide(spec_of(data), ("split",))
    spec = as_trained(spec_of(data), training.spec, about, same_columns=False)
    spec, usual = divide(spec, ("split",))  # sets and series have the word of training
    recipe = finetuning(folder, spec, frozen, lr_decay, unverified)
    if word(recipe["graph"]) == "file" and not any(each[:5] == "graph" for each in overrides or []):
        raise ZooError(
            f"{weights} was trained on the edges of a file, which are not with it; write "
            "'graph={name: file, path: edges.csv}', or graph=own where the data have edges."
        )
    known = recipe["dataset"]
    own = training_split(known, training)
    own = split_of_same_rows(known, training.spec) if own is None else own
    if own is not None:  # divided as then
        recipe["seeds"] = [about.seed or 0]
    elif usual and not said and (kept := split_from_start(str(folder), known, load_data(known))):
        usual = {"split": kept}
    recipe["dataset"] = {**known, **usual, **(own or {}), **said}
    recipe |= {"imports": imports} if imports else {}
    with hint_imports(about, done=imports):
        loaded = load_recipe(recipe, overrides or [], trust=True)
        name = f"{recipe['model']['name']}-{Path(recipe['dataset']['name']).stem}-finetuned"
        plan = resolve(loaded.model_copy(update={"name": name}), trust=True)
    if not quiet and loaded.train.get("lr") == recipe["train"].get("lr"):
        result_tables.rate(plan.train["lr"], as_usual=frozen == "none" and lr_decay == 1)
    tell(train_plan(plan, device, runs, quiet=quiet, track=track or ()), as_json)
