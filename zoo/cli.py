"""The command `zoo`: the only place that prints."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from zoo.errors import ZooError

# Torch, DGL and the zoo's own modules are imported inside the commands that need them: `zoo --help`
# answers at once, and `zoo doctor` where they do not import at all.

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A model zoo of graph transformers: train, reproduce and compare them by name.",
)
screen = Console(highlight=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="A shipped name or a file.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Changes, such as model.attention=rba."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Device(StrEnum):
    """Where to train."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


DeviceName = Annotated[Device, typer.Option(help="Where to train.")]
Runs = Annotated[Path, typer.Option(help="The folder in which the run's own folder is made.")]


class Kind(StrEnum):
    """What `zoo list` can list."""

    models = "models"
    recipes = "recipes"
    attentions = "attentions"
    propagations = "propagations"
    encodings = "encodings"
    datasets = "datasets"


def main() -> None:
    """Run the command; what the user can fix is printed as one paragraph, exit code 2."""
    try:
        app()
    except ZooError as error:
        errors.print(f"[bold red]zoo:[/] {_plain(error)}")
        sys.exit(2)


@app.command()
def train(
    recipe: RecipeName,
    overrides: Overrides = None,
    device: DeviceName = Device.auto,
    runs: Runs = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Train a recipe with each of its seeds and write the run's folder."""
    summary = _run(recipe, overrides, device, runs)
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        _print_result(summary)
    if summary["interrupted"]:
        sys.exit(130)


@app.command()
def reproduce(
    recipe: RecipeName,
    overrides: Overrides = None,
    device: DeviceName = Device.auto,
    runs: Runs = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Train a recipe and compare it with the number it should reach: PASS or FAIL."""
    from zoo.plan import load_recipe
    from zoo.run import verdict

    if load_recipe(recipe, overrides or []).expect is None:
        raise ZooError(
            f"{recipe} says no number to reach; use `zoo train`, or write "
            "`expect: {test: 0.84, within: 0.015, source: where it is from}` into the recipe."
        )
    summary = _run(recipe, overrides, device, runs)
    passed, sentence = verdict(summary)
    if as_json:
        typer.echo(json.dumps({**summary, "passed": passed}))
    else:
        _print_result(summary)
        screen.print(f"[bold {'green' if passed else 'red'}]{'PASS' if passed else 'FAIL'}[/] "
                     f"{_plain(sentence)}")  # fmt: skip
    sys.exit(0 if passed else 1)


@app.command()
def show(recipe: RecipeName, overrides: Overrides = None) -> None:
    """Print a recipe with the value of every option."""
    from zoo.plan import load_recipe, resolve
    from zoo.recipe import recipe_text

    typer.echo(recipe_text(resolve(load_recipe(recipe, overrides or []))), nl=False)


@app.command("list")
def list_(kind: Kind, as_json: AsJson = False) -> None:
    """List the words that a recipe may use."""
    from zoo.catalogue import CATALOGUE

    rows = CATALOGUE[kind]()
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for column in rows[0]:
        table.add_column(column, no_wrap=column == "name", overflow="fold")
    for row in rows:
        table.add_row(*(_plain("" if cell is None else cell) for cell in row.values()))
    screen.print(table)


@app.command()
def schema() -> None:
    """Print the JSON schema of recipes, for editors."""
    from zoo.plan import schema as recipe_schema

    typer.echo(json.dumps(recipe_schema(), indent=2))


@app.command()
def doctor() -> None:
    """Print what is installed, where data lives, and the line that fixes what is broken."""
    from zoo.doctor import examine

    findings = examine()
    table = Table(box=None, show_header=False, pad_edge=False)
    for each in findings:
        mark = (
            "[green]ok[/]" if not each.fix else "[red]broken[/]" if each.needed else "[yellow]-[/]"
        )
        table.add_row(mark, each.name, _plain(each.found))
        if each.fix:
            table.add_row("", "", f"[bold]{_plain(each.fix)}[/]")
    screen.print(table)
    sys.exit(1 if any(each.fix and each.needed for each in findings) else 0)


def _run(recipe, overrides, device, runs) -> dict:
    from tqdm import tqdm

    from zoo.plan import load_recipe
    from zoo.run import run_recipe

    plan = load_recipe(recipe, overrides or [])
    # tqdm draws on standard error, and nothing at all where that is not a terminal.
    with tqdm(disable=None, unit="epoch", dynamic_ncols=True) as bar:

        def watch(seed, epoch):
            bar.total = epoch.of * len(plan.seeds)
            bar.n = plan.seeds.index(seed) * epoch.of + epoch.epoch
            score = "" if epoch.val is None else f" val {epoch.val:.4f}"
            bar.set_description(f"seed {seed} loss {epoch.loss:.4f}{score}", refresh=False)
            bar.update()

        try:
            return run_recipe(plan, device=device.value, runs=runs, watch=watch)
        except KeyboardInterrupt:
            errors.print("zoo: stopped before a first result; nothing is left behind.")
            sys.exit(130)


def _print_result(summary: dict) -> None:
    title = f"{summary['recipe']}: {summary['metric']} on {summary['dataset']}"
    table = Table(title=title, title_justify="left")
    for column in ("seed", "best epoch", "validation", "test"):
        table.add_column(column, justify="right")
    for row in summary["seeds"]:
        scores = (f"{row[part]:.4f}" for part in ("val", "test"))
        table.add_row(str(row["seed"]), str(row["epoch"]), *scores)
    if len(summary["seeds"]) > 1:
        table.add_section()
        spread = (f"{summary[p]['mean']:.4f} ± {summary[p]['std']:.4f}" for p in ("val", "test"))
        table.add_row("mean", "", *spread)
    screen.print(table)
    if summary["interrupted"]:
        screen.print(f"[yellow]stopped early, after {len(summary['seeds'])} seeds[/]")
    screen.print(
        f"{summary['parameters']:,} parameters, {summary['seconds_per_epoch'] * 1000:.0f} ms per "
        f"epoch, {summary['peak_memory_bytes'] / 2**30:.2f} GiB at most, on {summary['device']}\n"
        f"The run is in {_plain(summary['folder'])}",
        soft_wrap=True,
    )


def _plain(text: object) -> str:
    """Keep rich from reading square brackets in a user's text as its own markup."""
    return str(text).replace("[", r"\[")
