"""Pages of recipes: the README.md of each model's folder, and with them that of all results."""

import inspect
import re
from pathlib import Path

from zoo.config.recipe import Recipe, word
from zoo.errors import ZooError, unknown
from zoo.experiments.resolve import load_recipe
from zoo.registry import MODELS
from zoo.reports.results import (
    MADE,
    PICTURE,
    metric_of,
    results_page,
    results_picture,
    table,
)
from zoo.system.files import write_whole
from zoo.weights.create import list_models
from zoo.weights.model_card import citation, summary

PAGE = "README.md"

RESULTS = Path("docs") / "results.md"
"""The page of all results, beside the folder of recipes, where there is a folder of documents."""


def write_pages(folder: Path) -> list[Path]:
    """Write the page of each model and that of all models; return the files that changed.

    Args:
        folder: holds a folder of recipes for each model, `sgformer/sgformer-cora.yaml`.

    Raises:
        ZooError: there are no recipes, a folder is no model's, a recipe has mistakes, or a page is
            in the place of another file.
    """
    changed = outdated(pages(folder))
    for path in changed:
        if path.exists() and MADE not in path.read_text(encoding="utf-8"):
            raise ZooError(f"{path} was not written by `zoo pages`; move it, and write them again.")
    for path, text in changed.items():
        write_whole(path, lambda draft, text=text: draft.write_text(text, encoding="utf-8"))
    return list(changed)


def outdated(made: dict[Path, str]) -> dict[Path, str]:
    """Return those of some pages whose file is missing or holds something else."""
    return {
        path: text
        for path, text in made.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def pages(folder: Path) -> dict[Path, str]:
    """Return the text of every page by its file.

    Raises:
        ZooError: as `write_pages`.
    """
    recipes: dict[str, list[Recipe]] = {}
    for path in sorted(folder.glob("*/*.yaml"), key=lambda path: (path.parent, path.stem)):
        recipes.setdefault(path.parent.name, []).append(load_recipe(path))
    if not recipes:
        raise ZooError(
            f"{folder} holds no recipes; name a folder with a folder of recipes for each model, "
            "such as `zoo pages recipes` in a checkout of the zoo."
        )
    known = list_models()
    for model in recipes:
        if model not in known:
            raise ZooError(
                f"{folder / model}: a folder of recipes has the name of their model. "
                + unknown("model", model, known)
            )
    made = {folder / model / PAGE: _model_page(model, each) for model, each in recipes.items()}
    results = folder.resolve().parent / RESULTS
    if results.parent.is_dir():
        every = [each for group in recipes.values() for each in group]
        made[results] = results_page(every)
        made[results.parent / PICTURE] = results_picture(every)
    return {folder / PAGE: _first_page(recipes), **made}


def _first_page(recipes: dict[str, list[Recipe]]) -> str:
    rows = [
        [f"[{model}]({model}/{PAGE})", summary(MODELS[model]), MODELS[model].paper, str(len(each))]
        for model, each in recipes.items()
    ]
    parts = [
        MADE,
        "# Recipes",
        "A folder for each model. `zoo train NAME` trains the recipe NAME.yaml, whatever folder it "
        "is in; `zoo list recipes` lists them all.",
        table(["model", "what", "paper", "recipes"], rows),
    ]
    return "\n\n".join(parts) + "\n"


def _model_page(model: str, recipes: list[Recipe]) -> str:
    parts = [
        MADE,
        f"# {model}",
        summary(MODELS[model]),
        f"```text\n{_equations(model)}\n```",
        f"`zoo info {model}` prints its options; its code is `{MODELS[model].__module__}`.",
        _citation(model),
        "## Recipes",
        "*Expected* is what the source reports; *measured* is the test score of stored runs, mean "
        "± standard deviation over seeds, where there are any. `zoo reproduce NAME` compares them.",
        table(
            ["recipe", "data set", "what", "metric", "expected", "source", "measured"],
            [_row(recipe) for recipe in recipes],
        ),
        _differences(recipes),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _equations(model: str) -> str:
    """Return the docstring of a model between its first line and its `Args:`."""
    prose = re.split(r"\n\s*Args:\n", inspect.getdoc(MODELS[model]) or "")[0]
    return prose.partition("\n")[2].strip()


def _citation(model: str) -> str:
    entry, paper = citation(model), MODELS[model].paper
    source = f"```bibtex\n{entry}\n```" if entry else paper
    return f"## How to cite\n\n{source}" if source else ""


def _row(recipe: Recipe) -> list[str]:
    data, expect = word(recipe.dataset), recipe.expect
    return [
        f"[{recipe.name}]({recipe.path.name})",
        data,
        _first_sentence(recipe.path),
        metric_of(recipe) or "",
        str(expect.test) if expect else "",
        expect.source if expect else "",
        _measured(recipe),
    ]


def _differences(recipes: list[Recipe]) -> str:
    """Return a list of where recipes are not what their sources say, "" if all are."""
    said = [f"- {each.name}: {' '.join(each.differs)}" for each in recipes if each.differs]
    return "\n".join(["## Where they differ from their sources\n", *said]) if said else ""


def _measured(recipe: Recipe) -> str:
    found = recipe.measured
    if found is None:
        return ""
    seeds = "1 seed" if len(found.seeds) == 1 else f"{len(found.seeds)} seeds"
    return ", ".join(filter(None, [f"{found.test} ± {found.std}", seeds, found.date, found.gpu]))


def _first_sentence(path: Path) -> str:
    """Return the comment that a recipe opens with, without its full stop."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("#").strip().removesuffix(".") if first.startswith("#") else ""
