"""The commands that look: list, info, show, schema, doctor, check and estimate."""

import json
import sys
import time
from enum import StrEnum
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.table import Table

from zoo.cli import console
from zoo.cli.common import (
    AsJson,
    DataOptions,
    Imports,
    Overrides,
    RecipeName,
    Trust,
    import_first,
    spec_of,
)
from zoo.cli.console import out, plain
from zoo.config.scores import figure, gain, with_deviation
from zoo.errors import ZooError

app = typer.Typer()


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
    decoders = "decoders"
    negatives = "negatives"
    readouts = "readouts"
    datasets = "datasets"
    graphs = "graphs"
    files = "files"


@app.command("list")
def list_(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help=", ".join(Kind))],
    pretrained: Annotated[
        bool, typer.Option("--pretrained", help="Of models: the weights that come with the zoo.")
    ] = False,
    dataset: Annotated[str | None, typer.Option(help="Of recipes: those for a data set.")] = None,
    model: Annotated[str | None, typer.Option(help="Of recipes: those of a model.")] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", help="Of weights: a graph, to list those that fit it."),
    ] = None,
    options: DataOptions = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """List the words that a recipe may use.

    zoo list models
    zoo list recipes --dataset cora
    zoo list recipes --model sgformer
    zoo list models --pretrained
    zoo list models --pretrained --data mygraph.npz
    """
    from zoo.cli import describe
    from zoo.registry import discover

    if pretrained and kind != Kind.models:
        raise ZooError(
            f"only models have weights; write `zoo list models --pretrained`, not {kind}."
        )
    discover()  # words of other packages
    import_first(imports)
    if (dataset or model) and kind != Kind.recipes:
        raise ZooError(f"--dataset and --model choose recipes; leave them out of {kind}.")
    if (data is None and options) or (data is not None and not pretrained):
        raise ZooError("--data GRAPH, and how it is read, go with `zoo list models --pretrained`.")
    if data is not None:
        from zoo.data.load import load_data

        rows = describe.suited(load_data(spec_of(data, options)))
    elif kind == Kind.recipes:
        rows = describe.recipes(dataset, model)
    else:
        rows = describe.pretrained() if pretrained else describe.CATALOGUE[kind]()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    elif kind == Kind.recipes:
        _print_recipes(rows)
    else:
        console.rows(rows)


def _print_recipes(rows: list[dict[str, Any]]) -> None:
    """Print recipes, those for one split of a data set together, the best of them first."""
    table = Table(box=None, pad_edge=False)
    table.add_column("recipe", overflow="fold")
    for column in ("published", "measured"):
        table.add_column(column, justify="right", no_wrap=True)
    for where, group in groupby(rows, lambda row: row["scored_on"]):
        same = sorted(group, key=_measured)
        metrics = dict.fromkeys(row["metric"] for row in same if row["metric"])
        table.add_row(f"[bold]{plain(where)}[/], {plain(' and '.join(metrics))}")
        for row in same:
            expected = "" if row["expected"] is None else figure(row["expected"])
            score = {"mean": row["measured"], "std": row["std"]}
            measured = "" if row["measured"] is None else with_deviation(score)
            table.add_row(f"  {plain(row['name'])}", expected, measured)
    out.print(table)


def _measured(row: dict[str, Any]) -> tuple[bool, float]:
    """Return the key that sorts recipes by their measured scores, those without one last."""
    return row["measured"] is None, -gain(row["metric"], row["measured"] or 0)


@app.command()
def info(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A word of `zoo list models`.")],
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Print what a model is: equations, paper, options, citation, and the recipes that use it.

    zoo info sgformer
    zoo info mine --import my_model.py
    """
    from zoo.cli import describe

    import_first(imports)
    about = describe.info(model)
    if as_json:
        typer.echo(json.dumps(about, indent=2))
        return
    out.print(f"[bold]{plain(about['name'])}[/]  {plain(about['what'])}\n", soft_wrap=True)
    for part in ("equations", "edge weights", "paper"):
        if about[part]:
            out.print(plain(about[part]) + "\n", soft_wrap=True)
    if about["about"]:
        out.print(f"[bold]About[/]\n{plain(about['about'])}\n", soft_wrap=True)
    for part, print_rows in (("options", console.rows), ("recipes", _print_recipes)):
        if about[part]:
            out.print(f"[bold]{part.capitalize()}[/]")
            print_rows(about[part])
            out.print()
    if about["citation"]:
        out.print(f"[bold]Citation[/]\n{plain(about['citation'])}\n", soft_wrap=True)
    _print_differences(about["differs"])


def _print_differences(differs: dict[str, list[str]]) -> None:
    """Print where recipes differ from their sources, each sentence once with its recipes."""
    recipes: dict[str, list[str]] = {}
    for name, sentences in differs.items():
        for sentence in sentences:
            recipes.setdefault(sentence, []).append(name)
    if recipes:
        out.print("[bold]Where recipes differ from their sources[/]")
    for sentence, names in sorted(recipes.items(), key=lambda each: -len(each[1])):
        out.print(f"{plain(sentence)} [dim]({plain(', '.join(names))})[/]", soft_wrap=True)


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
def schema() -> None:
    """Print the JSON schema of recipes, for editors.

    zoo schema > recipe.schema.json
    """
    from zoo.cli.describe import schema_of_recipes

    typer.echo(json.dumps(schema_of_recipes(), indent=2))


@app.command()
def doctor() -> None:
    """Print what is installed, where data lives, and the line that fixes what is broken.

    zoo doctor
    """
    from zoo.cli.doctor import diagnose

    sys.exit(diagnose())


@app.command()
def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="WORD_OR_FILE",
            help="Of `zoo list models`, attentions, propagations or encodings; or .py or .ipynb.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Hold a model or an attention to what all of them promise; exit code 1 where that is broken.

    zoo check sgformer
    zoo check performer
    zoo check my_model.py

    Propagations and encodings have their promises too. Of a file all that it registers is checked.
    Of a notebook, imports, functions, classes and plain assignments are run, and nothing else.
    """
    from zoo.testing.models import LAST, checked, row_of
    from zoo.testing.sources import RefusedModel, words_of

    start, rows = time.perf_counter(), []
    write = console.remark if as_json else console.say
    try:
        words = words_of(target)
    except RefusedModel as error:
        words = []
        rows.append(row_of(target, "it_can_be_registered", [(target, str(error))], 0.0))
        _print_promise(rows[-1], {}, write)
    for kind, word in words:
        write(f"{kind} {word}:")
        printed: dict[str, str] = {}
        for row in checked(kind, word):
            rows.append(row)
            _print_promise(row, printed, write)
    broken = [row for row in rows if row["broken"]]
    seconds = time.perf_counter() - start
    if as_json:
        summary = {"promises": rows, "kept": not broken, "seconds": round(seconds, 1)}
        typer.echo(json.dumps(summary))
    elif broken:
        more = "; fix them to see the others" if rows[-1]["promise"] != LAST else ""
        write(f"{len(broken)} of {len(rows)} promises are broken, in {seconds:.0f} s{more}.")
    else:
        names = dict.fromkeys(word for _, word in words)
        write(f"{', '.join(names)} keeps all {len(rows)} promises, in {seconds:.0f} s.")
    sys.exit(1 if broken else 0)


def _print_promise(row: dict[str, Any], printed: dict[str, str], write) -> None:
    """Print a line for a promise, and below it what breaks it, every finding once."""
    from zoo.testing.promise import finding

    cases = "" if row["cases"] == 1 else f", {row['cases']} cases"
    words = row["promise"].replace("_", " ")
    found: dict[str, list[dict[str, str]]] = {}
    for case in row["broken"]:
        found.setdefault(finding(case["said"]), []).append(case)
    before = dict.fromkeys(printed[each] for each in found if each in printed)
    alike = f": as {', '.join(before)}" if before else ""
    state = "broken" if row["broken"] else "kept  "
    write(f"  {state}  {words}{cases} ({row['seconds']:.1f} s){alike}")
    for each, group in found.items():
        if each not in printed:
            names = [case["of"] for case in group]
            more = f" and {len(names) - 2} more" if len(names) > 2 else ""
            write(f"          {', '.join(names[:2])}{more}: {group[0]['said']}")
            printed[each] = words


@app.command()
def estimate(
    recipe: RecipeName, overrides: Overrides = None, trust: Trust = False, as_json: AsJson = False
) -> None:
    """Say how much memory a recipe will take, from small graphs of the same kind.

    zoo estimate sgformer-cora model.dim=512
    """
    from zoo.runs.estimate_memory import estimate as estimate_memory
    from zoo.runs.resolve import load_recipe, resolve
    from zoo.system.allocator import advice, keep_freed_memory

    keep_freed_memory()  # as in training
    loaded = load_recipe(recipe, overrides or [], trust=trust)
    if loaded.imports and not trust:
        raise ZooError(
            f"{recipe} imports code, {', '.join(loaded.imports)}, which an estimate has to run: it "
            "makes the model and trains it for some steps. Read it, and write `--trust`."
        )
    memory = estimate_memory(resolve(loaded, trust))
    if as_json:
        typer.echo(json.dumps(memory._asdict()))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify)
    for name, what in {
        "parameters": "",
        "nodes": "in the graph",
        "batch": "nodes in a step",
        "program": "Python and the libraries",
        "data": "features, labels and graph",
        "weights": "with gradients, optimiser and the best so far",
        "step": "of training, at its peak",
        "evaluation": "at its peak",
        "peak": "of all that, on a CPU",
        "peak_cuda": "on a GPU, without what CUDA takes for itself",
    }.items():
        value = getattr(memory, name)
        is_count = name in ("parameters", "nodes", "batch")
        size = f"{value:,}" if is_count else f"{value / 2**20:,.0f} MiB"
        table.add_row(name.replace("_", " "), size, what)
    out.print(table)
    if memory.nodes > 100_000 and advice():
        console.remark(f"a step takes a quarter less after: {advice()}")
    if memory.largest == 0:
        out.print("The data alone do not fit into the memory that is free here.")
    elif memory.largest is not None:
        out.print(f"In the memory that is free here a step may see {memory.largest:,} nodes.")
