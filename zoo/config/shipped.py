"""The recipes that come with the zoo: where they are, and what a recipe of any file is called."""

import glob
import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from zoo.errors import ZooError, brief, nearest, suggestion, unknown


def recipe_folder() -> Path:
    """Return the folder of the shipped recipes, which holds one for each model.

    It lies inside the installed package, or beside it in a checkout.
    """
    package = Path(__file__).parent.parent
    folders = (package / "recipes", package.parent / "recipes")
    return next((folder for folder in folders if folder.is_dir()), folders[0])


def recipe_names() -> list[str]:
    """Return the words of the recipes that come with the zoo, sorted."""
    return sorted(path.stem for path in recipe_folder().glob("*/*.yaml"))


def recipe_file(name: str | Path, models: Iterable[str] = ()) -> Path:
    """Return the file of a shipped recipe, given its word, or of the path of any recipe.

    Args:
        name: the word, or the path.
        models: words that may stand in the place of a recipe; a misspelt one is answered with them.

    Raises:
        ZooError: no shipped recipe has this name, or no file this path.
    """
    if not is_path(name):
        # One name is looked up in each folder: to list all files takes longer than to read one.
        path = next(recipe_folder().glob(f"*/{glob.escape(str(name))}.yaml"), None)
        if path is None:
            raise ZooError(_no_recipe(name) if os.path.exists(name) else _unknown(name, models))
        return path
    if not os.path.exists(name):
        near = suggestion(Path(name).stem, recipe_names())
        raise ZooError(f"the file {str(name)!r} does not exist. Of the shipped recipes: {near}")
    if os.path.isdir(name) or str(name).endswith(".py"):
        raise ZooError(_no_recipe(name))
    return Path(name)


def _unknown(name: str | Path, models: Iterable[str]) -> str:
    """Return what may have been meant by a word: the nearest model too, where one may stand."""
    recipes, models = recipe_names(), list(models)
    if not models:
        return unknown("recipe", name, recipes)
    near = [*nearest(name, models, 1), *nearest(name, recipes, 2)] or [*models, *recipes]
    return f"no recipe or model is called {brief(name)}; {suggestion(name, near, 'recipe')}"


def _no_recipe(path: str | Path) -> str:
    """Return what to write where a run, a study or data stands in the place of a recipe."""
    recipe, shown = Path(path) / "recipe.yaml", shlex.quote(str(path))
    if os.path.isfile(Path(path) / "trials.db"):
        best = Path(path) / "best.yaml"
        fix = f"its best settings are {best}" if best.is_file() else "it has no best settings yet"
        return f"{path} is a study of `zoo tune`: {fix}, and `zoo tune --resume {shown}` goes on."
    if os.path.isfile(recipe):
        return f"{path} is a run: its recipe is {recipe}, and `zoo train --resume {shown}` goes on."
    if str(path).endswith(".py"):
        return (
            f"{path} is code, which a recipe names: write a file mine.yaml of three lines, "
            f"`imports: [{shown}]`, `model: WORD` (that of its `register_model`) and `dataset: "
            f"DATA`, then run `zoo train mine.yaml`. `zoo check {shown}` tests the model."
        )
    kind = "is a folder and" if os.path.isdir(path) else "is"
    return (
        f"{path} {kind} no recipe. Where it is data, `zoo data check {shown}` says what would be "
        f"read of it, and `zoo train sgformer dataset={shown}` trains a model on it."
    )


def is_path(name: str | Path) -> bool:
    """Whether this is a path and no word."""
    return not isinstance(name, str) or name.endswith((".yaml", ".yml")) or Path(name).name != name


def name_of(path: Path | None) -> str:
    """Return what a recipe is called: by its file, in the folder of a run as the run was."""
    if path is None:
        return "recipe"
    run = re.fullmatch(r"(.+)-\d{8}-\d{6}(-\d+)?", path.absolute().parent.name)
    return run[1] if run and path.name == "recipe.yaml" else path.stem
