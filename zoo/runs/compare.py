"""Train what is compared, or read its finished runs; pair the scores, and say what to know.

Each is trained by a process of its own: the peak of memory is then its own too, and what ends one
run leaves the others alone. A finished run is read, not repeated, and one that was ended goes on.
"""

import json
import os
import shlex
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from zoo.config.scores import beside, gain
from zoo.errors import ZooError
from zoo.runs.candidates import BUDGET, WAYS, Candidate
from zoo.runs.launch import NotFinished, begun, finished, resume_apart, train_apart
from zoo.runs.resolve import Plan

Row = dict[str, Any]
"""The summary of a run and what `compare` says of it."""


def compare(
    entries: Sequence[Candidate],
    *,
    device: str = "auto",
    runs: Path = Path("runs"),
    again: bool = False,
    quiet: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """Return the summary of every entry, the best test score first; train what is not finished.

    Each summary also says whether it was `read` from an earlier run, or `named` as one, is `tuned`,
    and has the `same_budget` and the `same_ways` as the first entry, and the `same_splits` as the
    best; its `budget` and `ways`; the means over seeds of the `epochs` run and of the `best_epoch`;
    the `changes` of a baseline of default options, and those that left it `unreached`; whether it
    is of the `same_code`, `starts_from` other weights, and how many nodes of validation and test
    these had `seen`; and the `difference` from the best, with its interval and whether that is
    `noise`: None for the best, and where seeds or splits are others.

    Args:
        entries: from `candidates`.
        device: `auto`, `cpu` or `cuda`.
        runs: where runs are looked for and written.
        again: train recipes anew whose runs are finished.
        quiet: nothing is told of the progress of a training.
        tell: called with a sentence before each run, and at the end with one about each baseline
            that was added and did not finish, without which the others are compared.

    Raises:
        ZooError: a run that was named did not finish; it goes on the next time, and those before it
            are read, unless `again` is asked for again.
    """
    rows: list[Row] = []
    missing: list[str] = []
    for number, entry in enumerate(entries, start=1):
        known = entry.summary or (None if again else finished(entry.plan, runs))
        if known is None:
            tell(f"{number} of {len(entries)}: {entry.plan.recipe.name}")
        try:
            summary = known or _trained(entry.plan, device, runs, again, quiet)
        except NotFinished as error:
            if entry.added:
                missing.append(f"{error} The others are compared without it. {_instead(entry)}")
                continue
            kept = None if again or all(each["named"] for each in rows) else runs
            raise ZooError(f"{error} {_advice(entries, kept)}") from None
        if os.path.realpath(summary["folder"]) in {
            os.path.realpath(each["folder"]) for each in rows
        }:
            tell(f"{summary['recipe']} is named twice and compared once.")
            continue
        rows.append({**_row(entry, summary), "read": known is not None})
    for each in missing:
        tell(each)
    if len(metrics := sorted({each["metric"] for each in rows})) > 1:
        raise ZooError(f"these are measured by {' and by '.join(metrics)}; compare those of one.")
    names = [each["recipe"] for each in rows]
    for each in rows:  # several runs of a recipe are called by their folders
        if names.count(each["recipe"]) > 1:
            each["recipe"] = Path(each["folder"]).name
    first = rows[0]
    rows.sort(key=lambda each: round(-gain(each["metric"], each["test"]["mean"]), 12))
    return [
        {
            **each,
            "same_budget": each["budget"] == first["budget"],
            "same_ways": each["ways"] == first["ways"],
            **beside(each, rows[0]),
        }
        for each in rows
    ]


def _trained(plan: Plan, device: str, runs: Path, again: bool, quiet: bool) -> dict[str, Any]:
    """Return the summary of a plan's training, which goes on where one of it was ended."""
    folder = None if again else begun(plan, runs)
    if folder is None:
        return train_apart(plan, device, runs, quiet=quiet)
    return {**resume_apart(folder, device, quiet=quiet), "recipe": plan.recipe.name}


def _instead(entry: Candidate) -> str:
    """Say what to name in the place of a baseline that was added and did not finish."""
    return f"Name a recipe or a run of {entry.plan.model['name']} in its place."


def _advice(entries: Sequence[Candidate], runs: Path | None) -> str:
    """Say what can be done where one did not finish, and what is kept in `runs`, if any."""
    several = sum(not each.added for each in entries) > 1
    advice = "Change it, or leave it out." if several else "Change it."
    kept = f" What was finished before is in {runs} and will be read, not repeated." if runs else ""
    return advice + kept


def _row(entry: Candidate, summary: dict[str, Any]) -> dict[str, Any]:
    """Return a summary with what the entry says of it, and the epochs that its seeds have run."""
    train = entry.plan.train
    budget = {key: train.get(key) for key in BUDGET}
    if (budget["patience"] or 0) >= budget["epochs"]:  # which never ends anything
        budget["patience"] = None
    return {
        **summary,
        "tuned": entry.tuned,
        "named": entry.summary is not None,
        "changes": list(entry.changes),
        "unreached": list(entry.unreached),
        "same_code": entry.same_code,
        "starts_from": entry.plan.start_from and entry.plan.start_from["weights"],
        "seen": _seen(Path(summary["folder"])),
        "budget": budget,
        "ways": {key: train.get(key) for key in WAYS},
        "epochs": statistics.fmean(each["epochs"] for each in summary["seeds"]),
        "best_epoch": statistics.fmean(each["epoch"] for each in summary["seeds"]),
    }


def _seen(folder: Path) -> int:
    """Return how many of the nodes of validation and test a run's first weights were trained on."""
    path = folder / "start_from.json"
    return json.loads(path.read_bytes()).get("seen") or 0 if path.exists() else 0


def differences(found: list[Row]) -> Iterator[str]:
    """Say what the differences are of, and what their intervals are over."""
    pairs = [each["difference"] for each in found if each["difference"]]
    if not (pair := min(pairs, key=lambda each: each["low"] is None, default=None)):
        return
    of = (
        f"Difference: test score minus that of {pair['from']}, the best, of the same seed and split"
    )
    if pair["low"] is None:
        yield (
            f"{of}. Of one run each, or of pairs that are all alike, no interval can be given, and "
            "nothing says what is noise: write more seeds, such as 'seeds=[0, 1, 2, 3, 4]'."
        )
        return
    yield (
        f"{of}; its mean over {pair['pairs']} such pairs, and the 95 % interval of that (Student's "
        "t). noise: the interval holds 0, so that either may be the better one."
    )
    if pair["splits"] == 1:
        yield (
            f"The interval is over {pair['pairs']} seeds on one split: over initial weights and "
            "what else the seeds draw, not over the choice of nodes."
        )
    else:
        yield (
            f"The interval is over {pair['pairs']} seeds with {pair['splits']} splits; splits of "
            "the same nodes are no independent draws, so that it is rather too narrow."
        )


def is_marked(row: Row) -> bool:
    """Return whether a row had another budget than the first, or was trained in another way."""
    return not (row["same_budget"] and row["same_ways"])


def marks(found: list[Row]) -> Iterator[str]:
    """Say which rows are marked, what differs, and what makes it the same."""
    yield from _marks(found, "budget", "Another budget")
    yield from _marks(found, "ways", "Trained or evaluated otherwise")


def _marks(found: list[Row], what: str, why: str) -> Iterator[str]:
    other = [each for each in found if not each[f"same_{what}"]]
    if not other:
        return
    common = next(each[what] for each in found if each[f"same_{what}"])
    apart = [{key: own for key, own in each[what].items() if own != common[key]} for each in other]
    names = [
        f"{each['recipe']} has {', '.join(_options(own))}"
        for each, own in zip(other, apart, strict=True)
    ]
    shared = {key: common[key] for key in common if any(key in own for own in apart)}
    changes = (shlex.quote("train." + each.replace(": ", "=", 1)) for each in _options(shared))
    kept = any(each["named"] for each in other)
    yield (
        f"* {why}: {'; '.join(names)}; the others have {', '.join(_options(shared))}. The "
        f"same for all: {' '.join(changes)}"
        f"{'; runs named by their folders keep theirs' if kept else ''}."
    )


def _options(given: dict[str, Any]) -> Iterator[str]:
    """Give each option as it stands in a recipe, on one line."""
    from zoo.config.yaml_lines import recipe_text

    for key, value in given.items():
        text = " ".join(recipe_text({key: value}).split())
        yield text[1:-1] if text.startswith("{") else text


def others(found: list[Row]) -> Iterator[str]:
    """Say what else to know of the rows, with their names."""
    best, rest = found[0]["recipe"], found[1:]
    without = "and so without a difference"
    unpaired = [each for each in rest if each["difference"] is None]
    remarks = {
        "Read from finished runs": [
            each for each in found if each["read"] and not each["interrupted"]
        ],
        "Trained by other code of the zoo": [each for each in found if not each["same_code"]],
        **_changed(found),
        f"On other splits than {best}, or fewer, {without}": [
            each for each in unpaired if not each["same_splits"]
        ],
        f"Of other seeds than {best}, {without}": [
            each for each in unpaired if each["same_splits"]
        ],
        "Began with trained weights, whose training is no part of the budget": [
            each for each in found if each["starts_from"]
        ],
        "Trained before on nodes of validation or test, so that scores may be too good": [
            each for each in found if each["seen"]
        ],
        "Interrupted, not all seeds to their end": [each for each in found if each["interrupted"]],
    }
    for remark, rows in remarks.items():
        if rows:
            yield f"{remark}: {', '.join(each['recipe'] for each in rows)}."


def _changed(found: list[Row]) -> dict[str, list[Row]]:
    """Return the remarks on what changes have reached, and what has its default options."""
    remarks: dict[str, list[Row]] = {}
    for each in found:
        if each["unreached"]:
            said = f"Finished before, and not reached by {' '.join(each['unreached'])}"
            remarks.setdefault(said, []).append(each)
        if not each["tuned"]:
            but = f" but for {' '.join(each['changes'])}" if each["changes"] else ""
            hint = " (--tuned takes shipped recipes)" if each["recipe"].endswith("-default") else ""
            said = f"Default options{but}, not tuned for this data set{hint}"
            remarks.setdefault(said, []).append(each)
    return remarks
