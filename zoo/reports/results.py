"""The page and the picture of all that was measured, made of the recipes."""

import statistics
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from zoo.config import metrics
from zoo.config.question import ASKED
from zoo.config.recipe import Recipe, divide, word
from zoo.datasets.files.labels import METRICS
from zoo.datasets.load import default_split
from zoo.datasets.load.named import known_metric
from zoo.reports.svg import LINE, OPEN, PANEL, Line, document, element, marks, panel, text
from zoo.weights.create import list_models

MADE = "<!-- Written by `zoo pages` from recipes and docstrings: change those, not this page. -->"

PICTURE = Path("plots") / "results.svg"
"""The picture, beside the page."""


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["--"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, each))} |" for each in lines)


def _cell(words: str) -> str:
    """Keep a text in its cell."""
    return " ".join(words.split()).replace("|", "\\|")


def results_page(recipes: list[Recipe]) -> str:
    """Return the page of what was measured, a table for each split of each data set."""
    groups = _groups(recipes)
    known = [each for group in groups.values() for each in group]
    names = {word(each.dataset) for each in known}
    judged = sorted((each for each in known if each.expect), key=lambda each: each.name)
    missed = [each for each in judged if not _passed(each)]
    parts = [
        MADE,
        "# Results",
        f"{len(known)} recipes on {len(names)} data sets have been trained as they are shipped, "
        f"{len(judged)} of them beside a published number: {len(judged) - len(missed)} are at most "
        f"as far below it as their recipe allows, as a rule 1.5 points, {len(missed)} miss it: "
        "what is known of why is [below](#numbers-that-were-missed). `zoo reproduce NAME` repeats "
        "a row, `zoo reproduce --all --write` all of them.",
        "*Published* is the number in print, *program* what the authors' program comes to where it "
        "was run again with the published command. *Measured* is the mean test score ± the "
        "standard deviation over seeds, at the epoch of the best validation score. "
        "*Difference* is that from the best row of the table, in points, of an error as it is. "
        "The best is bold, whichever model it is. The defaults of models, where a recipe says "
        "nothing else, were as a rule chosen by their mean rank over seven graphs "
        "([how](tune.md#how-defaults-were-chosen)).",
        f"![Scores of the models on each data set, with published numbers]({PICTURE.as_posix()})",
        "*Of each model the recipe of the shortest name, on data with two models or more; "
        "intervals of ranks end at the first and at the last.*",
        _ranks(groups),
        *(_results(name, groups[name]) for name in sorted(groups)),
        _list("Numbers that were missed", [(each, [each.expect.missed or "not said why."])
                                           for each in missed]),
        _list("Where recipes differ from their sources", [(each, each.differs) for each in judged]),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def _groups(recipes: list[Recipe]) -> dict[str, list[Recipe]]:
    """Return the recipes that were measured, by what their scores are of."""
    groups: dict[str, list[Recipe]] = {}
    for recipe in recipes:
        if recipe.measured:
            groups.setdefault(scored_on(recipe), []).append(recipe)
    return groups


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


def _list(title: str, said: Iterable[tuple[Recipe, Sequence[str]]]) -> str:
    """Return a list of what is said of some recipes, "" where nothing is."""
    lines = [f"- {_link(recipe)}: {' '.join(each)}" for recipe, each in said if each]
    return f"## {title}\n\n" + "\n".join(lines) if lines else ""


def _link(recipe: Recipe) -> str:
    return f"[{recipe.name}](../recipes/{word(recipe.model)}/{recipe.path.name})"


def _results(name: str, recipes: list[Recipe]) -> str:
    metric = metric_of(recipes[0])
    rows = sorted(recipes, key=lambda each: metrics.gain(metric, each.measured.test), reverse=True)
    best = rows[0] if metric else None  # of an unknown one nobody knows whether more is better
    less = f"Of `{metric}` less is better.\n\n" if metric in metrics.LOWER else ""
    return f"## {name}\n\n{less}" + table(
        ["recipe", "published", "program", "measured", "difference", "seeds", "seconds", "reached"],
        [_result(each, best) for each in rows],
    )


def _result(recipe: Recipe, best: Recipe | None) -> list[str]:
    found, expect = recipe.measured, recipe.expect
    score = f"{found.test:.4f} ± {found.std:.4f}"
    return [
        _link(recipe),
        f"{expect.test:.4f}" if expect else "",
        "{:.4f} ± {:.4f}".format(*expect.program) if expect and expect.program else "",
        f"**{score}**" if best and found.test == best.measured.test else score,
        _beside(found.test, best.measured.test, metric_of(recipe)) if best else "",
        str(len(found.seeds)),
        " on ".join(filter(None, [f"{found.seconds:,.0f}", found.gpu])) if found.seconds else "",
        _verdict(recipe) if expect else "",
    ]


def _verdict(recipe: Recipe) -> str:
    """Return whether a number was reached, and whether the authors' program misses it itself."""
    program = recipe.expect.program
    missed = program is not None and not _passed(recipe, program[0])
    return ("PASS" if _passed(recipe) else "FAIL") + (", the program misses it" if missed else "")


def _passed(recipe: Recipe, score: float | None = None) -> bool:
    """Return whether a score, the measured one if none is given, is at most `within` worse."""
    scores = (recipe.measured.test if score is None else score, recipe.expect.test)
    found, wanted = (metrics.gain(metric_of(recipe), each) for each in scores)
    return metrics.is_reached(found - wanted, recipe.expect.within)


def _beside(score: float, best: float, metric: str | None) -> str:
    """Return the difference of two scores, if any: in points, of an error as it is."""
    if score == best:
        return ""
    return f"{score - best:+.4f}" if metric in metrics.LOWER else f"{100 * (score - best):+.2f}"


def _plain(recipes: list[Recipe]) -> dict[str, Recipe]:
    """Return the recipe that counts for each model, that of the shortest name.

    To take the best by its test score would favour models with many.
    """
    found: dict[str, Recipe] = {}
    for each in sorted(recipes, key=lambda recipe: (len(recipe.name), recipe.name)):
        if metric_of(each):
            found.setdefault(word(each.model), each)
    return found


def _places(groups: dict[str, list[Recipe]]) -> tuple[dict[str, list[float]], list[str]]:
    """Return the ranks of each model, the best mean first, and the data they are on.

    Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets (JMLR 2006), section
    3.2.2, over the data and splits on which all of these models are measured.
    """
    scores: dict[str, dict[str, float]] = {}
    for name, recipes in groups.items():
        for model, each in _plain(recipes).items():
            gained = metrics.gain(metric_of(each), each.measured.test)
            scores.setdefault(model, {})[name] = gained
    models, common = metrics.largest_complete_part(scores, fewest=_FEWEST)
    if not models:
        return {}, []
    from scipy import stats

    ranked = stats.rankdata([[-scores[each][name] for name in common] for each in models], axis=0)
    found = dict(zip(models, ranked.tolist(), strict=True))
    return {each: found[each] for each in sorted(found, key=lambda model:
            statistics.fmean(found[model]))}, common  # fmt: skip


_FEWEST = 3  # data sets that say something of a model in general


def _ranks(groups: dict[str, list[Recipe]]) -> str:
    places, common = _places(groups)
    if not places:
        return ""
    apart = metrics.critical_difference(len(places), len(common))
    rows = []
    for model, own in places.items():
        half = _half(own)
        mean = f"{statistics.fmean(own):.2f}"
        rows.append([model, mean, "" if half is None else f"{half:.2f}"])
    return (
        f"## Mean rank\n\nOf {len(places)} models on the {len(common)} data sets on which all of "
        f"them are measured ({'; '.join(common)}); 1 is the best, ± half of the 95 % interval over "
        "data sets (Student's t). Mean ranks that are less than the critical difference of "
        f"{apart:.2f} apart may be so by chance (Nemenyi's test at 5 %). Of a model's recipes the "
        f"one of the shortest name counts, whichever scores best.{_better(groups, places, common)}"
        "\n\n" + table(["model", "mean rank", "±"], rows)
    )


def _better(groups: dict[str, list[Recipe]], models: Collection[str], common: list[str]) -> str:
    """Return which recipes would have counted for more, in words."""
    said = []
    for name in common:
        for model, own in _plain(groups[name]).items():
            alike = [each for each in groups[name] if word(each.model) == model]
            best = max(alike, key=lambda each: metrics.gain(metric_of(each), each.measured.test))
            if model in models and best.measured.test != own.measured.test:
                said.append(f"{best.name} for {own.name}")
    return f" The best would be {', '.join(said)}." if said else ""


def _half(places: list[float]) -> float | None:
    found = metrics.paired_difference(places, [0.0] * len(places))
    return None if found.high is None else found.high - found.mean


COLUMNS, TOP = 3, 34  # panels beside each other; what is above and below the lines of one


def results_picture(recipes: list[Recipe]) -> str:
    """Return the picture of the page, an SVG: models in the order of their scores, for each data.

    A panel for each data set and split with two models or more, and one of the mean ranks.
    """
    panels = _panels(_groups(recipes))
    parts, y = [_legend()], 1.2 * TOP
    for first in range(0, len(panels), COLUMNS):
        beside = panels[first : first + COLUMNS]
        for place, (title, lines) in enumerate(beside):
            at = f"translate({place * PANEL} {y:g})"
            parts.append(element("g", panel(title, lines), transform=at))
        y += max(len(lines) for _, lines in beside) * LINE + 2.2 * TOP
    said = "Scores of the models on each data set, with published numbers"
    return document(MADE, said, "".join(parts), COLUMNS * PANEL, y)


def _panels(groups: dict[str, list[Recipe]]) -> list[tuple[str, list[Line]]]:
    """Return the title and the lines of each panel."""
    attend = list_models(attention="rba")
    places, common = _places(groups)
    lines = []
    for model, own in places.items():
        mean, half = statistics.fmean(own), _half(own) or 0.0
        ends = max(1, mean - half), min(len(places), mean + half)
        lines.append(Line(model, mean, *ends, int(model not in attend)))
    panels = [(f"mean rank, {len(common)} data sets", lines)] if lines else []
    for name in sorted(groups):
        rows = _plain(groups[name])
        metric = metric_of(groups[name][0])
        lines = []
        for model, each in rows.items():
            found, published = each.measured, each.expect and each.expect.test
            ends = found.test - found.std, found.test + found.std
            lines.append(Line(model, found.test, *ends, int(model not in attend), published))
        lines.sort(key=lambda line: -metrics.gain(metric, line.value))
        less = ", less is better" if metric in metrics.LOWER else ""
        panels += [(f"{name}: {metric}{less}", lines)] if len(lines) > 1 else []
    return panels


def _legend() -> str:
    """Return what the marks are."""
    parts, x = [], 14.0
    for number, said in enumerate(("attends to all nodes", "does not", "published")):
        how = {"class_": f"mark c{number}"} if number < 2 else OPEN
        parts.append(marks((0, 1, 3)[number], [(x, 17)], 4.5, **how))
        parts.append(text(said, x + 10, 21))
        x += 28 + 7 * len(said)
    parts.append(text("bar: ± a standard deviation over seeds; of ranks the 95 % interval", x, 21))
    return "".join(parts)
