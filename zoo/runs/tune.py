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
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from zoo.config import search
from zoo.config.options import options_of
from zoo.config.question import other_question
from zoo.config.recipe import SAID, Recipe, recipe_text, word
from zoo.config.scores import figure, gain
from zoo.config.search import TRAINING, Search, Trial
from zoo.errors import ZooError, optional
from zoo.registry import MODELS, Model
from zoo.runs.launch import begun, finished
from zoo.runs.prepare import Prepared, build, prepare, same_files, seed_everything
from zoo.runs.resolve import load_recipe, resolve, write_out
from zoo.runs.run import resume_run, run_recipe
from zoo.runs.run_folder import is_summarised, read_summary
from zoo.system.environment import choose_device
from zoo.system.files import held, sqlite, write_whole
from zoo.training.batches import TrainingData
from zoo.training.trainer import fit

RECIPE, TRIALS, BEST = "recipe.yaml", "trials.db", "best.yaml"

_DATA = ("dataset", "graph", "encoding", "flip_signs", "split")


def search_of(recipe: Recipe) -> Search:
    """Return what is tried of a recipe: the training's, the model's own, and its `search:`.

    The value that a recipe begins with is among them, unless its `search:` leaves it out.
    """
    model = MODELS[resolve(recipe, trust=True).model["name"]]
    known = options_of(model)
    own = {f"model.{key}": each for key, each in model.search.items() if key in known}
    data = recipe.plain()
    usual = load_recipe({**data, "search": {**TRAINING, **own}}, trust=True).search
    return {**search.widened(usual, write_out(recipe, trust=True)), **recipe.search}


def _to_begin_with(recipe: Recipe, splits: int) -> dict[str, Any]:
    """Return a recipe with all that is tried of it, whose files may be read from anywhere."""
    written = resolve(recipe, trust=True).plain()
    own = {key: written[key] for key in ("imports", "start_from") if key in written}
    recipe = load_recipe({**recipe.plain(), **own}, trust=True)
    for key, each in (space := search_of(recipe)).items():
        asked = [load_recipe(search.changed(recipe.plain(), {key: value}), trust=True).dataset
                 for value in search.ends_of(each)]  # fmt: skip
        if any(other_question(asked[0], other) for other in asked):
            raise ZooError(f"search.{key}: its values draw other nodes; leave it out.")
    data = {key: each for key, each in recipe.plain().items() if key not in SAID}
    return {**data, "search": search.plain(space), "seeds": list(range(splits))}


class Tuning:
    """A study of one recipe, in a folder of its own.

    Args:
        folder: what was begun there goes on.
        recipe: what to begin with; None where it was begun.
        splits: on how many every trial is trained.
        device: `auto`, `cpu` or `cuda`.

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
        source = path if recipe is None else _to_begin_with(recipe, splits)
        self.recipe = load_recipe(source, trust=True)
        self.prepared = prepare(resolve(self.recipe, trust=True))
        if recipe is not None:
            write_whole(path, lambda draft: draft.write_text(recipe_text(source), encoding="utf-8"))
        self.name = f"{word(self.recipe.model)}-tuned"
        self.metric = self.prepared.task.metric_name
        self.start = search.start_of(self.recipe.search, write_out(self.recipe, trust=True))
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
        trials, hours = self._kept("trials", trials, 40), self._kept("hours", hours, math.inf)
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
            tell(search.ended(trial, self.recipe.search), self.best())
            if not self._left(trials):
                study.stop()

        if self._left(trials):
            timeout = None if hours == math.inf else 3600 * hours
            self.study.optimize(objective, timeout=timeout, catch=ZooError, callbacks=[after])
        if self.best() is None:
            raise failed[0] if failed else ZooError(f"no trial has ended in {self.folder}.")

    def _kept(self, name: str, given: float | None, usual: float) -> Any:
        """Return what was given, now or when the study was run before, and keep it."""
        found = self.study.user_attrs.get(name, usual) if given is None else given
        self.study.set_user_attr(name, found)
        return found

    def _left(self, trials: int) -> bool:
        states = [each.state for each in self.trials()]
        return len(states) - states.count("refused") < trials and len(states) < 4 * trials

    def trials(self) -> list[Trial]:
        """Return the trials that have ended, in this order."""
        ended = [each for each in self.study.get_trials(deepcopy=False) if each.state.is_finished()]
        ended.sort(key=lambda each: each.datetime_complete)
        return [search.ended(each, self.recipe.search) for each in ended]

    def best(self) -> Trial | None:
        """Return the trial with the best validation score, None where none is complete."""
        return search.best_of(self.trials(), self.metric)

    def as_it_was(self) -> Trial | None:
        """Return the complete trial of the settings that were begun with, None where it failed."""
        first = search.settings_of(self.recipe.search, self.start)
        same = (each for each in self.trials() if first.items() <= each.settings.items())
        return next((each for each in same if each.state == "complete"), None)

    def importance(self) -> dict[str, float]:
        """Return how much of the spread of scores each setting explains, the most first."""
        few = contextlib.suppress(ValueError, RuntimeError, UserWarning)  # or all are alike
        with few, warnings.catch_warnings(action="error", category=UserWarning):
            return dict(self.optuna.importance.get_param_importances(self.study))
        return {}

    def write_best(self) -> Path:
        """Write the best recipe, and where it is from."""
        best, path = self.best(), self.folder / BEST
        tuned = search.changed(self.recipe.plain(), best.settings)
        text = (
            f"# Tuned on {len(self.trials())} trials; validation {self.metric} {figure(best.val)} "
            f"over {best.splits} splits, trial {best.number}.\n{recipe_text(tuned)}"
        )
        write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"))
        return path

    def write(self) -> list[Path]:
        """Write the best recipe, the trials as a table, and a picture of the best score so far."""
        trials, title = self.trials(), f"Validation {self.metric}, {word(self.recipe.model)}"
        lines = search.lines_of(trials, self.metric)
        points = [(title, "trials", name, *point) for name, (x, y) in lines.items()
                  for point in zip(x, y, strict=True)]  # fmt: skip
        tables = {
            "trials-table.csv": pd.DataFrame(search.table_of(trials)),
            "trials-lines.csv": pd.DataFrame(points, columns=["plot", "x is", "line", "x", "y"]),
        }
        written = [self.write_best(), *(self.folder / name for name in tables)]
        for path, table in zip(written[1:], tables.values(), strict=True):
            write_whole(path, functools.partial(table.to_csv, index=False))
        written.append(self.folder / "trials.png")
        write_whole(written[-1], functools.partial(_draw, lines, title))
        return written

    def score(self, **watched: Any) -> dict[str, Any]:
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
            with contextlib.suppress(BlockingIOError), held(self.folder):
                summary = self._scored(**watched)
                return {**summary, "scored_before": self._scored_before(summary)}
            time.sleep(1.0)

    def _scored(self, **watched: Any) -> dict[str, Any]:
        recipe = load_recipe(self.write_best(), trust=True)
        plan = resolve(recipe.model_copy(update={"name": self.name}), trust=True)
        if done := finished(plan, self.folder):
            return done
        if folder := begun(plan, self.folder):  # and ended by Ctrl-C, or killed
            summary = resume_run(folder, device=self.device, **watched)
        else:
            summary = run_recipe(plan, device=self.device, runs=self.folder, **watched)
        if summary["interrupted"]:
            raise KeyboardInterrupt
        return summary

    def _scored_before(self, summary: Mapping[str, Any]) -> list[float]:
        runs = sorted(self.folder.glob(f"{glob.escape(self.name)}-*"))
        others = [each for each in runs if each.name != Path(summary["folder"]).name]
        return [read_summary(each)["test"]["mean"] for each in others if is_summarised(each)]

    def _study(self):
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
        study.set_user_attr("files", same_files(study.user_attrs.get("files"), self.prepared.plan))
        study.enqueue_trial(self.start, skip_if_exists=True)
        return study

    def _value(self, trial) -> float:
        start = time.perf_counter()
        prepared = self._prepared(search.suggested(trial, self.recipe.search))
        scores: list[float] = []
        for number, (model, fitted, train) in enumerate(self._built(prepared)):
            trial.set_user_attr("begun", True)
            done = fit(model, fitted, prepared.hooks(model), choose_device(self.device), **train)
            if done.interrupted:
                self.study.enqueue_trial(trial.params)  # lost, and tried again
                raise KeyboardInterrupt
            scores.append(done.val)
            trial.report(gain(self.metric, scores[-1]), number)
            trial.set_user_attr("val", scores)
            trial.set_user_attr("seconds", time.perf_counter() - start)
            if trial.should_prune():
                raise self.optuna.TrialPruned
        return gain(self.metric, statistics.fmean(scores))

    def _built(self, prepared: Prepared) -> Iterator[tuple[Model, TrainingData, dict[str, Any]]]:
        """Yield a model, what it learns from and the options of training, for each split."""
        for seed, split in zip(prepared.plan.recipe.seeds, prepared.splits, strict=True):
            with torch.random.fork_rng(devices=[]):  # the sampler's own draws stay its own
                seed_everything(seed)
                fitted = prepared.fitted_to(split)
                model, _ = build(fitted)
                yield model, fitted.on(split), prepared.plan.train

    def _prepared(self, settings: Mapping[str, Any]) -> Prepared:
        """Return the data of some settings: that of the study, unless they change it."""
        data = search.changed(self.recipe.plain(), settings)
        plan = resolve(load_recipe(data, trust=True), trust=True)
        own = resolve(self.recipe, trust=True)
        same = all(getattr(plan, each) == getattr(own, each) for each in _DATA)
        if same and plan.train["loss"] == own.train["loss"]:
            return self.prepared._replace(plan=plan)
        return prepare(plan)


_LOOKS = {
    "complete": {"color": "#0072B2", "marker": "o", "linestyle": "", "markerfacecolor": "white"},
    "pruned": {"color": "#D55E00", "marker": "s", "linestyle": "", "markerfacecolor": "white"},
    "best so far": {"color": "#009E73", "linestyle": "--"},
}


def _draw(lines: Mapping[str, Sequence[Sequence[float]]], title: str, path: Path) -> None:
    """Draw the scores of trials and the best so far, which Optuna draws without pruned trials."""
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context("default"):  # whatever a matplotlibrc in the current folder says
        figure = Figure(figsize=(5, 4), layout="constrained")
        axes = figure.subplots()
        for name, (x, y) in lines.items():
            axes.plot(x, y, label=name, markersize=5, **_LOOKS[name])
        note = "a point is the mean over splits (pruned: those it has seen)"
        axes.set(title=title, xlabel=f"trials\n{note}")
        axes.grid(visible=True, alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small")
        figure.savefig(path, format="png", dpi=120)
