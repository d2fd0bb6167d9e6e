"""Write the page of a run, or of several beside each other: what `zoo report` does."""

import functools
import json
import os
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from zoo.config.recipe import word
from zoo.config.scores import best_epoch, figure, spread, with_deviation
from zoo.config.yaml_lines import recipe_text
from zoo.data.files.objects import described
from zoo.data.load import load_data
from zoo.errors import ZooError
from zoo.reports import sections
from zoo.reports.answers import Answers, answers_of
from zoo.reports.figures import curves
from zoo.reports.history import History, read_history
from zoo.reports.html import GENERATOR, Part, Table, build_page
from zoo.reports.several_runs import comparison_page
from zoo.runs.run_folder import verdict
from zoo.system.environment import choose_device
from zoo.system.files import check_place, user_path, write_whole

NAME = "report.html"

_STATES = {
    "finished": [],
    "in training": ["It is still in training: this is as far as it is."],
    "interrupted": ["It was interrupted: this is as far as it came."],
    "ended early": ["It has ended before its end: this is as far as it came."],
}


def write_report(
    runs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | Path | None = None,
    *,
    device: str = "auto",
    layerwise: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Path:
    """Write a page about a run, or one that compares several: a file that needs nothing else.

    It has scores, training and validation curves, what the weights of each seed say of the test
    part, and the command that repeats it. What the recipes import is not run; what needs data
    or code that are not here is left out, and named. A run may still be in training.

    Args:
        runs: a run or its folder, or several.
        out: the file to write; left out, `report.html` in the folder of the run, or of several in
            the current one. A page of ours is replaced, and nothing else.
        device: `auto`, `cpu` or `cuda`.
        layerwise: as of `zoo.predict`, for graphs that do not fit into memory.
        tell: called with a sentence before each seed.

    Returns:
        The file.

    Raises:
        ZooError: there is no run, a file of it is damaged, or the page cannot be written there.
    """
    several = isinstance(runs, Iterable) and not isinstance(runs, str)
    names = list(runs) if several else [runs]
    if not names:
        raise ZooError("name the folder of a run, such as runs/sgformer-cora-20261121-120000.")
    for name in names:
        if not isinstance(name, str | os.PathLike):
            raise ZooError(f"a report is of a run, or its folder; this is {described(name)}.")
    folders = [user_path(os.fspath(name)) for name in names]
    alone = len(folders) == 1
    place = user_path(out) if out is not None else (folders[0] / NAME if alone else Path(NAME))
    histories = [read_history(folder) for folder in folders]
    check_replaceable(place)
    # The data of several runs are read once.
    read = functools.cache(lambda text: load_data(json.loads(text)))
    options = {"device": choose_device(device), "layerwise": layerwise, "tell": tell,
               "load": lambda spec: read(json.dumps(spec, sort_keys=True))}  # fmt: skip
    answers = [answers_of(run, **options) for run in histories]
    page = run_page(histories[0], answers[0]) if alone else comparison_page(histories, answers)
    write_whole(place, lambda draft: draft.write_text(page, encoding="utf-8"))
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


def run_page(run: History, answers: Answers) -> str:
    """Return the page of a run, with the predictions of its weights."""
    metric = run.metric or "score"
    of = f"{len(run.results)} of {len(run.recipe['seeds'])} seeds"
    training = curves({f"seed {curve.seed}": [curve] for curve in run.curves}, metric)
    calibration = sections.calibration({run.name: answers.seeds})
    embeddings = sections.embeddings(answers)
    heads = (calibration and ["Calibration"]) + (embeddings and ["Embeddings"])
    return build_page(
        run.name,
        f"{word(run.recipe['model'])} on {run.data}, {metric}, {of}",
        {
            "Scores": [("remarks", _STATES[run.state]), *_scores(run, answers, metric)],
            "Training": [
                ("remarks", run.remarks),
                ("figures", training),
                ("text", "" if training else "No epoch has been written down."),
            ],
            "Classes": sections.classes(answers),
            "Predictions": [("figures", sections.numbers(answers))],
            "Where in the graph": sections.neighbourhoods({run.name: answers.seeds}),
            " and ".join(heads).capitalize(): [("figures", calibration + embeddings)],
            "Left out": [("remarks", answers.left_out)],
            "Repeat it": _repeat(run),
        },
    )


def _scores(run: History, answers: Answers, metric: str) -> list[Part]:
    if not run.results:
        return [("text", "No seed has come to a score yet.")]
    facts = {
        f"test {metric}": with_deviation(spread([row["test"] for row in run.results])),
        "validation": with_deviation(spread([row["val"] for row in run.results])),
        "parameters": f"{run.results[0]['parameters']:,}",
    }
    if run.summary is not None:
        facts |= {
            "per epoch": f"{run.summary['seconds_per_epoch'] * 1000:,.0f} ms",
            "memory at most": f"{run.summary['peak_memory_bytes'] / 2**30:.2f} GiB",
            "device": run.summary["device"],
        }
    stops = {curve.seed: curve.stop for curve in run.curves}
    rows = [
        [str(row["seed"]), *(figure(row[part]) for part in ("train", "val", "test")),
         best_epoch(row["epoch"], row["parameters"]), row["epochs"],
         stops.get(row["seed"], "unknown")]
        for row in run.results
    ]  # fmt: skip
    columns = ["seed", "train", "validation", "test", "best epoch", "epochs", "stopped by"]
    table = Table(f"{metric} at the best epoch by validation, seed by seed", columns, rows)
    now = {seed.seed: seed.score for seed in answers.seeds
           if seed.score is not None and seed.task.metric_name == metric}  # fmt: skip
    unlike = [
        f"Seed {row['seed']}: the weights score {figure(now[row['seed']])} on the test part, and "
        f"{figure(row['test'])} when they were trained: data, batches of the evaluation or the "
        "machine are others."
        for row in run.results if abs(now.get(row["seed"], row["test"]) - row["test"]) > 5e-4
    ]  # fmt: skip
    return [("facts", facts), ("table", table), *_expected(run), ("remarks", unlike)]


def _expected(run: History) -> list[Part]:
    """Return how the run lies beside the number that its recipe should reach."""
    expect = run.recipe.get("expect")
    if expect is None or run.summary is None or run.state != "finished":
        return []
    passed, sentence = verdict({**run.summary, "expect": expect})
    differs = [("text", f"Differs from its source: {text}")
               for text in run.recipe.get("differs", [])]  # fmt: skip
    return [("remarks", [f"{'Pass' if passed else 'Fail'}: {sentence}"]), *differs]


def _repeat(run: History) -> list[Part]:
    """Return the commands that repeat a run, or go on with it, and where it was begun."""
    folder, begun = run.folder, run.environment
    processes = ["--processes", str(begun.processes)] if begun and begun.processes > 1 else []
    again = shlex.join(["zoo", "train", str(folder / "recipe.yaml"), *processes])
    parts = [("text", "The command that repeats it:"), ("code", again)]
    if run.state != "finished":
        resume = shlex.join(["zoo", "train", "--resume", str(folder), *processes])
        parts += [("text", "Go on with it:"), ("code", resume)]
    recipe = "The recipe, every value written out, files by their names"
    parts.append(("folded", (recipe, ("code", recipe_text(run.public_recipe())))))
    if begun is not None:
        packages = ([name, version or "missing"] for name, version in begun.packages.items())
        rows = [["device", begun.device], ["instructions of the CPU", begun.cpu],
                ["threads", str(begun.threads)], ["processes", str(begun.processes)],
                *packages]  # fmt: skip
        where = Table("Where it was begun", ["what", "value"], rows, words=2)
        parts.append(("folded", (where.caption, ("table", where))))
    return parts
