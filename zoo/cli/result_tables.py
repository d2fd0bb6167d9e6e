"""Tables of results: of a run, a comparison, an estimate, one score."""

import shlex
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from zoo.cli.console import classes, errors, out, plain, remark
from zoo.config.scores import figure, lower_is_better, signed


def result(summary: dict[str, Any]) -> None:
    """Print the scores of each seed, their mean, and what the run cost."""
    table = Table()
    for column in ("seed", "best epoch", "validation", "test"):
        table.add_column(column, justify="right")
    for row in summary["seeds"]:
        scores = (figure(row[part]) for part in ("val", "test"))
        best = str(row["epoch"] + 1) if row["epoch"] >= 0 else "as loaded"
        table.add_row(str(row["seed"]), best, *scores)
    if len(summary["seeds"]) > 1:
        table.add_section()
        table.add_row("mean", "", *(_spread(summary[part]) for part in ("val", "test")))
    title = f"{summary['recipe']}: {summary['metric']} on {summary['dataset']}"
    out.print(plain(title), table, sep="\n", soft_wrap=True)
    if summary.get("beside"):
        told = {name: _spread(each) for name, each in summary["beside"].items() if each}
        _beside(told, "Beside, on the test part: ")
    if summary["interrupted"]:
        from zoo.system.process_group import resume_command

        seed, words = summary["seeds"][-1]["seed"], resume_command(summary["folder"])
        said = f"[yellow]stopped early, in seed {seed}; go on with[/] {plain(words)}"
        out.print(said, soft_wrap=True)
    out.print(
        f"{summary['parameters']:,} parameters, {_milliseconds(summary)} ms per epoch, "
        f"{_gigabytes(summary)} GiB at most, on {summary['device']}\n"
        f"The run is in {plain(summary['folder'])}.\n"
        f"zoo report {plain(shlex.quote(summary['folder']))} draws it.",
        soft_wrap=True,
    )


def start(found) -> None:
    """Print what training begins with, weight by weight."""
    trained = [name for name in found.loaded if name not in found.frozen]
    unused = [name for name in found.unused if name not in found.fresh]
    states = dict.fromkeys(trained, "loaded") | dict.fromkeys(found.frozen, "frozen")
    states |= dict.fromkeys(found.fresh, "fresh") | dict.fromkeys(unused, "unused")
    table = Table("weight", "begins", box=None, pad_edge=False)
    for name, state in states.items():
        table.add_row(plain(name), state)
    errors.print(table)
    more = f"; {len(unused)} of the file unused" if unused else ""
    errors.print(
        f"Starts from {plain(found.weights)}: of {len(found.loaded) + len(found.fresh)} weights "
        f"{len(trained)} loaded, {len(found.frozen)} frozen, {len(found.fresh)} fresh{more}."
    )


def rate(rate: float, as_usual: bool) -> None:
    """Print the learning rate of a fine-tuning that was given none, and why it is that one."""
    why = (
        "lower ones, warm-up and frozen layers were no better by validation where GCN and "
        "SGFormer went from one Twitch graph to others (docs/transfer.md)"
        if as_usual
        else "no other was tried where layers are frozen or slower; train.lr=0.001 sets one"
    )
    remark(f"rate {rate:g}, that of the weights' own training: {why}")


def score(found: dict[str, Any]) -> None:
    """Print one score and what it was measured on."""
    which = "" if found["part"] == "all" else f"{found['part']} "
    what = "pairs" if "pairs" in found else found["unit"]
    count = found["pairs" if what == "pairs" else "nodes"]
    seen = f" {what.capitalize()} that it was trained on are among them." if found["seen"] else ""
    how = f" By {found['beams']} beams, {plain(found['signature'])}." if what == "pairs" else ""
    out.print(
        f"{plain(found['metric'])} {figure(found['score'])} on {count:,} {which}{what} of "
        f"{plain(found['data'])}.{how}{seen}",
        soft_wrap=True,
    )
    if found.get("baselines"):
        _baselines(found)
    elif found.get("beside"):
        _beside({name: figure(each) for name, each in found["beside"].items() if each is not None})
    if found.get("per_class"):
        classes(found["per_class"])


def _beside(scores: dict[str, str], where: str = "") -> None:
    """Print further metrics, in lines of as many as there is room for."""
    told = ", ".join(f"{name} {score}" for name, score in scores.items())
    out.print(plain(f"{where}{told}"))


def _baselines(found: dict[str, Any]) -> None:
    """Print the metrics of forecasts, and below them those of what needs no model of the zoo."""
    own = {found["metric"]: found["score"], **found["beside"]}
    table = Table(box=None, pad_edge=False)
    table.add_column("forecast")
    for metric in own:
        table.add_column(plain(metric), justify="right")
    for name, measured in {"this model": own, **found["baselines"]}.items():
        table.add_row(plain(name), *(figure(measured[metric]) for metric in own))
    out.print(table)


def comparison(found: list[dict[str, Any]]) -> None:
    """Print a row per run, the best score first and in bold, what it took, and what to know."""
    from zoo.runs.compare import difference_notes, is_marked, mark_notes, other_notes

    best = found[0]
    less = ", of which less is better" if lower_is_better(best["metric"]) else ""
    scores, took = _table(), _table()
    for column in ("test", "difference", "95 % interval"):
        scores.add_column(column, justify="right", no_wrap=True)
    scores.add_column("", no_wrap=True)
    for column in ("runs", "epochs", "best epoch", "parameters", "ms/epoch", "GiB"):
        took.add_column(column, justify="right", no_wrap=True)
    for each in found:
        name = plain(each["recipe"] + (" *" if is_marked(each) else ""))
        score = _spread(each["test"])
        scores.add_row(name, f"[bold]{score}[/]" if each is best else score, *_apart(each, best))
        took.add_row(
            name,
            str(each["test"]["runs"]),
            f"{each['epochs']:.0f}",
            "as loaded" if each["best_epoch"] == -1 else f"{each['best_epoch'] + 1:.0f}",
            f"{each['parameters']:,}",
            _milliseconds(each),
            _gigabytes(each),
        )
    out.print(plain(f"{best['metric']} on {best['dataset']}{less}"), soft_wrap=True)
    out.print(scores)
    for sentence in difference_notes(found):
        out.print(plain(sentence))
    out.print("\ntraining, in the mean of the runs")
    out.print(took)
    for sentence in (*mark_notes(found), *other_notes(found)):
        out.print(plain(sentence))


def verdict(
    passed: bool, sentence: str, differs: Sequence[str] = (), missed: str | None = None
) -> None:
    """Print PASS or FAIL, why, and where the recipe is not what its source says."""
    word = "[bold green]PASS[/]" if passed else "[bold red]FAIL[/]"
    out.print(f"{word} {plain(sentence)}")
    if missed:
        out.print(f"missed before: {plain(missed)}")
    for each in differs:
        out.print(f"differs: {plain(each)}")


def reproduction(row: dict[str, Any]) -> None:
    """Print a line of a recipe that was trained, or why it was not, and where it differs."""
    said = {"too long": f"takes {row.get('hours', 0):.1f} hours", "no data": "its data is not here"}
    if "test" in row:
        spread = f" ± {figure(row['std'])}" if row["std"] is not None else ""
        wanted = f", expected {figure(row['expected'])}" if row["expected"] is not None else ""
        told = f"{figure(row['test'])}{spread}{wanted}, {row['seconds']:,} s"
    else:
        told = said.get(row["state"]) or row["sentence"]
    color = {"PASS": "green", "FAIL": "red", "error": "red"}.get(row["state"], "yellow")
    out.print(f"[{color}]{row['state']:<8}[/] {plain(row['recipe'])}: {plain(told)}")
    for each in row.get("differs", ()):
        out.print(f"{'':9}differs: {plain(each)}")


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
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify)
    for name, what in (counts | sizes).items():
        value = getattr(found, name)
        size = f"{value:,}" if name in counts else f"{value / 2**20:,.0f} MiB"
        table.add_row(name.replace("_", " "), size, what)
    out.print(table)
    if found.largest == 0:
        out.print("The data alone do not fit into the memory that is free here.")
    elif found.largest is not None:
        out.print(f"In the memory that is free here a step may see {found.largest:,} nodes.")


def _table() -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("recipe", overflow="fold")
    return table


def _apart(row: dict[str, Any], best: dict[str, Any]) -> tuple[str, str, str]:
    """Return the difference of a row from the best, its interval, and `noise` where it is that."""
    found = row["difference"]
    if found is None:
        return ("best" if row is best else "", "", "")
    if found["low"] is None:
        return signed(found["mean"]), "", "one run" if found["pairs"] == 1 else "all alike"
    interval = f"{signed(found['low'])} to {signed(found['high'])}"
    return signed(found["mean"]), interval, "noise" if found["noise"] else ""


def _spread(score: dict[str, float | None]) -> str:
    if score["std"] is None:
        return figure(score["mean"])
    return f"{figure(score['mean'])} ± {figure(score['std'])}"


def _milliseconds(summary: dict[str, Any]) -> str:
    return f"{summary['seconds_per_epoch'] * 1000:.0f}"


def _gigabytes(summary: dict[str, Any]) -> str:
    return f"{summary['peak_memory_bytes'] / 2**30:.2f}"
