"""The commands that talk to the Hugging Face Hub: push and pull."""

from pathlib import Path
from typing import Annotated

import typer

from zoo.cli import console
from zoo.cli.common import typed_path
from zoo.cli.weights import Unverified, Weights, located

app = typer.Typer()


@app.command()
def push(
    folder: Weights,
    repository: Annotated[str, typer.Argument(metavar="REPOSITORY", help="OWNER/NAME")],
    private: Annotated[bool, typer.Option("--private", help="Make a new one private.")] = False,
) -> None:
    """Upload a folder of weights to the Hugging Face Hub."""
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
    """Download a folder of weights from the Hugging Face Hub, and check it."""
    from zoo.weights.hub import pull as download

    download(repository, folder, unverified=unverified)
    console.remark(f"{repository} is in {folder}.")
