"""Pages of recipes: the README.md of each model's folder, and of all that was measured."""

import inspect
import re
import statistics
from pathlib import Path

from zoo.config import metrics
from zoo.config.question import ASKED
from zoo.config.recipe import Recipe, divide, word
from zoo.datasets.files.labels import METRICS
from zoo.datasets.load import default_split
from zoo.datasets.load.named import known_metric
from zoo.errors import ZooError, unknown
from zoo.experiments.resolve import load_recipe
from zoo.registry import MODELS
from zoo.system.files import write_whole
from zoo.weights.create import list_models
from zoo.weights.model_card import citation, summary

PAGE = "README.md"

RESULTS = Path("docs") / "results.md"
"""The page of all results, beside the folder of recipes, where there is a folder of documents."""

_MADE = "<!-- Written by `zoo pages` from recipes and docstrings: change those, not this page. -->"


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
        if path.exists() and _MADE not in path.read_text(encoding="utf-8"):
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
        made[results] = results_page([each for group in recipes.values() for each in group])
    return {folder / PAGE: _first_page(recipes), **made}


def _first_page(recipes: dict[str, list[Recipe]]) -> str:
    rows = [
        [f"[{model}]({model}/{PAGE})", summary(MODELS[model]), MODELS[model].paper, str(len(each))]
        for model, each in recipes.items()
    ]
    parts = [
        _MADE,
        "# Recipes",
        "A folder for each model. `zoo train NAME` trains the recipe NAME.yaml, whatever folder it "
        "is in; `zoo list recipes` lists them all.",
        _table(["model", "what", "paper", "recipes"], rows),
    ]
    return "\n\n".join(parts) + "\n"


def _model_page(model: str, recipes: list[Recipe]) -> str:
    parts = [
        _MADE,
        f"# {model}",
        summary(MODELS[model]),
        f"```text\n{_equations(model)}\n```",
        f"`zoo info {model}` prints its options; its code is `{MODELS[model].__module__}`.",
        _citation(model),
        "## Recipes",
        "*Expected* is what the source reports; *measured* is the test score of stored runs, mean "
        "± standard deviation over seeds, where there are any. `zoo reproduce NAME` compares them.",
        _table(
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


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["--"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, each))} |" for each in lines)


def _cell(text: str) -> str:
    """Keep a text in its cell."""
    return " ".join(text.split()).replace("|", "\\|")


def results_page(recipes: list[Recipe]) -> str:
    """Return the page of what was measured, a table for each split of each data set."""
    known = [each for each in recipes if each.measured]
    groups: dict[str, list[Recipe]] = {}
    for recipe in known:
        groups.setdefault(scored_on(recipe), []).append(recipe)
    names = {word(each.dataset) for each in known}
    judged = [each for each in known if each.expect]
    missed = [each for each in judged if not _passed(each)]
    parts = [
        _MADE,
        "# Results",
        f"{len(known)} recipes on {len(names)} data sets have been trained as they are shipped, "
        f"{len(judged)} of them beside a published number: {len(judged) - len(missed)} are at most "
        f"as far below it as their recipe allows, as a rule 1.5 points, {len(missed)} miss it: "
        "what is known of why is at the end. `zoo reproduce NAME` repeats a row, `zoo reproduce "
        "--all --write` all of them.",
        "*Published* is the number in print, *program* what the authors' program comes to where it "
        "was run again with the published command. *Measured* is the mean test score ± the "
        "standard deviation over seeds, at the epoch of the best validation score. "
        "*Difference* is that from the best row of the table, in points, of an error as it is. "
        "The best is bold, whichever model it is. [How the defaults of models were chosen]"
        "(tune.md#how-defaults-were-chosen).",
        _ranks(groups),
        *(_results(name, groups[name]) for name in sorted(groups)),
        "## Numbers that were missed\n" if missed else "",
        "\n".join(f"- {each.name}: {each.expect.missed or 'not said why.'}" for each in missed),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def scored_on(recipe: Recipe) -> str:
    """Return what scores are of, data and split: those of others are no comparison."""
    dataset, options = divide(recipe.dataset, ("split", *ASKED[1:]))
    name = word(dataset)
    split = word(options.pop("split", None) or default_split(name) or "")
    asked = [f"{key} {each}" for key, each in options.items() if (key, each) != ("horizon", 1)]
    return ", ".join(each for each in (name, split, *asked) if each)


def metric_of(recipe: Recipe) -> str | None:
    """Return what a recipe is measured by, None where that is not known without its data."""
    said = (recipe.measured and recipe.measured.metric) or (recipe.expect and recipe.expect.metric)
    asked = METRICS.get(divide(recipe.dataset, ["task"])[1].get("task"))
    return said or asked or known_metric(word(recipe.dataset))


def _results(name: str, recipes: list[Recipe]) -> str:
    metric = metric_of(recipes[0])
    rows = sorted(recipes, key=lambda each: metrics.gain(metric, each.measured.test), reverse=True)
    best = rows[0] if metric else None  # of an unknown one nobody knows whether more is better
    less = f"Of `{metric}` less is better.\n\n" if metric in metrics.LOWER else ""
    return f"## {name}\n\n{less}" + _table(
        ["recipe", "published", "program", "measured", "difference", "seeds", "seconds", "reached"],
        [_result(each, best) for each in rows],
    )


def _result(recipe: Recipe, best: Recipe | None) -> list[str]:
    found, expect = recipe.measured, recipe.expect
    score = f"{found.test:.4f} ± {found.std:.4f}"
    state = "" if expect is None else "PASS" if _passed(recipe) else "FAIL"
    return [
        f"[{recipe.name}](../recipes/{word(recipe.model)}/{recipe.path.name})",
        f"{expect.test:.4f}" if expect else "",
        "{:.4f} ± {:.4f}".format(*expect.program) if expect and expect.program else "",
        f"**{score}**" if best and found.test == best.measured.test else score,
        _beside(found.test, best.measured.test, metric_of(recipe)) if best else "",
        str(len(found.seeds)),
        f"{found.seconds:,.0f} {found.gpu or ''}".strip() if found.seconds else "",
        state,
    ]


def _passed(recipe: Recipe) -> bool:
    scores = (recipe.measured.test, recipe.expect.test)
    found, wanted = (metrics.gain(metric_of(recipe), each) for each in scores)
    return metrics.is_reached(found - wanted, recipe.expect.within)


def _beside(score: float, best: float, metric: str | None) -> str:
    """Return the difference of two scores, if any: in points, of an error as it is."""
    if score == best:
        return ""
    return f"{score - best:+.4f}" if metric in metrics.LOWER else f"{100 * (score - best):+.2f}"


def _ranks(groups: dict[str, list[Recipe]]) -> str:
    """Return the mean rank of each model over the data and splits on which all are measured.

    Of a model's recipes on one of these that of the shortest name counts: to take the best by its
    test score would favour models with many. Demšar, Statistical Comparisons of Classifiers over
    Multiple Data Sets (JMLR 2006), section 3.2.2.
    """
    plain: dict[str, dict[str, float]] = {}
    for name, recipes in groups.items():
        for each in sorted(recipes, key=lambda recipe: (len(recipe.name), recipe.name)):
            if metric := metric_of(each):
                scores = plain.setdefault(word(each.model), {})
                scores.setdefault(name, metrics.gain(metric, each.measured.test))
    models, common = metrics.largest_complete_part(plain, fewest=_FEWEST)
    if not models:
        return ""
    from scipy import stats

    scores = [[-plain[model][name] for name in common] for model in models]
    places = dict(zip(models, stats.rankdata(scores, axis=0).tolist(), strict=True))
    rows = [[model, *_interval(places[model])] for model in sorted(models, key=lambda each:
            statistics.fmean(places[each]))]  # fmt: skip
    apart = metrics.critical_difference(len(models), len(common))
    return (
        f"## Mean rank\n\nOf {len(models)} models on the {len(common)} data sets on which all of "
        f"them are measured ({'; '.join(common)}); 1 is the best, ± half of the 95 % interval over "
        "data sets (Student's t). Mean ranks that are less than the critical difference of "
        f"{apart:.2f} apart may be so by chance (Nemenyi's test at 5 %). Of a model's recipes the "
        "one of the shortest name counts, whichever scores best.\n\n"
        + _table(["model", "mean rank", "±"], rows)
    )


_FEWEST = 3  # data sets that say something of a model in general


def _interval(places: list[float]) -> list[str]:
    found = metrics.paired_difference(places, [0.0] * len(places))
    return [f"{found.mean:.2f}", "" if found.high is None else f"{found.high - found.mean:.2f}"]
