"""Write the pages of the recipes and of all results, from recipes and docstrings.

    python benchmarks/pages.py [FOLDER]

FOLDER, `recipes` where none is named, holds a folder of recipes for each model. Written are the
README.md of each, that of all, and, where there is a folder `docs` beside it, `docs/results.md`
with its pictures.
"""

import argparse
import inspect
import math
import re
import statistics
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from zoo import MODELS, Recipe, ZooError, list_models, load_recipe
from zoo.config import scores as metrics
from zoo.config.recipe import word
from zoo.data.load.by_name import metric_of, scored_on
from zoo.errors import unknown
from zoo.reports.html import COLORS
from zoo.reports.measures import LEVEL
from zoo.weights.model_card import citation, summary

MADE = "<!-- Written by `make pages` from recipes and docstrings: change those, not this page. -->"

PAGE = "README.md"

RESULTS = Path("docs") / "results.md"
"""The page of all results, beside the folder of recipes, where there is a folder of documents."""

PICTURE = Path("plots") / "results.svg"
BESIDE = Path("plots") / "transformers.svg"
"""The pictures, beside that page."""


def write_pages(folder: Path) -> list[Path]:
    """Write the page of each model and that of all models; return the files that changed.

    The pictures are drawn anew where the page of results is another, or where there are none.

    Args:
        folder: holds a folder of recipes for each model, `sgformer/sgformer-cora.yaml`.

    Raises:
        ZooError: there are no recipes, a folder is no model's, a recipe has mistakes, or a page is
            in the place of another file.
    """
    recipes = read_recipes(folder)
    made = pages(folder, recipes)
    changed = outdated(made)
    for path in changed:
        if path.exists() and "<!-- Written by `" not in path.read_text(encoding="utf-8"):
            raise ZooError(
                f"{path} was not written by `make pages`; move it, and write them again."
            )
    results = folder.resolve().parent / RESULTS
    shown = made.get(results, "")
    for name, draw in {PICTURE: results_picture, BESIDE: transformers_picture}.items():
        picture = results.parent / name
        if f"({name.as_posix()})" in shown and (results in changed or not picture.exists()):
            changed[picture] = draw([each for group in recipes.values() for each in group])
    for path, text in changed.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(changed)


def outdated(made: dict[Path, str]) -> dict[Path, str]:
    """Return those of some pages whose file is missing or holds something else."""
    return {
        path: text
        for path, text in made.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def read_recipes(folder: Path) -> dict[str, list[Recipe]]:
    """Return the recipes of each model.

    Raises:
        ZooError: as `write_pages`.
    """
    recipes: dict[str, list[Recipe]] = {}
    for path in sorted(folder.glob("*/*.yaml"), key=lambda path: (path.parent, path.stem)):
        recipes.setdefault(path.parent.name, []).append(load_recipe(path))
    if not recipes:
        raise ZooError(
            f"{folder} holds no recipes; name a folder with a folder of recipes for each model, "
            "such as `recipes` in a checkout of the zoo."
        )
    known = list_models()
    for model in recipes:
        if model not in known:
            raise ZooError(
                f"{folder / model}: a folder of recipes has the name of their model. "
                + unknown("model", model, known)
            )
    return recipes


def pages(folder: Path, recipes: dict[str, list[Recipe]]) -> dict[Path, str]:
    """Return the text of every page by its file."""
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
        "([how](measured-settings.md#how-defaults-were-chosen)).",
        f"![Scores of the models on each data set, with published numbers]({PICTURE.as_posix()})",
        "*Of each model the recipe of the shortest name, on data with two models or more; "
        "intervals of ranks end at the first and at the last.*",
        _ranks(groups),
        _transformers(groups),
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
    less = f"Of `{metric}` less is better.\n\n" if metrics.lower_is_better(metric) else ""
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
    return (
        f"{score - best:+.4f}"
        if metrics.lower_is_better(metric)
        else f"{100 * (score - best):+.2f}"
    )


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
    models, common = largest_complete_part(scores, fewest=_FEWEST)
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
    apart = critical_difference(len(places), len(common))
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


class Contest(NamedTuple):
    """The best transformer beside the best other model, of one split of a data set.

    Attributes:
        name: of the data and its split.
        transformer: the recipe that attends to all nodes.
        other: the recipe that does not.
        gain: how much better the transformer is, in points, of an error as it is.
        half: half of the 95 % interval of that.
    """

    name: str
    transformer: Recipe
    other: Recipe
    gain: float
    half: float

    @property
    def verdict(self) -> str:
        """The best of both: transformer, other, or neither where the interval holds 0."""
        if abs(self.gain) <= self.half:
            return "neither"
        return "transformer" if self.gain > 0 else "other"


def contests(recipes: list[Recipe]) -> list[Contest]:
    """Return the best transformer beside the best other model of each data set and split.

    The interval is Welch's, of two means with deviations of their own.
    """
    return [each for name, group in sorted(_groups(recipes).items())
            for each in _contest(name, group)]  # fmt: skip


def _contest(name: str, recipes: list[Recipe]) -> Iterable[Contest]:
    from scipy import stats

    attend, metric = list_models(attention="rba"), metric_of(recipes[0])
    best: dict[bool, Recipe] = {}
    for each in recipes:
        side = word(each.model) in attend
        gains = [metrics.gain(metric, one.measured.test) for one in (each, best.get(side, each))]
        if len(each.measured.seeds) > 1 and (side not in best or gains[0] > gains[1]):
            best[side] = each
    if not metric or len(best) < 2:
        return
    found = [best[side].measured for side in (True, False)]
    shares = [each.std**2 / len(each.seeds) for each in found]
    freedom = sum(shares) ** 2 / sum(
        share**2 / (len(each.seeds) - 1) for share, each in zip(shares, found, strict=True)
    )
    scale = 1 if metrics.lower_is_better(metric) else 100
    gain, base = (metrics.gain(metric, each.test) for each in found)
    half = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * math.sqrt(sum(shares))
    yield Contest(name, best[True], best[False], scale * (gain - base), scale * half)


def _transformers(groups: dict[str, list[Recipe]]) -> str:
    """Return where the best transformer is ahead of the best other model, and where behind."""
    found = contests([each for group in groups.values() for each in group])
    if not found:
        return ""
    of = {side: [each.name for each in found if each.verdict == side]
          for side in ("transformer", "other", "neither")}  # fmt: skip
    rows = []
    for each in sorted(found, key=lambda one: (_of_error(one), -one.gain)):
        form = "{:+.4f} ± {:.4f}" if _of_error(each) else "{:+.2f} ± {:.2f}"
        sides = _side(each.transformer), _side(each.other)
        rows.append([each.name, *sides, form.format(each.gain, each.half), each.verdict])
    return (
        "## Transformers beside other models\n\nThe best model that attends to all nodes beside "
        f"the best that does not, on {len(found)} splits of data sets where both were trained with "
        "several seeds. *Gain* is how much better the transformer is, in points, of an error as it "
        "is, with the 95 % interval over seeds (Welch's); the better one is *neither* where that "
        f"holds 0. The transformer is ahead on {len(of['transformer'])} "
        f"({'; '.join(of['transformer'])}), behind on {len(of['other'])} "
        f"({'; '.join(of['other'])}), and level on {len(of['neither'])}. Both are the best by "
        "their test scores, which favours the side with more recipes, and of "
        f"{len(found)} intervals one or two leave out 0 by chance. Recipes that are narrower than "
        "the published ones have `-small` in their names.\n\n"
        f"![Gain of the best transformer over the best other model]({BESIDE.as_posix()})\n\n"
        + table(["data set", "transformer", "other", "gain", "better"], rows)
    )


def _of_error(contest: Contest) -> bool:
    return metrics.lower_is_better(metric_of(contest.other))


def _side(recipe: Recipe) -> str:
    return f"{_link(recipe)}, {recipe.measured.test:.4f}"


def _half(places: list[float]) -> float | None:
    found = metrics.paired_difference(places, [0.0] * len(places))
    return None if found.high is None else found.high - found.mean


def largest_complete_part(
    table: Mapping[str, Mapping[str, float]], fewest: int
) -> tuple[list[str], list[str]]:
    """Return the part of a table without gaps that has the most rows, and of these most columns.

    Args:
        table: the scores of each row by their column, such as those of a model by data set.
        fewest: columns of the part, at least.

    Returns:
        Its rows and its columns, both in the order of the table; nothing where no two rows share
        enough columns.
    """
    shared = {frozenset(known) for known in table.values()}
    for known in table.values():
        shared |= {each & frozenset(known) for each in shared}
    parts = [
        ([row for row in table if columns <= table[row].keys()], columns)
        for columns in shared
        if len(columns) >= fewest
    ]
    parts = [each for each in parts if len(each[0]) > 1]
    if not parts:
        return [], []
    rows, columns = max(parts, key=lambda each: (len(each[0]), len(each[1]), sorted(each[1])))
    return rows, [name for name in table[rows[0]] if name in columns]


def critical_difference(rows: int, columns: int) -> float:
    """Return how far mean ranks of rows over columns lie apart by chance, at most, 95 times of 100.

    Nemenyi's test: q sqrt(k (k + 1) / (6 N)) of k rows and N columns, with the quantile q of the
    studentized range over sqrt(2). Demšar, Statistical Comparisons of Classifiers over Multiple
    Data Sets (JMLR 2006), section 3.2.2.

    >>> round(critical_difference(4, 14), 2)  # the example there
    1.25
    """
    from scipy.stats import studentized_range

    quantile = float(studentized_range.ppf(LEVEL, rows, math.inf)) / math.sqrt(2)
    return quantile * math.sqrt(rows * (rows + 1) / (6 * columns))


class Line(NamedTuple):
    """A line of a panel.

    Attributes:
        name: of what the value is.
        value: where its mark stands.
        low: end of its bar.
        high: its other end.
        attends: whether a model attends to all nodes.
        published: another number, drawn hollow.
    """

    name: str
    value: float
    low: float
    high: float
    attends: bool
    published: float | None = None


def _panels(groups: dict[str, list[Recipe]]) -> list[tuple[str, list[Line]]]:
    """Return the title and the lines of each panel."""
    attend = list_models(attention="rba")
    places, common = _places(groups)
    lines = []
    for model, own in places.items():
        mean, half = statistics.fmean(own), _half(own) or 0.0
        ends = max(1, mean - half), min(len(places), mean + half)
        lines.append(Line(model, mean, *ends, model in attend))
    panels = [(f"mean rank, {len(common)} data sets", lines)] if lines else []
    for name in sorted(groups):
        rows = _plain(groups[name])
        metric = metric_of(groups[name][0])
        lines = []
        for model, each in rows.items():
            found, published = each.measured, each.expect and each.expect.test
            ends = found.test - found.std, found.test + found.std
            lines.append(Line(model, found.test, *ends, model in attend, published))
        lines.sort(key=lambda line: -metrics.gain(metric, line.value))
        less = ", less is better" if metrics.lower_is_better(metric) else ""
        panels += [(f"{name}: {metric}{less}", lines)] if len(lines) > 1 else []
    return panels


COLUMNS, LINE, AROUND = 3, 17, 75
"""Panels beside each other; points from line to line, and of what is above and below the lines."""

SAID = "Scores of the models on each data set, with published numbers"

DAY = {name: light for name, (light, _) in COLORS.items()}
STYLE = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 12.5,
    "text.color": DAY["ink"],
    "axes.labelcolor": DAY["soft"],
    "xtick.color": DAY["soft"],
    "ytick.color": DAY["soft"],
}


def results_picture(recipes: list[Recipe]) -> str:
    """Return the picture of the page, an SVG: models in the order of their scores, for each data.

    A panel for each data set and split with two models or more, and one of the mean ranks. Its
    text is text, and its colours are those of the reader's screen, light or dark.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    panels = _panels(_groups(recipes))
    rows = [panels[first : first + COLUMNS] for first in range(0, len(panels), COLUMNS)]
    heights = [LINE * max(len(lines) for _, lines in row) + AROUND for row in rows]
    with rc_context(STYLE):
        figure = Figure(figsize=(990 / 72, (sum(heights) + 40) / 72), facecolor=DAY["card"])
        top = sum(heights)
        for row, height in zip(rows, heights, strict=True):
            for place, (title, lines) in enumerate(row):
                box = (330 * place + 118, top - 25 - LINE * len(lines), 196, LINE * len(lines))
                scale = (990, sum(heights) + 40) * 2
                axes = figure.add_axes([each / all_ for each, all_ in zip(box, scale, strict=True)])
                _draw_panel(axes, title, lines, DAY)
            top -= height
        _draw_legend(figure, DAY)
        return _written(figure, SAID)


def _written(figure, said: str) -> str:
    """Return a figure as a file whose colours are those of the reader's screen."""
    from zoo.reports.figures import svg

    drawn = str(svg(figure, said))
    day, night = (
        " ".join(f"--{name}: {pair[side]};" for name, pair in COLORS.items()) for side in (0, 1)
    )
    begin = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    head, inside = drawn.split(">", 1)
    return (
        f"{MADE}\n{head.replace('<svg', begin)}>\n"
        f"<style>:root {{ color-scheme: light dark; {day} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {night} }} }}\n"
        f"text {{ font-family: system-ui, sans-serif !important; }}</style>\n{inside}\n"
    )


def _draw_panel(axes, title: str, lines: Sequence[Line], of: dict[str, str]) -> None:
    """Draw values with their bars, one below the other."""
    for place, each in enumerate(lines):
        color, marker = (of["s0"], "o") if each.attends else (of["s1"], "s")
        axes.plot((each.low, each.high), (place, place), color=color, lw=2, solid_capstyle="round")
        axes.plot(each.value, place, marker, color=color, ms=8, mec=of["card"], mew=0.7)
        if each.published is not None:
            axes.plot(each.published, place, "D", mfc="none", mec=of["soft"], ms=7, mew=1.5)
    axes.set_title(title, loc="left", x=-104 / 196, fontsize=13, pad=8)
    _bare(axes, [each.name for each in lines])


def _bare(axes, names: list[str]) -> None:
    """Name the lines of axes from the top, and leave out their frame."""
    axes.set(yticks=range(len(names)), yticklabels=names, facecolor="none")
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.locator_params(axis="x", nbins=5, steps=[1, 2, 2.5, 5, 10])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(axis="x", color=DAY["line"])
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _draw_legend(figure, of: dict[str, str]) -> None:
    """Say what the marks are."""
    from matplotlib.lines import Line2D

    marks = {
        "attends to all nodes": {"marker": "o", "color": of["s0"], "mec": of["card"]},
        "does not": {"marker": "s", "color": of["s1"], "mec": of["card"]},
        "published": {"marker": "D", "mfc": "none", "mec": of["soft"], "mew": 1.5},
        "bar: ± a standard deviation over seeds; of ranks the 95 % interval": {"marker": ""},
    }
    handles = [Line2D([], [], ls="", ms=8, label=said, **how) for said, how in marks.items()]
    figure.legend(handles=handles, loc="upper left", ncols=4, frameon=False, labelcolor=of["soft"])


def transformers_picture(recipes: list[Recipe]) -> str:
    """Return a picture of where a transformer is better than other models, an SVG.

    Scores alone, in points: errors, each in a unit of its own, are in the table of the page.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    found = [each for each in contests(recipes) if not _of_error(each)]
    found.sort(key=lambda each: -each.gain)
    height = LINE * len(found)
    with rc_context(STYLE):
        figure = Figure(figsize=(540 / 72, (height + 95) / 72), facecolor=DAY["card"])
        axes = figure.add_axes((228 / 540, 45 / (height + 95), 300 / 540, height / (height + 95)))
        axes.axvline(0, color=DAY["soft"], lw=1.5)
        for side, (color, marker) in SIDES.items():
            rows = [(place, each) for place, each in enumerate(found) if each.verdict == side]
            for place, each in rows:
                ends = each.gain - each.half, each.gain + each.half
                axes.plot(ends, (place, place), color=DAY[color], lw=2, solid_capstyle="round")
            axes.plot([each.gain for _, each in rows], [place for place, _ in rows], marker,
                      color=DAY[color], ms=8, mec=DAY["card"], mew=0.7)  # fmt: skip
        _bare(axes, [each.name for each in found])
        axes.set_xlabel("points, 95 % interval over seeds")
        for side, text, place in (("other", "◀ other model", "left"),
                                  ("transformer", "transformer ▶", "right")):  # fmt: skip
            axes.set_title(text, loc=place, fontsize=13, pad=10, color=DAY[SIDES[side][0]])
        return _written(figure, "Gain of the best transformer over the best other model")


SIDES = {"transformer": ("s0", "o"), "other": ("s1", "s"), "neither": ("other", "D")}
"""Colour and mark of what is better."""


def main() -> None:
    """Write the pages that are out of date, and say which they were."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("recipes"), metavar="FOLDER")
    try:
        changed = write_pages(parser.parse_args().folder)
    except ZooError as error:
        sys.exit(str(error))
    print("\n".join(f"written: {path}" for path in changed) or "every page is up to date")


if __name__ == "__main__":
    main()
