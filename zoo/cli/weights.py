"""The commands for what has been trained: predict, evaluate, embed, and its way to others."""

import dataclasses
import functools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.cli import console, result_tables
from zoo.cli.common import (
    AsJson,
    DataOptions,
    Device,
    DeviceName,
    Imports,
    Layerwise,
    Unverified,
    Weights,
    check_out,
    import_first,
    locate_weights,
    spec_of,
    typed_path,
)
from zoo.config.scores import figure
from zoo.errors import ZooError, printable

if TYPE_CHECKING:
    from zoo.config.options import Spec

app = typer.Typer()

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
Beams = Annotated[
    int | None, typer.Option(min=1, max=1000, help="Of texts: hypotheses of each; 4 if left out.")
]
LengthPenalty = Annotated[
    float | None, typer.Option(min=0, help="Of texts: exponent of the length; 0.6 if left out.")
]
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
        bool, typer.Option("--only-new", help="Only nodes, or graphs, that training has not seen.")
    ] = False,
    only_unlabelled: Annotated[
        bool,
        typer.Option("--only-unlabelled", help="Only nodes, or graphs, whose label is not known."),
    ] = False,
    all_seeds: Annotated[
        bool,
        typer.Option(
            "--all-seeds", help="Of a run: the mean of all its seeds, and how far these spread."
        ),
    ] = False,
    beams: Beams = None,
    length_penalty: LengthPenalty = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Of forecasts: times to predict.")
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Of links: a table of two columns of ids, to score.", callback=typed_path
        ),
    ] = None,
    top: Annotated[
        int | None, typer.Option(min=1, help="Of links: the best partners of each node.")
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option("--node", help="With --top: the partners of this node alone; again for more."),
    ] = None,
    known: Annotated[
        bool, typer.Option("--known", help="With --top: also those a node is linked with already.")
    ] = False,
    device: DeviceName = Device.auto,
    imports: Imports = None,
    unverified: Unverified = False,
    again: Again = False,
) -> None:
    """Predict every node of a graph, or graph of a set, links, or what comes next; translate texts.

    zoo predict runs/gcn-cora-20261121-120000 --data mygraph.npz --out answers.csv
    zoo predict runs/difformer-chickenpox-20261121-120000 --steps 4
    zoo predict runs/transformer-multi30k-20261121-120000 --text letter.txt
    zoo predict runs/links-20261121-120000 --data my.npz --top 9 --out best.csv
    """
    from zoo.tasks.labels import FORECASTING, LINKS

    spec = _spec(data, options)
    if all_seeds and (pairs or top or _task_of(weights) in (LINKS, FORECASTING)):
        raise ZooError("--all-seeds is for the answers of nodes or graphs; name one seed.")
    if text is None and _forecast(weights, spec, steps, out, again, device, imports, unverified):
        return
    if steps is not None:
        raise ZooError("--steps is for models of forecasts; leave it out.")
    if (spec is None) == (text is None):
        raise ZooError("write --data GRAPH, to predict its nodes, or --text FILE, to translate it.")
    if text is not None:
        of_graphs = {"--layerwise": layerwise, "--all-seeds": all_seeds}
        of_nodes = {"--only-new": only_new, "--only-unlabelled": only_unlabelled}
        _refuse_beside_text(of_graphs | of_nodes)
        model, _ = _load(weights, imports, unverified)
        how = {"beams": beams, "length_penalty": length_penalty, "batch_size": batch_size}
        _translate(model, text, out, again, device, how)
        return
    if (beams, length_penalty) != (None, None):
        raise ZooError("--beams and --length-penalty are for texts; leave them out.")
    if out is None:
        raise ZooError("say where the predictions go: --out predictions.csv, or .parquet.")
    check_out(out, (".csv", ".parquet"), again)
    how = {"batch_size": batch_size, "layerwise": layerwise, "device": _device(device)}
    only = {"new": only_new, "unlabelled": only_unlabelled}
    if pairs or top or _task_of(weights) == LINKS:
        if batch_size or layerwise or any(only.values()):
            raise ZooError("links are predicted of a whole graph; leave the options of nodes out.")
        model, _, graph, _ = _load_for(weights, spec, imports, unverified)
        _links(model, graph, pairs, top, node, known, out, how["device"])
        return
    _nodes(weights, spec, all_seeds, out, how, only, imports, unverified)


def _refuse_beside_text(options: dict[str, bool]) -> None:
    if word := next((each for each, given in options.items() if given), None):
        raise ZooError(f"{word} is for graphs, and --text is none; leave it out.")


def _task_of(weights: str) -> str | None:
    """Return the task of weights."""
    from zoo.weights.files import CONFIG, read_config
    from zoo.weights.index import locate

    return read_config(locate(weights).folder / CONFIG)["about"].task


def _nodes(
    weights: str,
    spec: "Spec",
    all_seeds: bool,
    out: Path,
    how: dict[str, Any],
    only: dict[str, bool],
    imports: list[str] | None,
    unverified: bool,
) -> None:
    """Write what a model, or the mean of all seeds of a run, says of every node."""
    from zoo.inference.predict import (
        choose_nodes,
        mean_of,
        predict,
        unlabelled_by_all,
        write_table,
    )
    from zoo.inference.training_data import given_nodes, parts_in_training, true_labels
    from zoo.weights.index import seeds_of

    found = []
    for each in seeds_of(weights) if all_seeds else [weights]:
        model, folder, graph, context = _load_for(str(each), spec, imports, unverified)
        given = given_nodes(model, folder, spec, graph)
        ask = functools.partial(predict, model, graph, context=context, **how)
        own = unlabelled_by_all(ask(given=given), graph, given, ask)
        known = own.known or true_labels(model, folder, spec)
        parts = parts_in_training(model, folder, spec, graph)
        found.append(dataclasses.replace(own, known=known, parts=parts))
    predictions = choose_nodes(mean_of(found), folder, graph, **only)
    write_table(predictions, out)
    count, dropped = len(predictions), _dropped(predictions.dropped_edges)
    by = _by_labels(graph, given) if model.context else ""
    mean = f", the mean of {len(found)} seeds" if all_seeds else ""
    console.remark(f"{count:,} {graph.unit} of {graph.name} are in {out}{mean}.{by}{dropped}")


def _by_labels(graph, given) -> str:
    """Return the sentence of how many labels a model was given."""
    from zoo.data.dataset import labelled

    every = int(labelled(graph.y).sum())
    if given is None or len(given) == every:
        return f" They are by the labels of {every:,} of its nodes."
    more = f", those without a label by all {every:,}" * (every < len(graph.y))
    return f" They are by the labels of {len(given):,} of its nodes, of training{more}."


def _links(
    model,
    graph,
    pairs: Path | None,
    top: int | None,
    nodes: list[str] | None,
    known: bool,
    out: Path,
    device,
) -> None:
    """Write how likely pairs of nodes are linked: those of a file, or the best of each node."""
    from zoo.inference.links import predict_links
    from zoo.inference.predict import write_frame

    how = {"nodes": nodes or None, "known": known, "device": device}
    table = predict_links(model, graph, pairs, top=top, **how)
    write_frame(table, out)
    console.remark(
        f"{len(table):,} pairs of nodes of {graph.name} are in {out}. Probabilities are those of a "
        "link against a pair that is drawn, as in training, and compare pairs with each other."
    )


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
    from zoo.inference.predict import with_empty_rows, write_array
    from zoo.inference.training_data import given_nodes

    check_out(out, (".npy",), again)
    spec = spec_of(data, options)
    model, folder, graph, context = _load_for(weights, spec, imports, unverified)
    how = {"batch_size": batch_size, "layerwise": layerwise, "device": _device(device)}
    given = given_nodes(model, folder, spec, graph)
    embeddings = run(model, graph, context=context, given=given, **how)
    values = with_empty_rows(embeddings.values, embeddings.unread)
    write_array(values, out)
    shape, dropped = " x ".join(map(str, values.shape)), _dropped(embeddings.dropped_edges)
    console.remark(f"{shape} numbers, {graph.unit} of {graph.name}, are in {out}.{dropped}")


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
            help="train, val, test or all; of a table that has grown, the nodes that were of this "
            "part in training. Left out, it is test where the weights were trained, and on other "
            "graphs all nodes with a label."
        ),
    ] = None,
    batch_size: BatchSize = None,
    layerwise: Layerwise = False,
    only_new: Annotated[
        bool, typer.Option("--only-new", help="Of nodes that training has not seen.")
    ] = False,
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

    model, folder = _load(weights, imports, unverified)
    result = evaluate_part(
        model,
        _spec(data, options),
        part,
        batch_size=batch_size,
        layerwise=layerwise,
        only_new=only_new,
        device=_device(device),
        beams=beams,
        length_penalty=length_penalty,
        folder=folder,
    )
    if as_json:
        typer.echo(json.dumps(result))
    else:
        result_tables.score(result)


def _load(weights: str, imports: list[str] | None, unverified: bool):
    """Return a model, and the folder of its weights."""
    from zoo.weights.save_and_load import load

    folder = locate_weights(weights)
    import_first(imports, folder)
    return load(folder, unverified=unverified), folder


def _load_for(weights: str, spec: "Spec", imports: list[str] | None, unverified: bool):
    """Return a model and its folder, the data it is to read, and what it sees besides."""
    from zoo.data.load import without_labels
    from zoo.inference.training_data import read_as_trained, training_spec

    model, folder = _load(weights, imports, unverified)
    if not model.context:
        spec = without_labels(spec, training_spec(folder))
    return model, folder, *read_as_trained(model, folder, spec)


def _spec(data: str | None, options: list[str] | None) -> "Spec | None":
    """Return the data set that a command names, if it does."""
    from zoo.config.overrides import need_values

    need_values(options or [])
    if data is None and options:
        raise ZooError(f"{options[0]!r} goes with --data GRAPH; name one graph, and one run.")
    return None if data is None else spec_of(data, options)


def _device(word: Device):
    from zoo.system.environment import choose_device

    return choose_device(word.value)


def _dropped(share: float) -> str:
    """Return what to say of the share of edges that batches have dropped."""
    if not share:
        return ""
    return (
        f" In parts, an approximation: {share:.1%} of the edges cross them and were not looked at."
    )


def _translate(
    model, text: str, out: Path | None, again: bool, device: Device, options: dict
) -> None:
    """Translate a file, and print how many lines are written where."""
    from zoo.sequences.translate import translate_file

    check_out(out, (), again)
    options = {key: value for key, value in options.items() if value is not None}
    count, cut = translate_file(model, text, out, device=_device(device), **options)
    sentence = f" {cut:,} were too long, and cut before they were translated." if cut else ""
    if sentence or out is not None:
        console.remark(f"{count:,} lines are translated{f', into {out}' if out else ''}.{sentence}")


def _forecast(weights, spec, steps, out, again, device, imports, unverified) -> bool:
    """Write or print a forecast; return False where the model is for another task."""
    from zoo.inference.evaluate import forecast_of
    from zoo.tasks.labels import FORECASTING
    from zoo.weights.index import locate

    if _task_of(weights) != FORECASTING:
        return False
    folder = locate(weights).folder
    check_out(out, (".csv", ".parquet"), again)
    model, _ = _load(weights, imports, unverified)
    forecast = forecast_of(model, spec, steps, folder=folder, device=_device(device))
    write_forecast(forecast, out)
    return True


def write_forecast(forecast, out: Path | None) -> None:
    """Write a forecast, or print it."""
    from zoo.inference.predict import write_table

    if out is None:
        text = forecast.table().to_csv(index=False)
        typer.echo(printable(text) if sys.stdout.isatty() else text, nl=False)
        return
    write_table(forecast, out)
    console.remark(f"{len(forecast.times):,} times of {len(forecast.ids):,} nodes are in {out}.")


@app.command()
def push(
    folder: Weights,
    repository: Annotated[str, typer.Argument(metavar="REPOSITORY", help="OWNER/NAME")],
    private: Annotated[bool, typer.Option("--private", help="Make a new one private.")] = False,
) -> None:
    """Upload a folder of weights to the Hugging Face Hub.

    zoo push runs/gcn-cora-20261121-120000 me/gcn-cora --private
    """
    from zoo.weights.hub import push as upload

    console.remark(f"uploaded: {upload(locate_weights(folder), repository, private=private)}")


@app.command()
def pull(
    repository: Annotated[str, typer.Argument(metavar="REPOSITORY", help="OWNER/NAME")],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A new folder.", callback=typed_path)
    ],
    unverified: Unverified = False,
) -> None:
    """Download a folder of weights from the Hugging Face Hub, and check it.

    zoo pull me/gcn-cora weights/gcn-cora
    """
    from zoo.weights.hub import pull as download

    download(repository, folder, unverified=unverified)
    console.remark(f"{repository} is in {folder}.")


@app.command()
def load(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Of `zoo list models --pretrained`, hub:OWNER/NAME, or a folder."
        ),
    ],
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Measure the test score here too.")
    ] = False,
    unverified: Unverified = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Bring weights here by name, check them, and say what they are.

    zoo load gcn-digits --evaluate
    zoo load hub:me/gcn-cora

    What comes with the zoo is here. ZOO_WEIGHTS names a folder of `zoo publish`; what is fetched
    from the Hugging Face Hub is kept in its cache.
    """
    from zoo.inference.evaluate import evaluate_part
    from zoo.weights.files import CARD, WEIGHTS
    from zoo.weights.save_and_load import load as load_weights

    folder = locate_weights(name)
    import_first(imports, folder)
    model = load_weights(folder, unverified=unverified)
    about, scores = model.about, model.about.scores or {}
    facts: dict[str, Any] = {
        "folder": str(folder),
        "model": type(model).__name__,
        "weights": sum(weight.numel() for weight in model.parameters()),
        "bytes": (folder / WEIGHTS).stat().st_size,
        "data": about.data,
        "metric": about.metric,
        "test": scores.get("test"),
        "licence": about.licence,
        "card": str(folder / CARD),
    }
    missing = None
    if evaluate:
        try:
            facts["test here"] = evaluate_part(model, None, "test", folder=folder)["score"]
        except ZooError as error:  # the rest is printed all the same
            missing = error
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        for key, value in facts.items():
            is_score = isinstance(value, float)
            text = f"{value:,}" if isinstance(value, int) else str(value or "not known")
            console.say(f"{key:<10} {figure(value) if is_score else text}")
    if missing:
        raise ZooError(f"the test score was not measured: {missing}")


@app.command()
def publish(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN", help="Runs; left out, those of `runs` whose recipe is verified."
        ),
    ] = None,
    to: Annotated[
        Path, typer.Option("--to", metavar="FOLDER", help="Where to.", callback=typed_path)
    ] = Path("weights"),
    largest: Annotated[
        int | None, typer.Option(min=1, help="Bytes of weights; larger ones are left out.")
    ] = None,
    together: Annotated[
        int | None, typer.Option(min=1, help="Bytes of all; what comes too late is left out.")
    ] = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Write the best seed of each run into one folder, with cards and an index.

    zoo publish runs/gcn-cora-20261121-120000 --to weights

    Weights are kept in 16 bits where the scores stay. The folder, or a copy of it, is what
    ZOO_WEIGHTS names for `zoo load`.
    """
    from zoo.inference.publish import publish as write
    from zoo.weights.index import PRETRAINED, index

    import_first(imports)
    chosen = _named_runs(runs) if runs else verified_runs(Path("runs"))
    if not chosen:
        raise ZooError("no finished run of a verified recipe is in runs; name runs.")
    rows = []
    for row in write(chosen, to, largest=largest, together=together):
        rows.append(row)
        size = f"{row['bytes']:,} bytes, {row['bits']} bits"
        why = row["left_out"]
        what = size if why is None else f"-; left out, {why}"
        console.remark(f"{row['name']}: {row['metric']} {figure(row['test'])}, {what}")
    written = [row for row in rows if row["left_out"] is None]
    if as_json:
        typer.echo(json.dumps(rows))
    else:
        size = sum(row["bytes"] for row in written)
        sets = "1 set" if len(written) == 1 else f"{len(written)} sets"
        console.remark(f"{sets} of weights, {size:,} bytes, written to {to}.")
    for name in (row["name"] for row in written):
        if name in index() and to != PRETRAINED:
            console.remark(
                f"{name} means the zoo's own weights; `zoo load {to / name}` loads these."
            )


def _named_runs(runs: list[Path]) -> dict[str, Path]:
    """Return finished runs: name to the folder of their best seed."""
    from zoo.runs.run_folder import need_run, read_summary
    from zoo.weights.index import as_name, locate

    chosen = {}
    for run in runs:
        need_run(run)
        summary = read_summary(run)
        if summary["interrupted"]:
            raise ZooError(f"{run} was interrupted; `zoo train --resume {run}` ends it.")
        if (name := as_name(summary["recipe"])) in chosen:
            raise ZooError(f"there are several runs of {name}; publish one of them.")
        chosen[name] = locate(run).folder
    return chosen


def verified_runs(runs: Path) -> dict[str, Path]:
    """Return the finished runs of verified recipes: name to the folder of their best seed."""
    from zoo.config.shipped import recipe_names
    from zoo.runs.earlier_runs import find_finished
    from zoo.runs.resolve import load_recipe, resolve
    from zoo.weights.index import locate

    recipes = [recipe for recipe in map(load_recipe, recipe_names())
               if recipe.verified and recipe.verified.sha256 == recipe.sha256]  # fmt: skip
    finished = {recipe.name: find_finished(resolve(recipe), runs, any_code=True)
                for recipe in recipes}  # fmt: skip
    return {name: locate(summary["folder"]).folder for name, summary in finished.items()
            if summary}  # fmt: skip
