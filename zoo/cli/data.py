"""The command `zoo data`: check a graph of one's own, and prepare it under a name."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from zoo.cli import console
from zoo.cli.common import AsJson, DataOptions, check_out, spec_of, typed_path
from zoo.cli.console import out, plain
from zoo.errors import ZooError

app = typer.Typer(no_args_is_help=True, help="Check and prepare a graph of your own.")

Source = Annotated[
    str, typer.Argument(metavar="PATH", help="A folder with nodes.csv and edges.csv, or a file.")
]


@app.command()
@console.hints_for_the_shell()
def check(
    path: Source,
    options: DataOptions = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw degrees and classes into this PNG.", callback=typed_path),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Replace the PNG if it is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read a graph as training would and say what is good, to look at, or to fix (exit code 1).

    zoo data check mygraph
    zoo data check mygraph.npz label=species --plot degrees.png

    What tables need said is guessed; the last lines say it as training takes it.
    """
    from zoo.data.load import guess_spec, load_unless_graph_file, on_disk_folder, read_graph
    from zoo.data.load.check import check as check_data
    from zoo.data.load.check import draw
    from zoo.data.tables.guess import proposed

    check_out(plot, (".png",), again)
    typed = _spec(path, options)
    path, guesses = typed["name"], guess_spec(typed)
    spec = typed | proposed(guesses)
    folder = on_disk_folder(path)
    whole = None if folder else load_unless_graph_file(spec)
    if whole is not None and plot is not None:
        raise ZooError(f"--plot draws a graph that is in a file, and {path} is none; leave it out.")
    try:
        data = folder or whole or read_graph(spec)
    except ZooError as error:
        if guesses and not as_json:
            _print_findings(guesses)
            if not _is_of_what_was_typed(error, typed):
                _print_finished(spec, "")
        if plot is not None:
            console.remark("the plot comes once that is fixed")
        raise
    findings = [*guesses, *check_data(data)]
    if as_json:
        typer.echo(json.dumps([finding._asdict() for finding in findings]))
    else:
        _print_findings(findings)
        _print_finished(spec, _task_of(findings))
    broken = any(finding.verdict == "fix" for finding in findings)
    if plot is not None:
        draw(Path(path).name or path, read_graph(spec) if folder else data, plot)
        console.remark(f"written: {plot}")
    sys.exit(1 if broken else 0)


def _is_of_what_was_typed(error: ZooError, typed: dict[str, Any]) -> bool:
    """Return whether an error names a value that was typed: a command with it would fail too."""
    from zoo.data.tables.columns import list_names

    values = [value for key, value in typed.items() if key != "name"]
    names = [
        name for value in values if isinstance(value, str | list) for name in list_names(value)
    ]
    return any(repr(name) in str(error) for name in names)


def _print_findings(findings: list) -> None:
    """Print a line for each finding, and below it what to do about it."""
    from zoo.config.overrides import in_the_shell

    marks = {"good": "[green]good[/]", "look": "[yellow]look[/]", "fix": "[bold red]fix[/]"}
    table = Table.grid("", "", Column(overflow="fold"), padding=(0, 2, 0, 0))
    for finding in findings:
        found = plain(in_the_shell(finding.found))
        table.add_row(marks[finding.verdict], plain(finding.name), found)
        if finding.fix:
            table.add_row("", "", f"[bold]{plain(in_the_shell(finding.fix))}[/]")
    out.print(table)


def _task_of(findings: list) -> str | None:
    """Return the task that a recipe has to name beside its data, None where none can be trained."""
    from zoo.tasks.labels import GRAPH_METRICS, LINKS, NODE_METRICS

    values = {finding.name: finding.values for finding in findings}
    labels = values.get("labels", {})
    if labels.get("task") not in (*NODE_METRICS, *GRAPH_METRICS):
        return None
    if labels["labelled"]:
        return ""
    return LINKS if values["size"].get("edges") else None


def _print_finished(spec: dict[str, Any], task: str | None) -> None:
    """Print the command that trains on graphs, if one does, and what a recipe says of the data."""
    from zoo.config.overrides import shell_words
    from zoo.config.recipe import recipe_text

    if task is not None:
        words = {"dataset" if key == "name" else f"dataset.{key}": spec[key] for key in spec}
        line = plain(f"zoo train sgformer {shell_words(words | ({'task': task} if task else {}))}")
        heading = "Train on links, for no label is known" if task else "Train"
        out.print(f"\n[bold]{heading}[/]\n{line}", soft_wrap=True)
    recipe = plain(recipe_text({"dataset": spec}))
    out.print(f"\n[bold]In a recipe[/]\n{recipe}", soft_wrap=True, end="")


@app.command()
@console.hints_for_the_shell()
def prepare(
    path: Source,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What recipes will call it.")],
    options: DataOptions = None,
    again: Annotated[bool, typer.Option("--again", help="Replace the graph of that name.")] = False,
    on_disk: Annotated[
        bool, typer.Option("--on-disk", help="Write a folder that is never all in memory.")
    ] = False,
    half: Annotated[bool, typer.Option("--half", help="On disk: fp16 features.")] = False,
    memory: Annotated[
        float, typer.Option(help="On disk: GiB of edges to hold at a time.", min=0.001)
    ] = 2.0,
) -> None:
    """Write a graph as NAME.npz into the first data folder, so that `dataset: NAME` is it.

    zoo data prepare mygraph mine label=species
    zoo data prepare mygraph mine --on-disk

    --on-disk writes a folder NAME instead, of graphs of any size: `zoo list files` says which.
    """
    from zoo.data import check_arrays
    from zoo.data.files.prepared import write_prepared
    from zoo.data.load import learnt_once, own_graph, prepare_on_disk, read_graph

    if half and not on_disk:
        raise ZooError("--half is for on-disk graphs; write --on-disk --half.")
    place = _destination(name, "" if on_disk else ".npz", again)
    if on_disk:
        prepare_on_disk(_options(path, options), place, half=half, memory=memory)
    else:
        spec = _spec(path, options)
        if late := [key for key in ("direction", "duplicates", "relations") if key in spec]:
            raise ZooError(
                f"a prepared graph keeps every row of edges as it is; leave out `{late[0]}` here, "
                f"and write `dataset.{late[0]}={spec[late[0]]}` where you train on it."
            )
        arrays = read_graph(spec)
        graph = own_graph(spec["name"], arrays)
        if (data := learnt_once(graph)) is not graph:
            arrays = arrays._replace(
                features=data.x.numpy(), feature_names=data.feature_names, learnt=data.learnt
            )
        write_prepared(check_arrays(arrays._replace(task=data.task)), place)
    word = shlex.quote(f"dataset={name}")
    console.remark(f"written: {place}; write `{word}`, such as zoo train gcn {word}")


def _destination(name: str, suffix: str, again: bool) -> Path:
    """Return the file or folder of a name, with this suffix, in the first data folder."""
    from zoo.data.load import DATASETS
    from zoo.data.load.named import NAMED
    from zoo.system.cache import data_folders
    from zoo.system.files import user_path

    is_word = Path(name).name == name and name.isprintable() and "=" not in name
    if not is_word or name.startswith((".", "~")):
        raise ZooError(f"{name!r} is no name; write a word, such as `mine`: no path, no ending.")
    if name in DATASETS and not (name in NAMED and NAMED[name].source is None):
        raise ZooError(f"{name} is a graph of the zoo; give yours another name.")
    user_path(name + suffix)
    folder = data_folders()[0]
    if Path(name).exists() and Path.cwd().resolve() != folder.resolve():
        raise ZooError(f"{name} is a file or folder here, and would be read as `dataset: {name}`; "
                       "write another name.")  # fmt: skip
    place, other = folder / f"{name}{suffix}", folder / f"{name}{'' if suffix else '.npz'}"
    if other.exists():
        raise ZooError(f"{other} has that name already; remove it, or write another name.")
    if place.exists() and not again:
        raise ZooError(f"{place} is there already; write --again to replace it, or another name.")
    return place


def _spec(path: str, options: list[str] | None) -> dict[str, Any]:
    spec = _options(path, options)
    if "features" in spec:
        raise ZooError("`features` is what training does to them; write it there, not here.")
    return spec


def _options(path: str, options: list[str] | None) -> dict[str, Any]:
    spec = spec_of(path, options)
    return {"name": spec} if isinstance(spec, str) else spec
