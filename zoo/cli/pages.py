"""The command `zoo pages`: a README for each model's folder of recipes."""

from pathlib import Path
from typing import Annotated

import typer

from zoo.cli import console
from zoo.cli.common import typed_path

app = typer.Typer()


@app.command()
def pages(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Holds a folder of recipes for each model.", callback=typed_path
        ),
    ] = Path("recipes"),
) -> None:
    """Write the README.md of each model's folder of recipes, from recipes and docstrings."""
    from zoo.experiments.recipe_pages import write_pages

    changed = write_pages(folder)
    for path in changed:
        console.remark(f"written: {path}")
    if not changed:
        console.remark("every page is up to date")
