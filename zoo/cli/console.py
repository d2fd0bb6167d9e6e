"""What the command prints: tables on standard output, remarks and complaints on standard error."""

from typing import Any

from rich.console import Console
from rich.table import Table

_out = Console(highlight=False)
_errors = Console(stderr=True, highlight=False, soft_wrap=True)


def complain(text: str) -> None:
    """Print what went wrong."""
    _errors.print(f"[bold red]zoo:[/] {_plain(text)}")


def remark(text: str) -> None:
    """Print what is being done."""
    _errors.print(_plain(text))


def say(text: str) -> None:
    """Print a line of an answer as it is, at once."""
    _out.print(_plain(text), soft_wrap=True)
    _out.file.flush()


def verdict(passed: bool, sentence: str) -> None:
    """Print PASS or FAIL, and why."""
    word = "[bold green]PASS[/]" if passed else "[bold red]FAIL[/]"
    _out.print(f"{word} {_plain(sentence)}")


def rows(found: list[dict[str, Any]]) -> None:
    """Print rows with the same keys as a table."""
    table = Table(box=None, pad_edge=False)
    for column in found[0]:
        table.add_column(column, no_wrap=column == "name", overflow="fold")
    for row in found:
        table.add_row(*(_plain("" if cell is None else cell) for cell in row.values()))
    _out.print(table)


def estimate(found) -> None:
    """Print what `zoo estimate` found, in MiB, and how large a batch may be."""
    counts = {"parameters": "", "nodes": "in the graph", "batch": "nodes in a step"}
    sizes = {
        "program": "Python and the libraries",
        "data": "features, labels and graph",
        "weights": "with gradients, optimiser and the best so far",
        "step": "of training, at its peak",
        "evaluation": "at its peak",
        "peak": "of all that, on a CPU",
        "peak_cuda": "on a GPU, without what CUDA takes for itself",
    }
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    for name, what in counts.items():
        table.add_row(name, f"{getattr(found, name):,}", what)
    for name, what in sizes.items():
        table.add_row(name.replace("_", " "), f"{getattr(found, name) / 2**20:,.0f} MiB", what)
    _out.print(table)
    if found.largest == 0:
        _out.print("The data alone do not fit into the memory that is free here.")
    elif found.largest is not None:
        _out.print(f"In the memory that is free here a step may see {found.largest:,} nodes.")


def findings(found: list) -> None:
    """Print what `zoo doctor` found, with the line that fixes what is broken."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for each in found:
        mark = (
            "[green]ok[/]" if not each.fix else "[red]broken[/]" if each.needed else "[yellow]-[/]"
        )
        table.add_row(mark, each.name, _plain(each.found))
        if each.fix:
            table.add_row("", "", f"[bold]{_plain(each.fix)}[/]")
    _out.print(table)


def data(found: list) -> None:
    """Print what `zoo data check` found: a line each, and below it what to do about it."""
    marks = {"good": "[green]good[/]", "look": "[yellow]look[/]", "fix": "[bold red]fix[/]"}
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in found:
        table.add_row(marks[each.verdict], each.name, _plain(each.found))
        if each.fix:
            table.add_row("", "", f"[bold]{_plain(each.fix)}[/]")
    _out.print(table)


def result(summary: dict[str, Any]) -> None:
    """Print the scores of each seed, their mean, and what the run cost."""
    title = f"{summary['recipe']}: {summary['metric']} on {summary['dataset']}"
    table = Table(title=title, title_justify="left")
    for column in ("seed", "best epoch", "validation", "test"):
        table.add_column(column, justify="right")
    for row in summary["seeds"]:
        scores = (f"{row[part]:.4f}" for part in ("val", "test"))
        table.add_row(str(row["seed"]), str(row["epoch"]), *scores)
    if len(summary["seeds"]) > 1:
        table.add_section()
        table.add_row("mean", "", *(_spread(summary[part]) for part in ("val", "test")))
    _out.print(table)
    if summary["interrupted"]:
        _out.print(
            f"[yellow]stopped early, in seed {summary['seeds'][-1]['seed']}; go on with[/] "
            f"zoo train --resume {_plain(summary['folder'])}",
            soft_wrap=True,
        )
    _out.print(
        f"{summary['parameters']:,} parameters, {_milliseconds(summary)} ms per epoch, "
        f"{_gigabytes(summary)} GiB at most, on {summary['device']}\n"
        f"The run is in {_plain(summary['folder'])}",
        soft_wrap=True,
    )


def start(found) -> None:
    """Print what training begins with, weight by weight."""
    table = Table(box=None, pad_edge=False)
    table.add_column("weight")
    table.add_column("begins")
    for name in (*found.loaded, *found.fresh):
        state = "loaded" if name in found.loaded else "fresh"
        table.add_row(_plain(name), "frozen" if name in found.frozen else state)
    for name in found.unused:
        table.add_row(_plain(name), "unused")
    _errors.print(table)
    counts = ("loaded", "fresh", "frozen", "unused")
    said = ", ".join(f"{len(getattr(found, each))} {each}" for each in counts)
    _errors.print(f"Starts from {_plain(found.weights)}: {said}.")


def score(found: dict[str, Any]) -> None:
    """Print one score and what it was measured on."""
    which = "" if found["part"] == "all" else f"{found['part']} "
    seen = " Nodes that it was trained on are among them." if found["seen"] else ""
    _out.print(
        f"{found['metric']} {found['score']:.4f} on {found['nodes']:,} {which}nodes of "
        f"{_plain(found['data'])}.{seen}",
        soft_wrap=True,
    )


def comparison(found: list[dict[str, Any]]) -> None:
    """Print a row per run, the best score in bold, and what to know of the rows."""
    first = found[0]
    title = f"{first['metric']} on {first['dataset']}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("recipe", no_wrap=True)
    for column in ("test", "runs", "parameters", "ms/epoch", "GiB"):
        table.add_column(column, justify="right", no_wrap=True)
    best = max(each["test"]["mean"] for each in found)
    for each in found:
        score = _spread(each["test"])
        table.add_row(
            _plain(each["recipe"]),
            f"[bold]{score}[/]" if each["test"]["mean"] == best else score,
            str(each["test"]["runs"]),
            f"{each['parameters']:,}",
            _milliseconds(each),
            _gigabytes(each),
        )
    _out.print(table)
    for remark_, names in _remarks(found):
        if names:
            _out.print(f"{remark_}: {_plain(', '.join(names))}.", soft_wrap=True)


def info(found: dict[str, Any]) -> None:
    """Print what `zoo.cli.info.info` says of a model."""
    _out.print(f"[bold]{_plain(found['name'])}[/]  {_plain(found['what'])}\n", soft_wrap=True)
    for part in ("equations", "paper"):
        if found[part]:
            _out.print(_plain(found[part]) + "\n", soft_wrap=True)
    if found["about"]:
        _out.print(f"[bold]About[/]\n{_plain(found['about'])}\n", soft_wrap=True)
    for heading in ("options", "recipes"):
        if found[heading]:
            _out.print(f"[bold]{heading.capitalize()}[/]")
            rows(found[heading])
            _out.print()
    if found["citation"]:
        _out.print(f"[bold]Citation[/]\n{_plain(found['citation'])}", soft_wrap=True)


def study(found) -> None:
    """Print a study's table, and its rows: measured, predicted, their ratio, do they agree."""
    if found.table:
        rows(found.table)
    if not found.rows:
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for column in ("measured", "predicted", "ratio", "within"):
        table.add_column(column, justify="right")
    for row in found.rows:
        cells = (f"{row.measured:.4g}", f"{row.predicted:.4g}", f"{row.ratio:.3f}")
        mark = "" if row.agrees else " [bold red]no[/]"
        within = "at most" if row.tolerance is None else f"±{row.tolerance:.2f}"
        table.add_row(_plain(row.name), *cells, within + mark)
    _out.print(table)


def _remarks(found: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    def named(keep) -> list[str]:
        return [each["recipe"] for each in found if keep(each)]

    return [
        ("Read from finished runs", named(lambda each: each["read"])),
        ("Default options, not tuned for this data set", named(lambda each: not each["tuned"])),
        ("Trained and tested on other nodes", named(lambda each: not each["same_splits"])),
        ("Stopped early", named(lambda each: each["interrupted"])),
    ]


def _spread(score: dict[str, float | None]) -> str:
    if score["std"] is None:
        return f"{score['mean']:.4f}"
    return f"{score['mean']:.4f} ± {score['std']:.4f}"


def _milliseconds(summary: dict[str, Any]) -> str:
    return f"{summary['seconds_per_epoch'] * 1000:.0f}"


def _gigabytes(summary: dict[str, Any]) -> str:
    return f"{summary['peak_memory_bytes'] / 2**30:.2f}"


def _plain(text: object) -> str:
    """Keep rich from reading square brackets in a user's text as its own markup."""
    return str(text).replace("[", r"\[")
