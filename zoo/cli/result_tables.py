"""Tables of results: of a run, a fine-tuning, an evaluation, a comparison, a reproduction."""

import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from zoo.cli.console import errors, out, plain
from zoo.config.scores import best_epoch, figure, lower_is_better, signed, with_deviation

if TYPE_CHECKING:
    from pandas import DataFrame

NAME, HEAD = 24, 10
"""Columns that the name of a model, and the head of a graph, have at least if they need them."""

CLASSES = 20
"""Classes that the table of an evaluation has at most."""


def result(summary: dict[str, Any], epochs: int | None = None) -> None:
    """Print the scores of each seed, their mean, and what the run cost.

    Args:
        summary: of the run.
        epochs: that each seed had at most, if known.
    """
    table = Table()
    for column in ("seed", "best epoch", "validation", "test"):
        table.add_column(column, justify="right")
    for row in summary["seeds"]:
        scores = (figure(row[part]) for part in ("val", "test"))
        best = best_epoch(row["epoch"], summary["parameters"])
        table.add_row(str(row["seed"]), best, *scores)
    if len(summary["seeds"]) > 1:
        table.add_section()
        table.add_row("mean", "", *(with_deviation(summary[part]) for part in ("val", "test")))
    title = f"{summary['recipe']}: {summary['metric']} on {summary['dataset']}"
    title += f", split {summary['split']}" if summary.get("split") else ""
    out.print(plain(title), table, sep="\n", soft_wrap=True)
    for sentence in _of_best_epochs(summary, epochs):
        out.print(sentence)
    if summary.get("beside"):
        scores = {name: with_deviation(score) for name, score in summary["beside"].items() if score}
        out.print(plain(f"Beside, on the test part: {_listed(scores)}"))
    if summary.get("heuristics"):
        scores = {name: with_deviation(score) for name, score in summary["heuristics"].items()}
        out.print(plain(f"Heuristics, which learn nothing: {_listed(scores)}"))
    if measured := summary.get("measured"):
        score = with_deviation({"mean": measured["test"], "std": measured["std"]})
        seeds = len(measured["seeds"])
        out.print(f"The recipe was measured with {score} on test, {seeds} seeds.", soft_wrap=True)
    if summary["interrupted"]:
        from zoo.system.process_group import resume_command

        seed, command = summary["seeds"][-1]["seed"], resume_command(summary["folder"])
        stopped = f"[yellow]stopped early, in seed {seed}; go on with[/] {plain(command)}"
        out.print(stopped, soft_wrap=True)
    trained = f"{summary['parameters']:,} parameters, {_milliseconds(summary)} ms per epoch"
    if not summary["parameters"]:
        trained = f"no parameters, so nothing was trained, {_milliseconds(summary)} ms to answer"
    out.print(
        f"{trained}, "
        f"{_gigabytes(summary)} GiB at most, on {plain(summary['device'])}\n"
        f"The run is in {plain(summary['folder'])}.\n"
        f"zoo report {plain(shlex.quote(summary['folder']))} draws it.",
        soft_wrap=True,
    )


def _of_best_epochs(summary: dict[str, Any], epochs: int | None) -> Iterator[str]:
    """Say what best epochs tell: of loaded weights that stayed, and of a training cut short."""
    from zoo.runs.run_folder import is_cut_short

    seeds = summary["seeds"]
    unchanged = [row for row in seeds if row["epoch"] < 0]
    if unchanged and summary["parameters"]:
        of_seeds = "" if len(seeds) == 1 else f" of {len(unchanged)} seeds"
        yield f"As loaded: nothing better by validation came of the training{of_seeds}."
    if is_cut_short(summary, epochs):
        yield "The best epochs are among the last: with more, train.epochs, it may improve."


def expectations(rows: list[dict[str, Any]]) -> None:
    """Print what recipes should reach, what they did, and how long that took."""
    table = Table("recipe", box=None, pad_edge=False)
    for column in ("published", "measured", "took"):
        table.add_column(column, justify="right")
    for row in rows:
        score = {"mean": row["measured"], "std": row["std"]}
        measured = "not yet" if row["measured"] is None else with_deviation(score)
        took = "" if row["seconds"] is None else _duration(row["seconds"])
        took += f" on {row['gpu']}" if row["gpu"] else ""
        table.add_row(plain(row["name"]), figure(row["published"]), measured, plain(took))
    out.print(table)


def _duration(seconds: float) -> str:
    """Return 40 s, 11 min or 2.1 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def better(kept: dict[str, Any], other: dict[str, Any]) -> None:
    """Print which of two runs has the better mean validation score, if one has."""
    scores = (f"{with_deviation(each['val'])}, {plain(each['folder'])}" for each in (kept, other))
    level = kept["val"]["mean"] == other["val"]["mean"]
    said = "level are {} and {}" if level else "the better one is {}; beside it {}"
    out.print(f"By validation {said.format(*scores)}.", soft_wrap=True)


def start(start) -> None:
    """Print what training begins with; by name the weights that are not just loaded."""
    trained = [name for name in start.loaded if name not in start.frozen]
    unused = [name for name in start.unused if name not in start.fresh]
    states = {"frozen": start.frozen, "fresh": start.fresh, "unused": unused}
    table = Table("weight", "begins", box=None, pad_edge=False)
    for state, names in states.items():
        for name in names:
            table.add_row(plain(name), state)
    if table.row_count:
        errors.print(table)
    more = f"; {len(unused)} of the file unused" if unused else ""
    errors.print(
        f"Starts from {plain(start.weights)}: of {len(start.loaded) + len(start.fresh)} weights "
        f"{len(trained)} loaded, {len(start.frozen)} frozen, {len(start.fresh)} fresh{more}."
    )


def score(result: dict[str, Any]) -> None:
    """Print the score of an evaluation, what it was measured on, and further metrics."""
    part = "" if result["part"] == "all" else f"{result['part']} "
    pairs = "pairs" in result
    unit, count = ("pairs", result["pairs"]) if pairs else (result["unit"], result["nodes"])
    how = f" By {result['beams']} beams, {result['signature']}." if pairs else ""
    seen = f" {unit.capitalize()} that it was trained on are among them." if result["seen"] else ""
    if result["seen"] is None:
        seen = (
            f" Nothing says whether the weights were trained on some of these {unit}; if they "
            "were, the score is too good."
        )
    out.print(
        plain(
            f"{result['metric']} {figure(result['score'])} on {count:,} {part}{unit} of "
            f"{result['data']}.{how}{seen}"
        ),
        soft_wrap=True,
    )
    if result.get("baselines"):
        _baselines(result)
    elif result.get("beside"):
        scores = {
            name: figure(value) for name, value in result["beside"].items() if value is not None
        }
        out.print(plain(_listed(scores)))
    if result.get("per_class"):
        _classes(result["per_class"])


def _listed(scores: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {score}" for name, score in scores.items())


def _baselines(result: dict[str, Any]) -> None:
    """Print the metrics of forecasts, and below them those of baselines."""
    own = {result["metric"]: result["score"], **result["beside"]}
    table = Table(box=None, pad_edge=False)
    table.add_column("forecast")
    for metric in own:
        table.add_column(plain(metric), justify="right")
    for name, scores in {"this model": own, **result["baselines"]}.items():
        table.add_row(plain(name), *(figure(scores[metric]) for metric in own))
    out.print(table)


def _classes(rows: list[dict[str, Any]]) -> None:
    """Print precision, recall and F1 of each class, the most frequent ones if they are many."""
    table = Table(box=None, pad_edge=False)
    table.add_column("class", overflow="ellipsis", no_wrap=True, max_width=40)
    for column in ("precision", "recall", "f1", "count"):
        table.add_column(column, justify="right", no_wrap=True)
    frequent = sorted(range(len(rows)), key=lambda index: -rows[index]["count"])[:CLASSES]
    for row in (rows[index] for index in sorted(frequent)):
        scores = (row[key] for key in ("precision", "recall", "f1"))
        cells = ("-" if score is None else f"{score:.4f}" for score in scores)
        table.add_row(plain(row["class"]), *cells, f"{row['count']:,}")
    out.print(table)
    if len(rows) > CLASSES:
        out.print(f"The {CLASSES} most frequent of {len(rows):,} classes; --json has all of them.")


def comparison(summaries: list[dict[str, Any]], percent: bool = False) -> None:
    """Print a row per run, the best score first and in bold, its cost, and sentences about them."""
    from zoo.runs.compare import difference_notes, is_marked, mark_notes, other_notes
    from zoo.runs.results_table import (
        MARKED,
        UNREACHED,
        cut_short_note,
        row_in_percent,
        unreached_phases,
        written_as,
    )

    if percent:
        summaries = [row_in_percent(row) for row in summaries]
    best = next(row for row in summaries if row["best"])
    write = written_as(best["metric"])
    scores, costs = Table(box=None, pad_edge=False), Table(box=None, pad_edge=False)
    for table, columns in (
        (scores, ("test", "difference", "95 % interval")),
        (costs, ("runs", "epochs", "best epoch", "parameters", "ms/epoch", "GiB")),
    ):
        table.add_column("recipe", overflow="fold")
        for column in columns:
            table.add_column(column, justify="right", no_wrap=True)
    scores.add_column("", no_wrap=True)
    for row in summaries:
        late = f" {UNREACHED}" if row.get("unreached_phase") else ""
        name = plain(row["recipe"] + (f" {MARKED}" if is_marked(row) else "") + late)
        test = with_deviation(row["test"], write)
        scores.add_row(
            name, f"[bold]{test}[/]" if row is best else test, *_difference(row, best, write)
        )
        costs.add_row(
            name,
            str(row["test"]["runs"]),
            f"{row['epochs']:.0f}",
            best_epoch(row["best_epoch"], row["parameters"]),
            f"{row['parameters']:,}",
            _milliseconds(row),
            _gigabytes(row),
        )
    if heuristics := best.get("heuristics"):
        scores.add_section()
        for name, score in heuristics.items():
            scores.add_row(plain(name), with_deviation(score, write))
    less = ", of which less is better" if lower_is_better(best["metric"]) else ""
    out.print(plain(f"{best['metric']} on {best['dataset']}{less}"), soft_wrap=True)
    out.print(scores)
    if heuristics:
        out.print(plain(f"The last {len(heuristics)} learn nothing; they see what the best does."))
    for sentence in difference_notes(summaries):
        out.print(plain(sentence))
    out.print("\ntraining, in the mean of the runs")
    out.print(costs)
    late = unreached_phases({row["recipe"]: row.get("unreached_phase") for row in summaries})
    cut_short = ", ".join(row["recipe"] for row in summaries if row["cut_short"])
    more = [cut_short_note(cut_short)] if cut_short else []
    for sentence in (*mark_notes(summaries), *late, *more, *other_notes(summaries)):
        out.print(plain(sentence))


def results(scores: "DataFrame", notes: Sequence[str]) -> None:
    """Print the scores of models on graphs, the best of each in bold, and sentences about them.

    Graphs that do not fit beside each other follow below, so that no score is folded.
    """
    from zoo.runs.results_table import cells

    marks: list[str] = []
    cells(scores, lambda text, best, marked: marks.append(marked) or "")
    most = max(map(len, marks))

    def cell(text: str, best: bool, marked: str) -> str:
        text = f"[bold]{text}[/]" if best else text
        return f"{text} {marked:{most}}" if most else text  # in line with those that are marked

    heads, *rows = cells(scores, cell)
    names, *columns = zip(*[[plain(each[0]), *each[1:]] for each in rows], strict=True)
    widths = [max(cell_len(Text.from_markup(text).plain) for text in own) for own in columns]
    longest = max(map(cell_len, names))
    for number, block in enumerate(_blocks(widths, out.width - min(longest, NAME))):
        table = Table(box=None, pad_edge=False)
        table.add_column(heads[0], overflow="fold")
        for place in block:
            head = "\n".join(textwrap.wrap(heads[place + 1], max(widths[place], HEAD)))
            fits = len(block) > 1 or widths[place] + 2 + HEAD <= out.width
            table.add_column(plain(head), justify="right", no_wrap=fits)
        for name, *own in zip(names, *(columns[place] for place in block), strict=True):
            table.add_row(name, *own)
        out.print(*([""] if number else []), table, sep="\n")
    for note in notes:
        out.print(plain(note))


def _blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """Return the places of columns, as many in each block as have room, two blanks before each."""
    blocks: list[list[int]] = [[]]
    for place, width in enumerate(widths):
        taken = sum(max(widths[other], HEAD) + 2 for other in blocks[-1])
        if blocks[-1] and taken + max(width, HEAD) + 2 > room:
            blocks.append([])
        blocks[-1].append(place)
    return blocks


def _difference(
    row: dict[str, Any], best: dict[str, Any], write: Callable[[float], str]
) -> tuple[str, str, str]:
    """Return the difference of a row from the best, its interval, and `noise` where it is that."""
    difference = row["difference"]
    if difference is None:
        return ("best", "", "") if row is best else ("", "", "not tested")

    mean, low = signed(difference["mean"], write), difference["low"]
    if low is None:
        return mean, "", "one run" if difference["pairs"] == 1 else "all alike"
    interval = f"{signed(low, write)} to {signed(difference['high'], write)}"
    return mean, interval, "noise" if difference["noise"] else ""


def verdict(
    passed: bool, sentence: str, differs: Sequence[str] = (), missed: str | None = None
) -> None:
    """Print PASS or FAIL, why, and where the recipe is not what its source says."""
    word = "[bold green]PASS[/]" if passed else "[bold red]FAIL[/]"
    out.print(f"{word} {plain(sentence)}")
    if missed:
        out.print(f"missed before: {plain(missed)}")
    for difference in differs:
        out.print(f"differs: {plain(difference)}")


def reproduction(row: dict[str, Any]) -> None:
    """Print a line on a recipe that was trained, or why it was not, and where it differs."""
    if "test" in row:
        test = with_deviation({"mean": row["test"], "std": row["std"]})
        expected = "" if row["expected"] is None else f", expected {figure(row['expected'])}"
        text = f"{test}{expected}, {row['seconds']:,} s"
    elif row["state"] == "too long":
        text = f"takes {row['hours']:.1f} hours"
    else:
        text = "its data is not here" if row["state"] == "no data" else row["sentence"]
    color = {"PASS": "green", "FAIL": "red", "error": "red"}.get(row["state"], "yellow")
    out.print(f"[{color}]{row['state']:<8}[/] {plain(row['recipe'])}: {plain(text)}")
    for difference in row.get("differs", ()):
        out.print(f"{'':9}differs: {plain(difference)}")


def _milliseconds(summary: dict[str, Any]) -> str:
    return f"{summary['seconds_per_epoch'] * 1000:.0f}"


def _gigabytes(summary: dict[str, Any]) -> str:
    return f"{summary['peak_memory_bytes'] / 2**30:.2f}"
