"""The commands that bring weights elsewhere and here: publish, load, push and pull."""

import json
from pathlib import Path
from typing import Annotated

import typer

from zoo.cli import console
from zoo.cli.common import AsJson, typed_path
from zoo.cli.weights import Imports, Unverified, Weights, import_first, located
from zoo.config.scores import figure
from zoo.errors import ZooError

app = typer.Typer()


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

    console.remark(f"uploaded: {upload(located(folder), repository, private=private)}")


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
    from zoo.weights.folder import CARD, WEIGHTS
    from zoo.weights.load import load as load_weights

    folder = located(name)
    import_first(imports, folder)
    model = load_weights(folder, unverified=unverified)
    about, scores = model.about, model.about.scores or {}
    found = {
        "folder": str(folder),
        "model": type(model).__name__,
        "weights": sum(each.numel() for each in model.parameters()),
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
            found["test here"] = evaluate_part(model, None, "test", folder=folder)["score"]
        except ZooError as error:  # what the weights are is said all the same
            missing = error
    if as_json:
        typer.echo(json.dumps(found))
    else:
        for key, each in found.items():
            console.say(f"{key:<10} {_shown(each)}")
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
    from zoo.runs.run_folder import need_run, read_summary
    from zoo.weights.index import PRETRAINED, as_name, index, locate

    import_first(imports)
    if runs:
        for run in runs:
            need_run(run)
        summaries = [read_summary(run) for run in runs]
        if begun := [run for run, each in zip(runs, summaries, strict=True) if each["interrupted"]]:
            raise ZooError(f"{begun[0]} was interrupted; `zoo train --resume {begun[0]}` ends it.")
        names = [as_name(each["recipe"]) for each in summaries]
        if twice := [each for each in names if names.count(each) > 1]:
            raise ZooError(f"there are several runs of {twice[0]}; publish one of them.")
        chosen = {name: locate(run).folder for name, run in zip(names, runs, strict=True)}
    else:
        chosen = verified_runs(Path("runs"))
    if not chosen:
        raise ZooError("no finished run of a verified recipe is in runs; name runs.")
    found = []
    for row in write(chosen, to, largest=largest, together=together):
        found.append(row)
        done = f"{row['bytes']:,} bytes, {row['bits']} bits" if row["left_out"] is None else "-"
        said = f"{row['name']}: {row['metric']} {figure(row['test'])}, {done}"
        console.remark(said if row["left_out"] is None else f"{said}; left out, {row['left_out']}")
    written = [each for each in found if each["left_out"] is None]
    if as_json:
        typer.echo(json.dumps(found))
    else:
        size = sum(each["bytes"] for each in written)
        weights = "1 set" if len(written) == 1 else f"{len(written)} sets"
        console.remark(f"{weights} of weights, {size:,} bytes, written to {to}.")
    for name in (each["name"] for each in written if each["name"] in index() and to != PRETRAINED):
        console.remark(f"{name} means the zoo's own weights; `zoo load {to / name}` loads these.")


def verified_runs(runs: Path) -> dict[str, Path]:
    """Return the finished runs of verified recipes: name to the folder of their best seed."""
    from zoo.config.shipped import recipe_names
    from zoo.runs.earlier_runs import find_finished
    from zoo.runs.resolve import load_recipe, resolve
    from zoo.weights.index import locate

    recipes = [recipe for recipe in map(load_recipe, recipe_names()) if recipe.verified]
    known = {
        each.name: find_finished(resolve(each), runs, any_code=True)
        for each in recipes
        if each.verified.sha256 == each.sha256
    }
    return {name: locate(each["folder"]).folder for name, each in known.items() if each}


def _shown(value: object) -> str:
    if isinstance(value, float):
        return figure(value)
    return f"{value:,}" if isinstance(value, int) else str(value or "not known")
