"""Write the page of a run, or of several beside each other: what `zoo report` does."""

import functools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from zoo.config.recipe import word
from zoo.config.scores import figure, spread
from zoo.datasets.load import load_data
from zoo.errors import ZooError
from zoo.experiments.run_folder import verdict
from zoo.reports import sections
from zoo.reports.answers import Found, answers_of
from zoo.reports.figures import seed_curves
from zoo.reports.history import History, read_history
from zoo.reports.page import GENERATOR, facts, figures, page, paragraph, table
from zoo.reports.several_runs import comparison_page
from zoo.system.environment import choose_device
from zoo.system.files import check_place, user_path, write_whole

NAME = "report.html"

_STATES = {
    "finished": "",
    "in training": "It is still in training: this is as far as it is.",
    "interrupted": "It was interrupted: this is as far as it came.",
    "ended early": "It has ended before its end: this is as far as it came.",
}


def write_report(
    runs: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    *,
    device: str = "auto",
    layerwise: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Path:
    """Write a page about a run, or one that compares several: a file that needs nothing else.

    It has scores, training and validation curves, what the weights of each seed say of the test
    part, and the command that repeats it. What the recipes import is not run; what cannot be told,
    because data or code are not here, is left out, and said. A run may still be in training.

    Args:
        runs: the folder of a run, or several.
        out: the file to write; left out, `report.html` in the folder of the run, or of several in
            the current one. A page of ours is replaced, and nothing else.
        device: `auto`, `cpu` or `cuda`.
        layerwise: as of `zoo.predict`, for graphs that do not fit into memory.
        tell: called with a sentence before each seed is asked.

    Returns:
        The file.

    Raises:
        ZooError: there is no run, a file of it is damaged, or the page cannot be written there.
    """
    given = [runs] if isinstance(runs, str | Path) else list(runs)
    if not given:
        raise ZooError("name the folder of a run, such as runs/sgformer-cora-20261121-120000.")
    folders = [user_path(each) for each in given]
    alone = len(folders) == 1
    place = user_path(out) if out is not None else (folders[0] / NAME if alone else Path(NAME))
    found = [read_history(each) for each in folders]
    check_replaceable(place)
    where, load = choose_device(device), _remembered()
    answers = [answers_of(each, load=load, device=where, layerwise=layerwise, tell=tell)
               for each in found]  # fmt: skip
    text = run_page(found[0], answers[0]) if alone else comparison_page(found, answers)
    write_whole(place, lambda draft: draft.write_text(text, encoding="utf-8"))
    return place


def check_replaceable(path: Path) -> None:
    """Refuse a place where no page can be written, or something else lies.

    Raises:
        ZooError: it is a link, a folder, or a file that is no page of ours.
    """
    if os.path.lexists(path):
        ours = False
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                ours = GENERATOR.encode() in file.read(1000)
        if not ours:
            raise ZooError(f"{path} is no report of ours, and is kept; write `--out` another file.")
    check_place(path)


def _remembered() -> Callable[[Any], Any]:
    """Return what reads data as `load_data`, each once."""
    known = functools.cache(lambda text: load_data(json.loads(text)))
    return lambda spec: known(json.dumps(spec, sort_keys=True))


def run_page(run: History, found: Found) -> str:
    """Return the page of a run, with what its weights answer."""
    metric = run.metric or "score"
    model, seeds = word(run.recipe["model"]), {each.seed: each for each in found.seeds}
    said = (
        f"{model} on {run.data}, {metric}, {len(run.results)} of {len(run.recipe['seeds'])} seeds"
    )
    neighbours = sections.neighbourhoods({run.name: found.seeds})
    unlike = [
        f"Seed {each['seed']}: the weights score {figure(seeds[each['seed']].score)} on the test "
        f"part here, and {figure(each['test'])} when they were trained: data, batches of the "
        "evaluation or the machine are others."
        for each in run.results
        if each["seed"] in seeds and seeds[each["seed"]].score is not None
        and abs(seeds[each["seed"]].score - each["test"]) > 5e-4
    ]  # fmt: skip
    more = {"Calibration": sections.calibration({run.name: found.seeds}),
            "Embeddings": sections.embeddings(found)}  # fmt: skip
    left_out = sections.remarks(found.left_out)
    shown = [
        ("scores", "Scores", _scores(run, metric) + sections.remarks(unlike)),
        ("training", "Training", _training(run, metric)),
        ("classes", "Classes", sections.classes(found)),
        ("predictions", "Predictions", figures(sections.numbers(found), "numbers")),
        ("neighbours", "Where in the graph", neighbours or _no_graph(found)),
        (
            "answers",
            " and ".join(title for title, each in more.items() if each).capitalize(),
            figures([one for each in more.values() for one in each], "answers"),
        ),
        ("left-out", "Left out", left_out),
        ("run", "Repeat it", sections.repeat(run)),
    ]
    return page(run.name, said, shown)


def _scores(run: History, metric: str) -> str:
    state = sections.remarks([_STATES[run.state]] if _STATES[run.state] else [])
    if not run.results:
        return state + paragraph("No seed has come to a score yet.")
    tiles = [(f"test {metric}", sections.spread(spread([each["test"] for each in run.results]))),
             ("validation", sections.spread(spread([each["val"] for each in run.results]))),
             ("parameters", f"{run.results[0]['parameters']:,}")]  # fmt: skip
    if run.summary is not None:
        tiles += [("per epoch", f"{run.summary['seconds_per_epoch'] * 1000:,.0f} ms"),
                  ("memory at most", f"{run.summary['peak_memory_bytes'] / 2**30:.2f} GiB"),
                  ("device", run.summary["device"])]  # fmt: skip
    stops = {each.seed: each.stop for each in run.curves}
    rows = [
        [str(each["seed"]), *(figure(each[part]) for part in ("train", "val", "test")),
         str(each["epoch"] + 1) if each["epoch"] >= 0 else "as loaded", f"{each['epochs']:,}",
         stops.get(each["seed"], "unknown")]
        for each in run.results
    ]  # fmt: skip
    columns = ["seed", "train", "validation", "test", "best epoch", "epochs", "stopped by"]
    caption = f"{metric} at the best epoch by validation, seed by seed"
    return state + facts(tiles) + table(caption, columns, rows) + _expected(run)


def _expected(run: History) -> str:
    """Return how the run lies beside the number that its recipe should reach."""
    expect = run.recipe.get("expect")
    if expect is None or run.summary is None or run.state != "finished":
        return ""
    passed, sentence = verdict({**run.summary, "expect": expect})
    said = paragraph(f"{'Pass' if passed else 'Fail'}: {sentence}", "remark")
    return said + "".join(paragraph(f"Differs from its source: {each}")
                          for each in run.recipe.get("differs", []))  # fmt: skip


def _training(run: History, metric: str) -> str:
    said = sections.remarks(run.remarks)
    if not run.curves:
        return said + paragraph("No epoch has been written down.")
    return said + figures(seed_curves(run.curves, metric), "curves")


def _no_graph(found: Found) -> str:
    """Say why nothing is drawn by degree, where answers are."""
    if not found.seeds:
        return ""
    unit = found.seeds[0].unit
    if unit != "nodes":
        return paragraph(
            f"Scores by degree and homophily are of nodes of one graph, not of {unit}."
        )
    return paragraph("The graph has no edges, so that there is no degree to score by.")
