"""Tables of results: of a run, a comparison, an estimate, a study, one score."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from zoo.cli.console import errors, out, plain, rows
from zoo.config.metrics import gain


def result(summary: dict[str, Any]) -> None:
    """Print the scores of each seed, their mean, and what the run cost."""
    title = plain(f"{summary['recipe']}: {summary['metric']} on {summary['dataset']}")
    table = Table(title=title, title_justify="left")
    for column in ("seed", "best epoch", "validation", "test"):
        table.add_column(column, justify="right")
    for row in summary["seeds"]:
        scores = (f"{row[part]:.4f}" for part in ("val", "test"))
        best = str(row["epoch"]) if row["epoch"] >= 0 else "as loaded"
        table.add_row(str(row["seed"]), best, *scores)
    if len(summary["seeds"]) > 1:
        table.add_section()
        table.add_row("mean", "", *(_spread(summary[part]) for part in ("val", "test")))
    out.print(table)
    if summary["interrupted"]:
        out.print(
            f"[yellow]stopped early, in seed {summary['seeds'][-1]['seed']}; go on with[/] "
            f"zoo train --resume {plain(summary['folder'])}",
            soft_wrap=True,
        )
    out.print(
        f"{summary['parameters']:,} parameters, {_milliseconds(summary)} ms per epoch, "
        f"{_gigabytes(summary)} GiB at most, on {summary['device']}\n"
        f"The run is in {plain(summary['folder'])}",
        soft_wrap=True,
    )


def start(found) -> None:
    """Print what training begins with, weight by weight."""
    table = Table(box=None, pad_edge=False)
    table.add_column("weight")
    table.add_column("begins")
    for name in (*found.loaded, *found.fresh):
        state = "loaded" if name in found.loaded else "fresh"
        table.add_row(plain(name), "frozen" if name in found.frozen else state)
    for name in found.unused:
        table.add_row(plain(name), "unused")
    errors.print(table)
    counts = ("loaded", "fresh", "frozen", "unused")
    said = ", ".join(f"{len(getattr(found, each))} {each}" for each in counts)
    errors.print(f"Starts from {plain(found.weights)}: {said}.")


def score(found: dict[str, Any]) -> None:
    """Print one score and what it was measured on."""
    which = "" if found["part"] == "all" else f"{found['part']} "
    what = "pairs" if "pairs" in found else found["unit"]
    count = found["pairs" if what == "pairs" else "nodes"]
    seen = f" {what.capitalize()} that it was trained on are among them." if found["seen"] else ""
    how = f" By {found['beams']} beams, {plain(found['signature'])}." if what == "pairs" else ""
    out.print(
        f"{plain(found['metric'])} {found['score']:.4f} on {count:,} {which}{what} of "
        f"{plain(found['data'])}.{how}{seen}",
        soft_wrap=True,
    )
    if found.get("baselines"):
        _baselines(found)


def _baselines(found: dict[str, Any]) -> None:
    """Print the metrics of forecasts, and below them those of what needs no model of the zoo."""
    own = {found["metric"]: found["score"], **found["beside"]}
    table = Table(box=None, pad_edge=False)
    table.add_column("forecast")
    for metric in own:
        table.add_column(plain(metric), justify="right")
    for name, measured in {"this model": own, **found["baselines"]}.items():
        table.add_row(plain(name), *(f"{measured[metric]:.4f}" for metric in own))
    out.print(table)


def comparison(found: list[dict[str, Any]]) -> None:
    """Print a row per run, the best score in bold, and what to know of the rows."""
    first = found[0]
    title = plain(f"{first['metric']} on {first['dataset']}")
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("recipe", no_wrap=True)
    for column in ("test", "runs", "parameters", "ms/epoch", "GiB"):
        table.add_column(column, justify="right", no_wrap=True)
    best = max(gain(each["metric"], each["test"]["mean"]) for each in found)
    for each in found:
        score = _spread(each["test"])
        table.add_row(
            plain(each["recipe"]),
            f"[bold]{score}[/]" if gain(each["metric"], each["test"]["mean"]) == best else score,
            str(each["test"]["runs"]),
            f"{each['parameters']:,}",
            _milliseconds(each),
            _gigabytes(each),
        )
    out.print(table)
    for remark_, names in _remarks(found):
        if names:
            out.print(f"{remark_}: {plain(', '.join(names))}.", soft_wrap=True)


def verdict(passed: bool, sentence: str, differs: Sequence[str] = ()) -> None:
    """Print PASS or FAIL, why, and where the recipe is not what its source says."""
    word = "[bold green]PASS[/]" if passed else "[bold red]FAIL[/]"
    out.print(f"{word} {plain(sentence)}")
    for each in differs:
        out.print(f"differs: {plain(each)}")


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
    out.print(table)
    if found.largest == 0:
        out.print("The data alone do not fit into the memory that is free here.")
    elif found.largest is not None:
        out.print(f"In the memory that is free here a step may see {found.largest:,} nodes.")


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
        table.add_row(plain(row.name), *cells, within + mark)
    out.print(table)


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
