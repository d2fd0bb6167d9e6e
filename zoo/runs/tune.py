"""Settings for one's own graph: `zoo tune`, by Optuna, which is an optional extra.

Each trial trains a recipe with other settings on several splits, and is given up where it is worse
on the splits so far than the best one (Wilcoxon's test). Its score is the mean validation score;
test scores are neither looked at nor kept. All is in a folder: the recipe that was begun with, the
trials in SQLite, and in the end the best recipe and its run, which scores the test part once.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import json
import math
import shlex
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from zoo.config.options import options_of
from zoo.config.recipe import UNTRAINED_KEYS, Range, Recipe, Search, recipe_text, word
from zoo.config.scores import differing_target, figure, gain
from zoo.config.yaml_lines import line_text
from zoo.errors import ZooError, optional
from zoo.registry import MODELS, Model
from zoo.runs.compare import BUDGET, WAYS
from zoo.runs.earlier_runs import find_finished, find_unfinished
from zoo.runs.prepare import Prepared, build, check_same_files, prepare, seed_everything
from zoo.runs.resolve import import_typed, is_model, load_recipe, resolve, write_out
from zoo.runs.run import resume_run, run_recipe
from zoo.runs.run_folder import is_summarised, read_summary
from zoo.system.environment import choose_device
from zoo.system.files import held_where_possible, sqlite, write_whole
from zoo.training.batches import TrainingData
from zoo.training.trainer import Hooks, fit

RECIPE, TRIALS, BEST = "recipe.yaml", "trials.db", "best.yaml"

TRAINING: dict[str, Any] = {
    "train.lr": {"low": 0.0005, "high": 0.03, "log": True},
    "train.weight_decay": {"low": 1e-5, "high": 1e-2, "log": True},
}
"""What is tried of every training."""

AS_IT_WAS = "as_it_was"
"""What Optuna keeps of the trial of the recipe as it is."""

_DATA = ("dataset", "graph", "encoding", "flip_signs", "split")


class Trial(NamedTuple):
    """A trial that has ended.

    Attributes:
        number: from 0, which is the recipe as it was, as far as its values are among those tried.
        state: `complete`, `pruned`, `failed`, or `refused`: its settings do not go together.
        val: mean validation score over the splits it was trained on, None where there is none.
        std: their standard deviation.
        splits: how many these are.
        seconds: that it took.
        settings: key of the recipe to the value that was tried.
    """

    number: int
    state: str
    val: float | None
    std: float | None
    splits: int
    seconds: float
    settings: dict[str, Any]


class ToTune(NamedTuple):
    """A recipe to begin with.

    Attributes:
        source: how it was named.
        recipe: what that is, with all changes.
        changes: `KEY=VALUE` texts that make this recipe of the source.
    """

    source: str
    recipe: Recipe
    changes: list[str]


def recipes_to_tune(
    sources: Sequence[str],
    overrides: Sequence[str] = (),
    tell: Callable[[str], None] = lambda text: None,
) -> list[ToTune]:
    """Return recipes, or those of models with their default options, all of the same budget.

    That is the budget of the first. Where the overrides name no data set, models are tuned on that
    of the first recipe among them.

    Args:
        sources: names or files of recipes, or models.
        overrides: `KEY=VALUE` changes of all of them; they hold, whatever the first has.
        tell: called with a sentence on what the others have of the first, where there are others.

    Raises:
        ZooError: a recipe that is wrong, or models alone and no data set.
    """
    for source in sources:
        import_typed(source, overrides)
    named = any(text.startswith(("dataset=", "dataset.name=")) for text in overrides)
    lead = next((source for source in sources if named or not is_model(source)), sources[0])
    if not named and is_model(lead):
        words = [lead] if len(sources) == 1 else ["--models", ",".join(sources)]
        command = shlex.join(["zoo", "tune", *words, "--data", "DATASET", *overrides])
        raise ZooError(f"{lead} is a model: write `{command}`.")
    first = load_recipe(lead, overrides, trust=True)
    train, data = resolve(first, trust=True).train, first.plain()
    budget = [f"train.{key}={line_text(train[key])}" for key in BUDGET if key in train]
    ways = [f"train.{key}={line_text(first.train[key])}"
            for key in (*WAYS, "precision") if key in first.train]  # fmt: skip
    question = [f"{key}={line_text(data[key])}" for key in _QUESTION if key in data and not named]
    found = []
    for source in sources:
        words = [*question, *budget, *ways] if is_model(source) else budget
        changes = [*(words if source != lead else ()), *overrides]
        recipe = load_recipe(source, changes, trust=True)
        found.append(ToTune(source, recipe.model_copy(update={"name": Path(source).stem}), changes))
    if len(sources) > 1:
        tell(
            f"all have the budget of {lead}, {' '.join(budget)}: write others behind the command "
            "for all."
        )
    taken = [source for source in sources if is_model(source) and not named]
    if taken:
        tell(f"{', '.join(taken)}: on the data of {lead}, {question[0]}")
    return found


_QUESTION = ("dataset", "graph", "task", "readout", "imports")
"""What a model with default options takes over of a recipe beside it: the question."""


def search_of(recipe: Recipe) -> Search:
    """Return the search space of a recipe: the training's, the model's own, and its `search:`.

    The value that a recipe begins with is in it, unless its `search:` leaves it out.
    """
    model = MODELS[resolve(recipe, trust=True).model["name"]]
    options = options_of(model)
    own = {f"model.{key}": space for key, space in model.search.items() if key in options}
    defaults = {**recipe.plain(), "search": {**TRAINING, **own}}
    written = write_out(recipe, trust=True)
    return {
        key: _widened(space, value_at(written, key))
        for key, space in load_recipe(defaults, trust=True).search.items()
    } | recipe.search


def _widened(space: Range | list[Any], value: Any) -> Range | list[Any]:
    """Return a space that holds a value as well, unless it is of another kind, or 0 of ratios."""
    if value is None or value in space:
        return space
    if not isinstance(space, Range):
        return [*space, value]
    fits = type(value) is int or (type(value) is float and not space.whole)
    if not fits or (space.log and value <= 0):
        return space
    return Range(low=min(space.low, value), high=max(space.high, value), log=space.log)


def value_at(data: Mapping[str, Any], key: str) -> Any:
    """Return the value at a dotted key of plain data, None where nothing is."""
    value: Any = data
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def with_settings(data: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain data of a recipe with other values at some dotted keys, and no search."""
    data = {key: value for key, value in data.items() if key != "search"}
    for dotted, value in settings.items():
        *parents, last = dotted.split(".")
        mapping = data
        for key in parents:
            spec = mapping.get(key, {})
            mapping[key] = dict(spec) if isinstance(spec, Mapping) else {"name": spec}
            mapping = mapping[key]
        mapping[last] = value
    return data


def start_of(search: Search, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a written recipe has at the keys of a search, as parameters of Optuna.

    A value that is not in its space is left out, as Optuna could not tell it.
    """
    start = {}
    for key, space in search.items():
        if (value := value_at(data, key)) in space:
            ranged = isinstance(space, Range)
            start[key] = value if ranged else json.dumps(space[space.index(value)])
    return start


def _setting(space: Range | list[Any], parameter: Any) -> Any:
    """Return the value of a recipe for a parameter of Optuna: four digits of it are enough."""
    if not isinstance(space, Range):
        return json.loads(parameter)
    return parameter if space.whole else float(f"{parameter:.4g}")


def _suggest(trial: Any, search: Search) -> dict[str, Any]:
    """Return the settings of a recipe that a trial of Optuna suggests."""
    settings = {}
    for key, space in search.items():
        if isinstance(space, Range):
            suggest = trial.suggest_int if space.whole else trial.suggest_float
            parameter = suggest(key, space.low, space.high, log=space.log)
        else:
            parameter = trial.suggest_categorical(key, [json.dumps(value) for value in space])
        settings[key] = _setting(space, parameter)
    return settings


def _begin_with(recipe: Recipe, splits: int) -> dict[str, Any]:
    """Return a recipe with its search space, whose files may be read from anywhere."""
    written = resolve(recipe, trust=True).plain()
    files = {key: written[key] for key in ("imports", "start_from") if key in written}
    recipe = load_recipe({**recipe.plain(), **files}, trust=True)
    search = search_of(recipe)
    for key, space in search.items():
        values = [space.low, space.high] if isinstance(space, Range) else space
        datasets = [
            load_recipe(with_settings(recipe.plain(), {key: value}), trust=True).dataset
            for value in values
        ]
        if any(differing_target(datasets[0], other) for other in datasets):
            raise ZooError(f"search.{key}: its values draw other nodes; leave it out.")
    data = {key: value for key, value in recipe.plain().items() if key not in UNTRAINED_KEYS}
    plain = {
        key: space.model_dump(exclude_defaults=True) if isinstance(space, Range) else space
        for key, space in search.items()
    }
    return {**data, "search": plain, "seeds": list(range(splits))}


class Tuning:
    """A study of one recipe, in a folder of its own.

    Args:
        folder: what was begun there goes on.
        recipe: what to begin with; None where it was begun.
        splits: on how many every trial is trained.
        device: `auto`, `cpu` or `cuda`.

    Attributes:
        outside: what the recipe begins with that is outside of its search, by key. The first trial
            has it all the same; of that trial Optuna is told the other settings.

    Raises:
        ZooError: Optuna is missing, nothing or something else was begun in the folder, its data
            have changed, or the recipe cannot be trained.
    """

    def __init__(
        self,
        folder: Path,
        recipe: Recipe | None = None,
        splits: int = 5,
        *,
        device: str = "auto",
    ):
        self.optuna = optional("optuna", "tune", "tuning")
        self.folder, self.device = folder, device
        path = folder / RECIPE
        of_run = recipe is None and (folder / "environment.json").is_file()
        if (path.is_file() and not of_run) == (recipe is not None):
            raise ZooError(
                f"a study was begun in {folder}; write `--resume {folder}`, or another folder."
                if recipe is not None
                else f"no study was begun in {folder}; write `zoo tune RECIPE`."
            )
        source = path if recipe is None else _begin_with(recipe, splits)
        self.recipe = load_recipe(source, trust=True)
        self.prepared = prepare(resolve(self.recipe, trust=True))
        if recipe is not None:
            write_whole(path, lambda draft: draft.write_text(recipe_text(source), encoding="utf-8"))
        self.name = f"{word(self.recipe.model)}-tuned"
        self.metric = self.prepared.task.metric_name
        written = write_out(self.recipe, trust=True)
        self.start = start_of(self.recipe.search, written)
        outside = [key for key in self.recipe.search if key not in self.start]
        self.outside = {key: value_at(written, key) for key in outside}
        self.study = self._study()

    def run(
        self,
        trials: int | None = None,
        hours: float | None = None,
        tell: Callable[[Trial, Trial | None], None] = lambda trial, best: None,
    ) -> None:
        """Try settings until so many trials have ended, those of before included.

        Args:
            trials: how many, None: as many as before, or 40. Settings that do not go together,
                which is known before any training, do not count, up to three times as many.
            hours: from now, after which no trial is begun; None: as before, or no limit.
            tell: called after each trial, with it and the best so far, None where there is none.

        Raises:
            ZooError: every trial has failed: why.
        """
        trials, hours = self._stored("trials", trials, 40), self._stored("hours", hours, math.inf)
        failed: list[ZooError] = []

        def objective(trial: Any) -> float:
            try:
                return self._value(trial)
            except ZooError as error:
                failed.append(error)
                raise

        def after(study: Any, trial: Any) -> None:
            if len(failed) == len(self.trials()) >= 3:
                raise failed[0]
            tell(self._ended(trial), self.best())
            if not self._left(trials):
                study.stop()

        if self._left(trials):
            timeout = None if hours == math.inf else 3600 * hours
            self.study.optimize(objective, timeout=timeout, catch=ZooError, callbacks=[after])
        if self.best() is None:
            raise failed[0] if failed else ZooError(f"no trial has ended in {self.folder}.")

    def _stored(self, name: str, value: float | None, default: float) -> Any:
        """Return a value, or for None that of before, or the default; and store it."""
        value = self.study.user_attrs.get(name, default) if value is None else value
        self.study.set_user_attr(name, value)
        return value

    def _left(self, trials: int) -> bool:
        states = [trial.state for trial in self.trials()]
        return len(states) - states.count("refused") < trials and len(states) < 4 * trials

    def _ended(self, trial: Any) -> Trial:
        """Return what became of a trial of Optuna that has ended."""
        scores = trial.user_attrs.get("val", [])
        states = {"COMPLETE": "complete", "PRUNED": "pruned"}
        other = "failed" if "begun" in trial.user_attrs else "refused"
        return Trial(
            trial.number,
            states.get(trial.state.name, other),
            statistics.fmean(scores) if scores else None,
            statistics.stdev(scores) if len(scores) > 1 else None,
            len(scores),
            trial.user_attrs.get("seconds", 0.0),
            {key: _setting(self.recipe.search[key], value) for key, value in trial.params.items()}
            | (self.outside if trial.user_attrs.get(AS_IT_WAS) else {}),
        )

    def trials(self) -> list[Trial]:
        """Return the trials that have ended, in this order."""
        trials = self.study.get_trials(deepcopy=False)
        ended = [trial for trial in trials if trial.state.is_finished()]
        return [self._ended(trial) for trial in sorted(ended, key=lambda x: x.datetime_complete)]

    def best(self) -> Trial | None:
        """Return the complete trial with the best validation score, None where none is complete."""
        complete = [trial for trial in self.trials() if trial.state == "complete"]
        return max(complete, key=lambda trial: gain(self.metric, trial.val), default=None)

    def as_it_was(self) -> Trial | None:
        """Return the complete trial of the settings that were begun with, None where it failed."""
        first = {key: _setting(self.recipe.search[key], x) for key, x in self.start.items()}
        first |= self.outside
        same = (trial for trial in self.trials() if first == trial.settings)
        return next((trial for trial in same if trial.state == "complete"), None)

    def importance(self) -> dict[str, float]:
        """Return how much of the spread of scores each setting explains, the most first."""
        too_few = contextlib.suppress(ValueError, RuntimeError, UserWarning)  # or all are alike
        with too_few, warnings.catch_warnings(action="error", category=UserWarning):
            keys = [*self.recipe.search]  # of the trials that have them all
            return dict(self.optuna.importance.get_param_importances(self.study, params=keys))
        return {}

    def write_best(self) -> Path:
        """Write the best recipe, and where it is from."""
        best, path = self.best(), self.folder / BEST
        tuned = with_settings(self.recipe.plain(), best.settings)
        text = (
            f"# Tuned on {len(self.trials())} trials; validation {self.metric} {figure(best.val)} "
            f"over {best.splits} splits, trial {best.number}.\n{recipe_text(tuned)}"
        )
        write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"))
        return path

    def write(self) -> list[Path]:
        """Write the best recipe, the trials as a table, and a picture of their scores."""
        rows = [{**t._asdict(), "settings": json.dumps(t.settings)} for t in self.trials()]
        table, picture = pd.DataFrame(rows), functools.partial(_draw, self.trials(), self.metric)
        write_whole(self.folder / "trials-table.csv", functools.partial(table.to_csv, index=False))
        write_whole(self.folder / "trials.png", picture)
        return [self.write_best(), self.folder / "trials-table.csv", self.folder / "trials.png"]

    def score(self, **hooks: Any) -> dict[str, Any]:
        """Train the best recipe, unless that was done, and return the summary of its run.

        It has `scored_before`: the mean test scores of what was the best then, and was scored too.
        Of several processes the first to get here trains, when no trial of another is under way.

        Raises:
            KeyboardInterrupt: Ctrl-C has ended it.
        """
        running = (self.optuna.trial.TrialState.RUNNING,)
        while self.study.get_trials(deepcopy=False, states=running):
            time.sleep(1.0)
            self.optuna.storages.fail_stale_trials(self.study)
        while True:
            with contextlib.suppress(BlockingIOError), held_where_possible(self.folder):
                summary = self._scored(**hooks)
                return {**summary, "scored_before": self._scored_before(summary)}
            time.sleep(1.0)

    def _scored(self, **hooks: Any) -> dict[str, Any]:
        recipe = load_recipe(self.write_best(), trust=True)
        plan = resolve(recipe.model_copy(update={"name": self.name}), trust=True)
        if summary := find_finished(plan, self.folder):
            return summary
        if folder := find_unfinished(plan, self.folder):  # ended by Ctrl-C, or killed
            summary = resume_run(folder, device=self.device, **hooks)
        else:
            summary = run_recipe(plan, device=self.device, runs=self.folder, **hooks)
        if summary["interrupted"]:
            raise KeyboardInterrupt
        return summary

    def _scored_before(self, summary: Mapping[str, Any]) -> list[float]:
        runs = sorted(self.folder.glob(f"{glob.escape(self.name)}-*"))
        others = [run for run in runs if run.name != Path(summary["folder"]).name]
        return [read_summary(run)["test"]["mean"] for run in others if is_summarised(run)]

    def _study(self) -> Any:
        optuna = self.optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        retry = optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=1)
        storage = optuna.storages.RDBStorage(
            sqlite(self.folder / TRIALS),
            heartbeat_interval=30,
            heartbeat_stale_trial_callback=retry,  # one that was killed is tried again
        )
        study = optuna.create_study(
            storage=storage, study_name="tune", load_if_exists=True, direction="maximize",
            sampler=optuna.samplers.TPESampler(multivariate=True),
            pruner=optuna.pruners.WilcoxonPruner(p_threshold=0.1))  # fmt: skip
        files = check_same_files(study.user_attrs.get("files"), self.prepared.plan)
        study.set_user_attr("files", files)
        study.enqueue_trial(self.start, user_attrs={AS_IT_WAS: True}, skip_if_exists=True)
        return study

    def _value(self, trial: Any) -> float:
        """Train with the settings of a trial, and return its mean gain over the splits."""
        start = time.perf_counter()
        outside = self.outside if trial.user_attrs.get(AS_IT_WAS) else {}
        search = {key: space for key, space in self.recipe.search.items() if key not in outside}
        prepared = self._prepared(_suggest(trial, search))
        scores: list[float] = []
        for number, (model, hooks, data) in enumerate(self._built(prepared)):
            trial.set_user_attr("begun", True)
            device, options = choose_device(self.device), prepared.plan.train
            result = fit(model, data, hooks, device, **options)
            if result.interrupted:
                # Lost, and tried again.
                as_it_was = {AS_IT_WAS: trial.user_attrs.get(AS_IT_WAS, False)}
                self.study.enqueue_trial(trial.params, user_attrs=as_it_was)
                raise KeyboardInterrupt
            scores.append(result.val)
            trial.report(gain(self.metric, result.val), number)
            trial.set_user_attr("val", scores)
            trial.set_user_attr("seconds", time.perf_counter() - start)
            if trial.should_prune():
                raise self.optuna.TrialPruned
        return gain(self.metric, statistics.fmean(scores))

    def _built(self, prepared: Prepared) -> Iterator[tuple[Model, Hooks, TrainingData]]:
        """Yield a model, how it learns and from what, for each split."""
        for seed, split in zip(prepared.plan.recipe.seeds, prepared.splits, strict=True):
            with torch.random.fork_rng(devices=[]):  # the sampler's generator stays as it is
                seed_everything(seed)
                fitted = prepared.fit_columns(split)
                model, start = build(fitted)
                yield model, fitted.hooks(model, start), fitted.training_data(split)

    def _prepared(self, settings: Mapping[str, Any]) -> Prepared:
        """Return the data of some settings: that of the study, unless they change it."""
        data = with_settings(self.recipe.plain(), settings)
        plan = resolve(load_recipe(data, trust=True), trust=True)
        own = resolve(self.recipe, trust=True)
        same = all(getattr(plan, key) == getattr(own, key) for key in _DATA)
        if same and plan.train["loss"] == own.train["loss"]:
            return self.prepared._replace(plan=plan)
        return prepare(plan)


def _draw(trials: Sequence[Trial], metric: str, path: Path) -> None:
    """Draw the scores of trials and the best so far; Optuna draws none of pruned trials."""
    from matplotlib import style
    from matplotlib.figure import Figure

    rows = pd.DataFrame([trial._asdict() for trial in trials])
    complete = rows.val.where(rows.state == "complete")
    sign = gain(metric, 1)
    best = sign * (sign * complete).cummax().ffill()
    with style.context("default"):  # whatever a matplotlibrc in the current folder says
        drawing = Figure(figsize=(5, 4), layout="constrained")
        axes, x = drawing.subplots(), rows.index + 1
        axes.plot(x, complete, "o", color="#0072B2", markerfacecolor="white", label="complete")
        if (pruned := rows.state == "pruned").any():
            look = {"color": "#D55E00", "markerfacecolor": "white", "label": "pruned"}
            axes.plot(x, rows.val.where(pruned), "s", **look)
        axes.plot(x, best, "--", color="#009E73", label="best so far")
        note = "a point is the mean over splits (pruned: those it has seen)"
        axes.set(title=f"Validation {metric}", xlabel=f"trials\n{note}")
        axes.grid(visible=True, alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small")
        drawing.savefig(path, format="png", dpi=120)
