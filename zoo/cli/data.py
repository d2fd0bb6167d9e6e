"""The command `zoo data`: check a graph of one's own, and prepare it under a name."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from zoo.cli import console
from zoo.cli.common import DataOptions, check_out, spec_of, typed_path
from zoo.errors import ZooError

app = typer.Typer(
    cls=console.Commands, no_args_is_help=True, help="Check and prepare a graph of your own."
)

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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Read a graph as training would and say what is good, to look at, or to fix (exit code 1).

    zoo data check mygraph
    zoo data check mygraph.npz label=species --plot degrees.png
    """
    from zoo.data.load import load_unless_graph_file, on_disk_folder, read_graph
    from zoo.data.load.check import check as findings
    from zoo.data.load.plot import draw

    check_out(plot, (".png",), again)
    spec = _spec(path, options)
    path = spec["name"]
    folder = on_disk_folder(path)
    whole = None if folder else load_unless_graph_file(spec)
    if whole is not None and plot is not None:
        raise ZooError(f"--plot draws a graph that is in a file, and {path} is none; leave it out.")
    data = folder or whole or read_graph(spec)
    found = findings(data)
    if as_json:
        typer.echo(json.dumps([each._asdict() for each in found]))
    else:
        console.data(found)
        console.recipe_of({"dataset": spec})
    broken = any(each.verdict == "fix" for each in found)
    if plot is not None and not broken:
        draw(Path(path).name or path, read_graph(spec) if folder else data, plot)
    if plot is not None:
        console.remark("nothing is drawn before that is fixed" if broken else f"written: {plot}")
    sys.exit(1 if broken else 0)


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
    written = _destination(name, "" if on_disk else ".npz", again)
    if on_disk:
        prepare_on_disk(_options(path, options), written, half=half, memory=memory)
    else:
        spec = _spec(path, options)
        if late := [each for each in ("direction", "duplicates", "relations") if each in spec]:
            raise ZooError(
                f"a prepared graph keeps every row of edges as it is; leave out `{late[0]}` here, "
                f"and write `dataset.{late[0]}={spec[late[0]]}` where you train on it."
            )
        parts = read_graph(spec)
        read = own_graph(spec["name"], parts)
        if (data := learnt_once(read)) is not read:
            names = data.feature_names
            parts = parts._replace(features=data.x.numpy(), feature_names=names, learnt=data.learnt)
        write_prepared(check_arrays(parts._replace(task=data.task)), written)
    word = shlex.quote(f"dataset={name}")
    console.remark(f"written: {written}; write `{word}`, such as zoo train gcn {word}")


def _destination(name: str, suffix: str, again: bool) -> Path:
    from zoo.data.load import DATASETS
    from zoo.data.load.named import NAMED
    from zoo.system.cache import data_folders
    from zoo.system.files import user_path

    if (
        Path(name).name != name
        or name.startswith((".", "~"))
        or not name.isprintable()
        or "=" in name
    ):
        raise ZooError(f"{name!r} is no name; write a word, such as `mine`: no path, no ending.")
    if name in DATASETS and not (name in NAMED and NAMED[name].source is None):
        raise ZooError(f"{name} is a graph of the zoo; give yours another name.")
    user_path(name + suffix)
    if Path(name).exists() and Path.cwd().resolve() != data_folders()[0].resolve():
        raise ZooError(f"{name} is a file or folder here, and would be read as `dataset: {name}`; "
                       "write another name.")  # fmt: skip
    kinds = [data_folders()[0] / f"{name}{each}" for each in (suffix, *{"", ".npz"} - {suffix})]
    if kinds[1].exists():
        raise ZooError(f"{kinds[1]} has that name already; remove it, or write another name.")
    if kinds[0].exists() and not again:
        raise ZooError(f"{kinds[0]} is there already; write --again to replace it, or another "
                       "name.")  # fmt: skip
    return kinds[0]


def _spec(path: str, options: list[str] | None) -> dict[str, Any]:
    spec = _options(path, options)
    if "features" in spec:
        raise ZooError("`features` is what training does to them; write it there, not here.")
    return spec


def _options(path: str, options: list[str] | None) -> dict[str, Any]:
    spec = spec_of(path, options)
    return {"name": spec} if isinstance(spec, str) else spec
