"""Recipes and finished runs, side by side on each graph, and the baselines beside them.

A comparison is fair where all have the same budget: added baselines train as long as the first
recipe. Each is trained by a process of its own: the peak of memory is then its own too, and what
ends one run leaves the others alone. A finished run is read, not repeated, and one that was ended
goes on. What the recipe of a named run imports is not run.
"""

import dataclasses
import functools
import json
import os
import re
import shlex
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from zoo.config.metadata import stem_of
from zoo.config.options import Spec, options_of
from zoo.config.recipe import Recipe, recipe_text, word
from zoo.config.scores import compare_to_best, differing_target, gain
from zoo.config.shipped import recipe_names
from zoo.data.load import DATASETS, is_table, load_data
from zoo.data.splits import split_of
from zoo.errors import ZooError, brief
from zoo.registry import MODELS, Model
from zoo.runs.earlier_runs import (
    NotFinished,
    find_finished,
    find_unfinished,
    is_of_this_code,
    resume_apart,
    train_apart,
    trained_options,
)
from zoo.runs.prepare import hash_data_files
from zoo.runs.resolve import UNTUNED, Plan, is_model, load_recipe, resolve, with_split
from zoo.runs.results_table import (
    flat,
    graph_names,
    groups,
    holm_note,
    measured,
    model_names,
)
from zoo.runs.run_folder import (
    is_cut_short,
    is_summarised,
    read_environment,
    read_json,
    read_recipe,
    read_summary,
)
from zoo.weights.create import list_models

BASELINES = ("gcn", "mlp")
"""The models that stand in every comparison of models for graphs."""

OF_TABLES = ("boosting",)
"""The models that stand besides in every comparison on a table of one's own."""

OF_FEW_LABELS = ("ridge", "label-propagation", "graphany")
"""The models that stand besides in every comparison where few nodes have labels to learn from."""

FEW = 20
"""Labels of each class that are few: as many as Cora's benchmark has."""

SMALL_SHARE = 10
"""Percentage of the labels that is a small share of them."""

BUDGET = ("epochs", "patience", "batching")
"""Options of the training that say how many steps a model may take."""

WAYS = ("evaluate_every", "evaluate_from", "evaluate", "inductive")
"""Options of the training that say which epoch is chosen, and what a model may see before."""

OF_DATA = ("dataset", "seeds", "graph", "task", "readout")
"""What else a model with default options takes over: the question, and not the model."""

SHARED = (*BUDGET, *WAYS, "precision")
"""What an added baseline takes over from the training of the first recipe: all but its tuning."""

Row = dict[str, Any]
"""The summary of a run and what `compare` says of it."""


class Candidate(NamedTuple):
    """A plan to compare.

    Attributes:
        plan: what is trained.
        summary: of its run, where that was named.
        tuned: whether its options are chosen for the data; those of a baseline may be the defaults.
        added: whether it is a baseline that nobody named.
        changes: the overrides of a baseline of default options.
        unreached: the overrides of others, which a run that was named had not.
        same_code: whether the run that was named is by this code of the zoo's models.
        graph: what its data set is called among those that are compared.
    """

    plan: Plan
    summary: dict[str, Any] | None = None
    tuned: bool = True
    added: bool = False
    changes: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    same_code: bool = True
    graph: str = ""


def candidates(
    sources: Sequence[str],
    overrides: Sequence[str] = (),
    datasets: Sequence[str] = (),
    attentions: Sequence[str] = (),
    tuned: bool = False,
    baselines: bool = True,
    tell: Callable[[str], None] = lambda text: None,
) -> list[Candidate]:
    """Return what is compared: recipes, finished runs, and the baselines among or after them.

    They are compared on each data set by itself, one after the other. A baseline that is added has
    its default options and the budget, seeds and splits of the first on that data set.

    Args:
        sources: names or files of recipes, or folders of finished runs; or models, which are
            trained as baselines are, on the data of the finished runs beside them.
        overrides: `KEY=VALUE` changes of every recipe that is not a finished run, and of the added
            baselines; those of an option of the model reach a baseline that has this option.
        datasets: also every recipe called MODEL-DATASET; where there is none, every model with its
            default options.
        attentions: each recipe whose model attends is compared with each of these: a word, or
            `{name: rba, size: 512}`. Without any, recipes stay as they are.
        tuned: add baselines as their shipped recipes are, with their own features and budget.
        baselines: add those of `BASELINES` that are missing.
        tell: called with a sentence about each model that is trained on the data of a run.

    Raises:
        ZooError: nothing to compare, a recipe or run that cannot be read, or finished runs alone
            that are to be changed.
    """
    entries = _read_all(sources, overrides, tell)
    for dataset in datasets:
        known = [entry.plan.recipe.name for entry in entries]
        others = _all_of(dataset, overrides)
        entries += [entry for entry in others if entry.plan.recipe.name not in known]
    if not entries:
        raise ZooError(
            "nothing to compare: write names of recipes (`zoo list recipes`), folders of finished "
            "runs, or `--dataset cora` for every model with a recipe for it."
        )
    _check_changes(entries, overrides, attentions)
    compared = []
    for group in _by_graph(_with_splits(entries)):
        missing = _missing(group) if baselines else []
        first = _first_plan(group)
        words = [*dict.fromkeys(attentions)]
        varied = [each for entry in group for each in _with_attentions(entry, words)]
        added = [_baseline(model, first, overrides, tuned) for model in missing]
        varied += [entry._replace(added=True) for entry in added]
        varied = [entry._replace(graph=group[0].graph) for entry in varied]
        files: dict[str, tuple[str, str]] = {}
        for entry in varied:
            _check_same_files(entry, files)
        compared += varied
    return compared


def finished_runs(
    runs: Path,
    tell: Callable[[str], None] = lambda text: None,
    *,
    models: Sequence[str] = (),
    datasets: Sequence[str] = (),
) -> list[Candidate]:
    """Return the finished runs in a folder, to be compared: the latest of each training.

    Args:
        runs: a folder of runs.
        tell: called with a sentence about each run that is left out: one that cannot be read, and
            one whose data have changed before a later run.
        models: names of models; those of others are left out. Without any, all are taken.
        datasets: names of data sets, likewise.

    Raises:
        ZooError: there is no finished run, or none of these.
    """
    found = sorted(runs.glob("*/summary.json"), key=os.path.getmtime, reverse=True)
    entries: dict[str, Candidate] = {}
    for folder in (path.parent for path in found):
        try:
            if is_summarised(folder):
                entry = _read(str(folder), ())
                key = json.dumps([*flat(trained_options(entry.plan))])
                entries.setdefault(key, entry)
        except ZooError as error:
            tell(f"{folder} is left out: {error}")
    chosen = [entry for entry in entries.values() if _is_of(entry.plan, models, datasets)]
    if entries and not chosen:
        named = " on ".join(" or ".join(names) for names in (models, datasets) if names)
        there = sorted({" on ".join(_model_and_data(entry.plan)) for entry in entries.values()})
        raise ZooError(
            f"there is no finished run of {named} in {runs}, but of {brief(', '.join(there), 300)}."
        )
    kept = []
    for group in sorted(_by_graph(chosen), key=lambda group: group[0].graph):
        files: dict[str, tuple[str, str]] = {}
        for entry in group:
            try:
                _check_same_files(entry, files)
                kept.append(entry)
            except ZooError as error:
                tell(f"{entry.summary['folder']} is left out: {error}")
    if not kept:
        raise ZooError(f"there is no finished run in {runs}; name a folder of runs.")
    return kept


def _model_and_data(plan: Plan) -> tuple[str, str]:
    return word(plan.model), stem_of(plan.dataset["name"])


def _is_of(plan: Plan, models: Sequence[str], datasets: Sequence[str]) -> bool:
    model, data = _model_and_data(plan)
    return (not models or model in models) and (not datasets or data in map(stem_of, datasets))


def _by_graph(entries: Sequence[Candidate]) -> list[list[Candidate]]:
    """Return entries with what their graph is called, those of one question to one together."""
    found = groups(entries, _of_one_question)
    firsts = [first for first, *_ in found]
    metrics = [first.summary and first.summary["metric"] for first in firsts]
    names = graph_names([first.plan.plain() for first in firsts], metrics)
    return [[entry._replace(graph=name) for entry in group]
            for name, group in zip(names, found, strict=True)]  # fmt: skip


def _of_one_question(entry: Candidate, other: Candidate) -> bool:
    """Return whether two predict the same of the same data, and are measured alike."""
    metrics = {each.summary["metric"] for each in (entry, other) if each.summary}
    return (
        differing_target(entry.plan.dataset, other.plan.dataset) is None
        and measured(entry.plan.task) == measured(other.plan.task)
        and len(metrics) < 2
    )


def _first_plan(entries: Sequence[Candidate]) -> Plan:
    """Return the plan that baselines take their data, budget, seeds and splits of."""
    first = entries[0].plan
    # A recipe without edges says nothing of those that a baseline is to learn from.
    wired = next((e.plan for e in entries if e.plan.graph["name"] != "none"), first)
    return dataclasses.replace(first, graph=wired.graph)


def _missing(entries: Sequence[Candidate]) -> list[str]:
    """Return the baselines of the entries' task that are not among them."""
    first = _first_plan(entries)
    present = {entry.plan.model["name"] for entry in entries}
    tasks = MODELS.get(first.model["name"], Model).tasks  # of a run, one may be unknown here
    missing = [model for model in BASELINES if {*MODELS[model].tasks} & {*tasks}]
    if first.task is None and is_table(first.dataset):
        missing += [model for model in OF_TABLES if {*MODELS[model].tasks} & {*tasks}]
    if any(entry.summary is None for entry in entries):
        missing += _of_few_labels(first)
    return [model for model in missing if model not in present]


def _of_few_labels(plan: Plan) -> list[str]:
    """Return the baselines of few labels, if nodes are to be learnt of few by the split's word."""
    tasks = {*MODELS[plan.model["name"]].tasks} if plan.task is None else {}
    usual = [model for model in OF_FEW_LABELS if {*MODELS[model].tasks} & {*tasks}]
    split, options = word(plan.split), plan.split if isinstance(plan.split, dict) else {}
    of_word = re.match(r"(per-class|ratio|stratified)(?:-(\d+))?", split)
    if of_word:
        usual_train = of_word[2] or {"per-class": FEW}.get(of_word[1], 60)
        most = FEW if of_word[1] == "per-class" else min(SMALL_SHARE, FEW)
        return usual if int(options.get("train", usual_train)) <= most else []
    if split != "benchmark" or plan.dataset["name"] not in DATASETS:
        return []
    data = load_data(plan.dataset)
    if "full" not in data.batching or data.task not in MODELS[OF_FEW_LABELS[0]].tasks:
        return []
    few = FEW * max(2, data.classes)
    return usual if len(split_of(data, plan.split, 0).train) <= few else []


def candidate(recipe: Recipe, *, name: str | None = None, **options: Any) -> Candidate:
    """Return the candidate of a recipe that may be trained, under another name if one is given."""
    renamed = recipe if name is None else recipe.model_copy(update={"name": name})
    return Candidate(resolve(renamed, trust=True), **options)


def _read_all(
    sources: Sequence[str], overrides: Sequence[str], tell: Callable[[str], None]
) -> list[Candidate]:
    """Read sources; models beside finished runs are taken on the data of these, one for each."""
    named = any(text.startswith(("dataset=", "dataset.name=")) for text in overrides)
    finished = {source: _read(source, overrides) for source in sources if _is_run(source)}
    firsts = [] if named else [first for first, *_ in _by_graph([*finished.values()])]
    entries = []
    for source in sources:
        if source in finished or not firsts or not is_model(source):
            entries.append(finished.get(source) or _read(source, overrides))
            continue
        for run in firsts:
            entries.append(_with_defaults(source, run.plan, overrides))
            tell(
                f"{source} is trained on the data of {run.summary['folder']}, with its splits, "
                "seeds and epochs where no others are written."
            )
    return entries


def _is_run(source: str) -> bool:
    return os.path.isfile(Path(source) / "summary.json")


def _read(source: str, overrides: Sequence[str]) -> Candidate:
    folder = Path(source)
    if not _is_run(source):
        recipe = load_recipe(source, overrides, trust=True)
        if source in recipe_names() or source not in MODELS:
            return candidate(recipe)
        changes = tuple(change for change in overrides if _reaches(source, change))
        return candidate(recipe, tuned=False, changes=changes)
    recipe = load_recipe(read_recipe(folder)[0])
    summary = {**read_summary(folder), "folder": str(folder)}  # it may have been moved
    same = is_of_this_code(read_environment(folder))
    plan = resolve(recipe)
    tuned = not _has_defaults(plan)
    return Candidate(plan, summary, tuned, unreached=tuple(overrides), same_code=same)


def _check_changes(
    entries: Sequence[Candidate], overrides: Sequence[str], attentions: Sequence[str]
) -> None:
    """Refuse changes where there are finished runs alone, which stay as they are."""
    recipes = [entry for entry in entries if entry.summary is None]
    if overrides and not recipes:
        raise ZooError(
            f"finished runs are as they are; leave {overrides[0]} out, or name a recipe."
        )
    if attentions and not any("attention" in entry.plan.model for entry in recipes):
        why = "none of these models has an attention to choose"
        why = why if recipes else "finished runs keep their attention"
        raise ZooError(f"{why}; leave --attention out, or name a recipe of one that has.")


def _check_same_files(entry: Candidate, known: dict[str, tuple[str, str]]) -> None:
    """Refuse one's own data that have changed between one run and another, or since a run.

    Args:
        entry: one of those that are compared on a graph.
        known: who before it has read which file, and its SHA-256; its own are added.
    """
    name, recorded = entry.plan.recipe.name, None
    if entry.summary is not None:
        name = entry.summary["folder"]
        recorded = read_environment(Path(name))
    for path, sha256 in hash_data_files(entry.plan, recorded and recorded.files).items():
        other, first = known.setdefault(path, (name, sha256))
        if sha256 != first:
            raise ZooError(
                f"{path} of {other} is not that of {name}: it has changed in between, and "
                "their scores are of different data. Put the former file back, or train anew "
                "what is of it."
            )


def _all_of(dataset: str, overrides: Sequence[str]) -> list[Candidate]:
    names = [f"{model}-{dataset}" for model in list_models()]
    shipped = [name for name in names if name in recipe_names()]
    if shipped:
        return [candidate(load_recipe(name, overrides)) for name in shipped]
    return [
        _untuned(model, {"dataset": dataset}, UNTUNED, overrides)
        for model in list_models(task="node-classification")
    ]


def _with_splits(entries: Sequence[Candidate]) -> list[Candidate]:
    """Name the split of every plan; what has to be read for that is read once."""
    known: dict[str, Spec] = {}
    named = []
    for entry in entries:
        dataset = json.dumps([entry.plan.dataset, entry.plan.task is None])
        split = entry.plan.split or known.get(dataset) or with_split(entry.plan).split
        if entry.plan.split is None:
            known[dataset] = split
        named.append(entry._replace(plan=dataclasses.replace(entry.plan, split=split)))
    return named


def _with_attentions(entry: Candidate, attentions: Sequence[str]) -> list[Candidate]:
    """Return an entry once with each attention, as it is where it has no choice or has been run."""
    plan = entry.plan
    if entry.summary is not None or "attention" not in plan.model or not attentions:
        return [entry]
    changes = ([f"model.attention={attention}"] for attention in attentions)
    recipes = [load_recipe(plan.plain(), change, trust=True) for change in changes]
    of = functools.partial(candidate, tuned=entry.tuned)
    return [of(r, name=f"{plan.recipe.name}-{_label(r.model['attention'])}") for r in recipes]


def _baseline(model: str, first: Plan, overrides: Sequence[str], tuned: bool) -> Candidate:
    """Return a baseline on the data, the seeds and the splits of the first plan."""
    name = f"{model}-{stem_of(first.dataset['name'])}"
    data = first.plain()
    changes = [change for change in overrides if _reaches(model, change)]
    shared = {"dataset": data["dataset"], "seeds": data["seeds"]}
    if tuned and first.task is None and name in recipe_names():
        own = resolve(load_recipe(name, changes)).plain()
        if "features" in own["dataset"] and not any(map(_changes_features, overrides)):
            features = own["dataset"]["features"]
            shared["dataset"] = {**shared["dataset"], "features": features}
        return candidate(load_recipe({**own, **shared}), name=name)
    return _with_defaults(model, first, changes)


def _with_defaults(model: str, first: Plan, overrides: Sequence[str]) -> Candidate:
    """Return a model with default options on the data, seeds, splits and budget of a plan."""
    data = first.plain()
    shared = {key: data[key] for key in OF_DATA if key in data}
    if word(shared.get("readout") or "") == "max":  # which the dropout of a baseline would ruin
        shared.pop("readout")
    shared |= {"imports": first.imports} if first.code else {}
    train = {key: first.train[key] for key in SHARED if key in first.train}
    try:
        return _untuned(model, shared, {**UNTUNED, **train}, overrides)
    except ZooError:
        if first.code is not None:
            raise
        raise ZooError(
            f"{first.recipe.path} imports code, {', '.join(first.imports)}, which is not run "
            f"to read a run, and {model} is to be trained on the same data. Name a recipe of "
            "your own that imports it before the run."
        ) from None


def _has_defaults(plan: Plan) -> bool:
    """Return whether options of a plan are the defaults: all but those of its task and budget."""
    data = plan.plain()
    shared = {key: data[key] for key in OF_DATA if key in data}
    train = {key: plan.train[key] for key in (*SHARED, "loss", "metric") if key in plan.train}
    try:
        plans = [_untuned(plan.model["name"], shared, {**usual, **train}, ()).plan
                 for usual in (UNTUNED, {})]  # fmt: skip
    except ZooError:  # of code that is not run to read it
        return False
    return any((plan.model, plan.train, plan.encoding) == (each.model, each.train, each.encoding)
               for each in plans)  # fmt: skip


def _changes_features(override: str) -> bool:
    key, _, value = override.partition("=")
    return key.strip().startswith("dataset.features") or (
        key.strip() == "dataset" and "features" in value
    )


def _reaches(model: str, override: str) -> bool:
    """Return whether an override is one of a baseline: the data and the seeds are the first's."""
    key = override.partition("=")[0].strip()
    if key.startswith("model."):
        return key.split(".")[1].strip() in options_of(MODELS[model])
    return key.split(".")[0].strip() in ("train", "encoding", "graph")


def _untuned(
    model: str, data: dict[str, Any], train: dict[str, Any], overrides: Sequence[str]
) -> Candidate:
    """Return a model with its default options, under a name that no shipped recipe has."""
    recipe = load_recipe({**data, "model": model, "train": train}, overrides, trust=True)
    name = f"{model}-{stem_of(word(recipe.dataset))}"
    name = f"{name}-default" if name in recipe_names() else name
    return candidate(recipe, name=name, tuned=False, changes=tuple(overrides))


def _label(spec: Spec) -> str:
    """Return `rba-512` for `{name: rba, size: 512}`: what a name can hold."""
    if isinstance(spec, str):
        return spec
    return "-".join(_label(x) if isinstance(x, dict) else str(x) for x in spec.values())


def compare(
    entries: Sequence[Candidate],
    *,
    device: str = "auto",
    runs: Path = Path("runs"),
    again: bool = False,
    quiet: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> list[Row]:
    """Return the summary of every entry, graph by graph, the best test score of each first.

    What is not finished is trained. Each summary also says its `graph` and `model`, what a column
    and a row of a table are called, whether it was `read` from an earlier run, or `named` as one,
    is `tuned`, by how many `trials` where `zoo tune` did it, and has the `same_budget` and the
    `same_ways` as most of its graph, or as the first where as many have others; its `budget` and
    `ways`; the `loss`, the `split_options` and the `label` of its task; the means over seeds of the
    `epochs` run, of the `seconds` of training and of the `best_epoch`, and whether training was
    `cut_short`; the `changes` of a baseline of default options, and those that left it `unreached`;
    whether it is of the `same_code`, `starts_from` other weights, and how many nodes of validation
    and test these had `seen`, None where nothing says it; the `unreached_phase` of `Fit`; and what
    `compare_to_best` gives: the `best`, `same_splits`, and the `difference` from the best.

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
    plans: list[Plan] = []
    missing: list[str] = []
    for number, entry in enumerate(entries, start=1):
        known = entry.summary or (None if again else find_finished(entry.plan, runs))
        if known is None:
            tell(f"{number} of {len(entries)}: {entry.plan.recipe.name}")
        try:
            summary = known or _trained(entry.plan, device, runs, again, quiet)
        except NotFinished as error:
            if entry.added:
                missing.append(
                    f"{error} The others are compared without it. Name a recipe or a run of "
                    f"{entry.plan.model['name']} in its place."
                )
                continue
            several = sum(not other.added for other in entries) > 1
            advice = "Change it, or leave it out." if several else "Change it."
            if not again and not all(row["named"] for row in rows):
                advice += f" What was finished before is in {runs} and will be read, not repeated."
            raise ZooError(f"{error} {advice}") from None
        folders = [os.path.realpath(row["folder"]) for row in rows]
        if os.path.realpath(summary["folder"]) in folders:
            tell(f"{summary['recipe']} is named twice and compared once.")
            continue
        rows.append({**_row(entry, summary), "read": known is not None})
        plans.append(entry.plan)
    for sentence in missing:
        tell(sentence)
    graphs = [row["graph"] for row in rows]
    runs_of = [Path(row["folder"]).name for row in rows]
    for row, model in zip(
        rows, model_names([plan.plain() for plan in plans], graphs, runs_of), strict=True
    ):
        row["model"] = model
    return [each for graph in dict.fromkeys(graphs)
            for each in _side_by_side([row for row in rows if row["graph"] == graph])]  # fmt: skip


def _side_by_side(rows: list[Row]) -> list[Row]:
    """Return rows, the best first, with how each lies beside the first and the best."""
    if len(metrics := sorted({row["metric"] for row in rows})) > 1:
        raise ZooError(f"these are measured by {' and by '.join(metrics)}; compare those of one.")
    names = [row["recipe"] for row in rows]
    for row in rows:  # several runs of a recipe are called by their folders
        if names.count(row["recipe"]) > 1:
            row["recipe"] = Path(row["folder"]).name
    budget, ways = (_most_common([row[key] for row in rows]) for key in ("budget", "ways"))
    rows.sort(key=lambda row: round(-gain(row["metric"], row["test"]["mean"]), 12))
    return [
        {
            **row,
            "same_budget": row["budget"] == budget,
            "same_ways": row["ways"] == ways,
            **compared,
        }
        for row, compared in zip(rows, compare_to_best(rows), strict=True)
    ]


def _most_common(values: Sequence[Any]) -> Any:
    """Return the value that most are, the first of those that are as many."""
    return max(values, key=values.count)


def _trained(plan: Plan, device: str, runs: Path, again: bool, quiet: bool) -> dict[str, Any]:
    """Return the summary of a plan's training, which goes on where one of it was ended."""
    folder = None if again else find_unfinished(plan, runs)
    if folder is None:
        return train_apart(plan, device, runs, quiet=quiet)
    return {**resume_apart(folder, device, quiet=quiet), "recipe": plan.recipe.name}


def _row(entry: Candidate, summary: dict[str, Any]) -> Row:
    """Return a summary with what the entry says of it, and the epochs that its seeds have run."""
    train, seeds, folder = entry.plan.train, summary["seeds"], Path(summary["folder"])
    budget = {key: train.get(key) for key in BUDGET}
    if (budget["patience"] or 0) >= budget["epochs"]:  # which never ends anything
        budget["patience"] = None
    start = folder / "start_from.json"
    seconds = [seed["epochs"] * seed["seconds_per_epoch"] for seed in seeds
               if "seconds_per_epoch" in seed]  # fmt: skip
    return {
        **summary,
        "graph": entry.graph,
        "tuned": entry.tuned,
        "trials": _trials(folder),
        "named": entry.summary is not None,
        "changes": list(entry.changes),
        "unreached": list(entry.unreached),
        "same_code": entry.same_code,
        "starts_from": entry.plan.start_from and entry.plan.start_from["weights"],
        "seen": read_json(start).get("seen", 0) if start.exists() else 0,
        "budget": budget,
        "ways": {key: train.get(key) for key in WAYS},
        "loss": _on_one_line(train.get("loss")),
        "split_options": _on_one_line(entry.plan.split),
        "label": entry.plan.dataset.get("label"),
        "epochs": statistics.fmean(seed["epochs"] for seed in seeds),
        "seconds": statistics.fmean(seconds) if seconds else None,
        "best_epoch": statistics.fmean(seed["epoch"] for seed in seeds),
        "cut_short": is_cut_short(summary, train["epochs"]),
        # Runs of before do not say it.
        "unreached_phase": max(seed.get("unreached_phase") or 0 for seed in seeds) or None,
    }


def _trials(folder: Path) -> int | None:
    """Return by how many trials of `zoo tune` the recipe of a run was found, None of any other."""
    table = folder.parent / "trials-table.csv"
    return len(pd.read_csv(table)) if table.is_file() else None


def difference_notes(rows: list[Row]) -> Iterator[str]:
    """Say what the differences are of, and what their intervals are over."""
    pairs = [row["difference"] for row in rows if row["difference"]]
    if not (pair := min(pairs, key=lambda pair: pair["low"] is None, default=None)):
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
    tested = {row["recipe"]: row["difference"] for row in rows
              if row["difference"] and row["difference"]["low"] is not None}  # fmt: skip
    yield from holm_note(tested)
    if pair["splits"] == 1:
        yield (
            f"The interval is over {pair['pairs']} seeds on one split: over initial weights and "
            "what else the seeds draw, not over the choice of rows."
        )
    else:
        yield (
            f"The interval is over {pair['pairs']} seeds with {pair['splits']} splits; splits of "
            "the same data are no independent draws, so that it is rather too narrow."
        )


def is_marked(row: Row) -> bool:
    """Return whether a row had another budget than most, or was trained in another way."""
    return not (row["same_budget"] and row["same_ways"])


def mark_notes(rows: list[Row], name: str = "recipe") -> Iterator[str]:
    """Say which rows are marked, what differs, and what makes it the same.

    Args:
        rows: of one graph.
        name: what of a row it is called by.
    """
    for what, why in {
        "budget": "Another budget",
        "ways": "Trained or evaluated otherwise",
    }.items():
        marked = [row for row in rows if not row[f"same_{what}"]]
        if not marked:
            continue
        common = next(row[what] for row in rows if row[f"same_{what}"])
        own = [{k: v for k, v in row[what].items() if v != common[k]} for row in marked]
        shared = {key: common[key] for key in common if any(key in values for values in own)}
        options = "; ".join(
            f"{row[name]} has {', '.join(_as_written(values))}"
            for row, values in zip(marked, own, strict=True)
        )
        changes = [
            shlex.quote("train." + text.replace(": ", "=", 1)) for text in _as_written(shared)
        ]
        folders = "; runs named by their folders keep theirs" * any(row["named"] for row in marked)
        how = f" The same for all: {' '.join(changes)}{folders}."
        how = "" if all(row["named"] for row in rows) else how  # nothing is trained
        yield f"* {why}: {options}; the others have {', '.join(_as_written(shared))}.{how}"


def _as_written(options: dict[str, Any]) -> list[str]:
    """Return each option as it stands in a recipe, on one line."""
    texts = [" ".join(recipe_text({key: value}).split()) for key, value in options.items()]
    return [text[1:-1] if text.startswith("{") else text for text in texts]


def _on_one_line(value: Any) -> str | None:
    """Return a word or options as a recipe has them, None for None."""
    return None if value is None else _as_written({"x": value})[0].removeprefix("x: ")


def other_notes(rows: list[Row], name: str = "recipe") -> Iterator[str]:
    """Say what else to know of the rows of one graph, which are called by their `name`."""
    between = "; " if name == "model" else ", "  # names of models have commas
    best = next(row for row in rows if row["best"])
    without = "and so without a difference"
    unpaired = [row for row in rows if row is not best and row["difference"] is None]
    remarks = {
        f"Above {best[name]}, and not the best, being of fewer runs or other seeds and splits than "
        "most": rows[: rows.index(best)],
        "Read from finished runs": [r for r in rows if r["read"] and not r["interrupted"]],
        "Trained by other code of the zoo": [r for r in rows if not r["same_code"]],
    }
    for row in rows:
        if row["unreached"]:
            remark = f"Finished before, and not reached by {' '.join(row['unreached'])}"
            remarks.setdefault(remark, []).append(row)
        if not row["tuned"]:
            but = f" but for {' '.join(row['changes'])}" if row["changes"] else ""
            hint = " (--tuned takes shipped recipes)" if row["recipe"].endswith("-default") else ""
            remark = f"Default options{but}, not tuned for this data set{hint}"
            remarks.setdefault(remark, []).append(row)
    remarks |= {
        f"On other splits than {best[name]}, or fewer, {without}": [
            row for row in unpaired if not row["same_splits"]
        ],
        f"Of other seeds than {best[name]}, {without}": [
            row for row in unpaired if row["same_splits"]
        ],
        "Began with trained weights, whose training is no part of the budget": [
            row for row in rows if row["starts_from"]
        ],
        "Trained before on nodes or links of validation or test, so that scores may be too good": [
            row for row in rows if row["seen"]
        ],
        "Perhaps trained before on nodes or links of validation or test, which nothing says": [
            row for row in rows if row["seen"] is None
        ],
        "Interrupted, not all seeds to their end": [row for row in rows if row["interrupted"]],
    }
    for remark, named in remarks.items():
        if named:
            yield f"{remark}: {between.join(row[name] for row in named)}."
    for alike in groups(rows, _scored_alike):
        if len(alike) > 1:
            yield (
                f"The very same scores in every run: {between.join(row[name] for row in alike)}. "
                "What differs between them makes no difference here; `zoo check` says whether a "
                "model ignores an option."
            )


def _scored_alike(row: Row, other: Row) -> bool:
    """Return whether two have the very same scores of every seed, on every part and measure."""
    keys = ("seed", "epoch", "train", "val", "test", "beside")
    one, two = (
        [[seed.get(key) for key in keys] for seed in each.get("seeds", ())] for each in (row, other)
    )
    return one == two != []


def notes(rows: list[Row]) -> Iterator[str]:
    """Say what else to know of the rows of several graphs, graph by graph."""
    for graph in dict.fromkeys(row["graph"] for row in rows):
        own = [{**row, "read": row["read"] and not row["named"],
                "tuned": row["tuned"] or not row["changes"]}
               for row in rows if row["graph"] == graph]  # fmt: skip
        for sentence in (*mark_notes(own, "model"), *other_notes(own, "model")):
            yield f"{graph}: {sentence.removeprefix('* ')}"
