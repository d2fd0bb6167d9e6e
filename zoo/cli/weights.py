"""The commands for what has been trained: predict, evaluate and embed."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zoo.cli import console, result_tables
from zoo.cli.common import (
    AsJson,
    DataOptions,
    Device,
    DeviceName,
    check_out,
    spec_of,
    tell_forecast,
    translate,
    typed_path,
)
from zoo.errors import ZooError

if TYPE_CHECKING:
    from zoo.config.options import Spec

app = typer.Typer()

Weights = Annotated[
    str,
    typer.Argument(
        metavar="WEIGHTS",
        help="A run, one of its seeds, a folder of weights, a name of "
        "`zoo list models --pretrained`, or hub:OWNER/NAME.",
    ),
]
Graph = Annotated[
    str,
    typer.Option(
        "--data", help="A name, a path, or {name: PATH, label: species}; or label=species after it."
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Nodes at a time, for graphs that do not fit into memory. An approximation: neither "
        "edges nor attention cross from one part of the graph to another. Of texts, tokens.",
    ),
]
Layerwise = Annotated[
    bool,
    typer.Option(
        "--layerwise",
        help="The answers of the whole graph in bounded memory: layer by layer, with files in "
        "TMPDIR. Not for every attention.",
    ),
]
Imports = Annotated[
    list[str] | None,
    typer.Option("--import", help="A Python file or module to import first; nothing else is."),
]
Unverified = Annotated[
    bool, typer.Option("--unverified", help="Take weights that come without a checksum.")
]
Beams = Annotated[
    int | None, typer.Option(min=1, max=1000, help="Of texts: hypotheses of each; 4 if left out.")
]
LengthPenalty = Annotated[
    float | None, typer.Option(min=0, help="Of texts: exponent of the length; 0.6 if left out.")
]
Steps = Annotated[int | None, typer.Option(min=1, help="Of forecasts: times to predict.")]
Again = Annotated[bool, typer.Option("--again", help="Replace the file if it exists.")]


@app.command()
@console.hints_for_the_shell()
def predict(
    weights: Weights,
    options: DataOptions = None,
    data: Annotated[str | None, typer.Option("--data", help="A graph, as of `embed`.")] = None,
    text: Annotated[
        str | None, typer.Option(help="A file to translate, a sentence a line; -: what is typed.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The table to write: .csv or .parquet; of texts any file. Left out, texts and "
            "forecasts are printed.",
            callback=typed_path,
        ),
    ] = None,
    batch_size: BatchSize = None,
    layerwise: Layerwise = False,
    only_new: Annotated[
        bool, typer.Option("--only-new", help="Only nodes that training has not seen.")
    ] = False,
    beams: Beams = None,
    length_penalty: LengthPenalty = None,
    steps: Steps = None,
    device: DeviceName = Device.auto,
    imports: Imports = None,
    unverified: Unverified = False,
    again: Again = False,
) -> None:
    """Predict every node of a graph, or what comes next in time; or translate a text.

    zoo predict runs/gcn-cora-20261121-120000 --data mygraph.npz --out answers.csv
    zoo predict runs/difformer-chickenpox-20261121-120000 --steps 4
    zoo predict runs/transformer-multi30k-20261121-120000 --text letter.txt
    """
    from zoo.inference.predict import predict as run
    from zoo.inference.predict import write_table
    from zoo.inference.training_data import new_nodes

    spec = _given(data, options)
    if text is None and _forecast(weights, spec, steps, out, again, device, imports, unverified):
        return
    if steps is not None:
        raise ZooError("--steps is for models of forecasts; leave it out.")
    if (spec is None) == (text is None):
        raise ZooError("write --data GRAPH, to predict its nodes, or --text FILE, to translate it.")
    if text is not None:
        if layerwise or only_new:
            word = "--layerwise" if layerwise else "--only-new"
            raise ZooError(f"{word} is for graphs, and --text is none; leave it out.")
        how = {"beams": beams, "length_penalty": length_penalty, "batch_size": batch_size}
        translate(_loaded(weights, imports, unverified)[0], text, out, again, device, how)
        return
    if (beams, length_penalty) != (None, None):
        raise ZooError("--beams and --length-penalty are for texts; leave them out.")
    if out is None:
        raise ZooError("say where the predictions go: --out predictions.csv, or .parquet.")
    check_out(out, (".csv", ".parquet"), again)
    model, folder, graph, seen = _asked(weights, spec, imports, unverified)
    new = new_nodes(folder, graph) if only_new else None
    how = {"batch_size": batch_size, "layerwise": layerwise, "device": _device(device)}
    found = run(model, graph, context=seen, **how)
    found = found if new is None else found.select(new)
    write_table(found, out)
    count, said = len(found.ids), _said(found.dropped_edges)
    console.remark(f"{count:,} {graph.unit} of {graph.name} are in {out}.{said}")


@app.command()
@console.hints_for_the_shell()
def embed(
    weights: Weights,
    data: Graph,
    out: Annotated[
        Path, typer.Option(help="The array to write, a row per node: .npy.", callback=typed_path)
    ],
    options: DataOptions = None,
    batch_size: BatchSize = None,
    layerwise: Layerwise = False,
    device: DeviceName = Device.auto,
    imports: Imports = None,
    unverified: Unverified = False,
    again: Again = False,
) -> None:
    """Write the embedding of every node, what the head of the model reads: one row each.

    zoo embed runs/gcn-cora-20261121-120000 --data mygraph.npz --out rows.npy
    """
    from zoo.inference.predict import embed as run
    from zoo.inference.predict import write_array

    check_out(out, (".npy",), again)
    model, _, graph, seen = _asked(weights, spec_of(data, options), imports, unverified)
    how = {"batch_size": batch_size, "layerwise": layerwise, "device": _device(device)}
    found = run(model, graph, context=seen, **how)
    write_array(found.values, out)
    shape, said = " x ".join(map(str, found.values.shape)), _said(found.dropped_edges)
    console.remark(f"{shape} numbers, {graph.unit} of {graph.name}, are in {out}.{said}")


@app.command()
@console.hints_for_the_shell()
def evaluate(
    weights: Weights,
    options: DataOptions = None,
    data: Annotated[
        str | None,
        typer.Option("--data", help="A graph; left out, what the weights were trained on."),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(
            help="train, val, test or all. Left out, it is test where the weights were trained, "
            "and on other graphs all nodes with a label."
        ),
    ] = None,
    batch_size: BatchSize = None,
    layerwise: Layerwise = False,
    device: DeviceName = Device.auto,
    imports: Imports = None,
    unverified: Unverified = False,
    beams: Beams = None,
    length_penalty: LengthPenalty = None,
    as_json: AsJson = False,
) -> None:
    """Measure trained weights on a graph, by the metric of their task.

    zoo evaluate runs/gcn-cora-20261121-120000
    zoo evaluate runs/gcn-cora-20261121-120000 --data other.npz label=species
    """
    from zoo.inference.evaluate import evaluate_part

    model, folder = _loaded(weights, imports, unverified)
    found = evaluate_part(
        model,
        _given(data, options),
        part,
        batch_size=batch_size,
        layerwise=layerwise,
        device=_device(device),
        beams=beams,
        length_penalty=length_penalty,
        folder=folder,
    )
    if as_json:
        typer.echo(json.dumps(found))
    else:
        result_tables.score(found)


def located(weights: str) -> Path:
    """Return a folder of weights, and say how it was chosen."""
    from zoo.weights.index import locate

    found = locate(weights)
    if found.why:
        console.remark(f"weights: {found.folder}, {found.why}.")
    return found.folder


def _loaded(weights: str, imports: list[str] | None, unverified: bool):
    """Return a model, and the folder of its weights."""
    from zoo.weights.load import load

    folder = located(weights)
    import_first(imports, folder)
    return load(folder, unverified=unverified), folder


def import_first(imports: list[str] | None, weights: Path | None = None) -> None:
    """Run the files and modules that a command names; warn where weights were made with others."""
    from zoo.runs.imports import import_sources, warn_of_changed_code

    warn_of_changed_code(import_sources(imports or [], Path()), weights)


def _asked(weights: str, spec: "Spec", imports: list[str] | None, unverified: bool):
    """Return a model and its folder, the data it is asked about, and what it sees besides."""
    from zoo.data.load import without_labels
    from zoo.inference.training_data import read_as_trained, training_spec

    model, folder = _loaded(weights, imports, unverified)
    spec = without_labels(spec, training_spec(folder))
    return model, folder, *read_as_trained(model, folder, spec)


def _given(data: str | None, options: list[str] | None) -> "Spec | None":
    """Return the data set that a command names, if it does."""
    if data is None and options:
        raise ZooError(f"{options[0]!r} goes with --data GRAPH; name one graph, and one run.")
    return None if data is None else spec_of(data, options)


def _device(word: Device):
    from zoo.system.environment import choose_device

    return choose_device(word.value)


def _forecast(weights, spec, steps, out, again, device, imports, unverified) -> bool:
    """Tell what a model of forecasts says comes next; False where the weights are of no such."""
    from zoo.inference.evaluate import forecast_of
    from zoo.weights.folder import CONFIG, read_config
    from zoo.weights.index import locate

    folder = locate(weights).folder
    if read_config(folder / CONFIG)["about"].task != "node-forecasting":
        return False
    check_out(out, (".csv", ".parquet"), again)
    model, _ = _loaded(weights, imports, unverified)
    result = forecast_of(model, spec, steps, folder=folder, device=_device(device))
    tell_forecast(result, out)
    return True


def _said(cut: float) -> str:
    if not cut:
        return ""
    return f" In parts, an approximation: {cut:.1%} of the edges cross them and were not looked at."
