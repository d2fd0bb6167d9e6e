"""The commands that train, as functions whose results are values: `zoo.train`, `zoo.finetune`."""

import dataclasses
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.config.metadata import stem_of
from zoo.config.overrides import name_data
from zoo.config.recipe import Recipe, word
from zoo.config.scores import in_order_of_validation, with_deviation
from zoo.config.shipped import recipe_names
from zoo.data import Dataset
from zoo.data.files.objects import described
from zoo.data.samples import Separate
from zoo.errors import ZooError, unknown
from zoo.registry import Model
from zoo.runs.compare import candidates
from zoo.runs.compare import compare as run_candidates
from zoo.runs.finetune import plan_finetuning
from zoo.runs.resolve import is_model, load_recipe
from zoo.runs.results_table import in_percent, results_table, sentences, to_latex, to_markdown
from zoo.runs.run import Watch, run_recipe
from zoo.runs.run_folder import new_folder
from zoo.runs.tune import Tuning
from zoo.weights.files import sha256_of
from zoo.weights.index import locate
from zoo.weights.save_and_load import load

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclasses.dataclass(frozen=True)
class Score:
    """A metric over seeds: their mean, and their standard deviation, None of a single one."""

    mean: float
    std: float | None

    def __str__(self) -> str:
        return with_deviation(dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True)
class SeedScore:
    """What one seed of a run has come to, at its best epoch by validation.

    Epochs are counted from 0 here and in all files, -1 for weights as loaded. Tables, progress and
    reports count them from 1.
    """

    seed: int
    epoch: int
    val: float
    test: float


@dataclasses.dataclass(frozen=True)
class Run:
    """A training that has ended; where a path is taken, that of its folder.

    Attributes:
        recipe: its name.
        dataset: the name of its data set.
        metric: what the scores are.
        val: of validation, over the seeds.
        test: of the test part, likewise.
        seeds: the scores of each seed.
        parameters: how many the model has.
        folder: of the run.
        interrupted: whether Ctrl-C has ended it early.
        summary: the content of its `summary.json`.
    """

    recipe: str
    dataset: str
    metric: str
    val: Score
    test: Score
    seeds: tuple[SeedScore, ...]
    parameters: int
    folder: Path
    interrupted: bool
    summary: dict[str, Any] = dataclasses.field(repr=False, compare=False)

    @classmethod
    def of(cls, summary: dict[str, Any]) -> "Run":
        """Return the run of a summary."""
        names = [field.name for field in dataclasses.fields(SeedScore)]
        seeds = [SeedScore(**{name: each[name] for name in names}) for each in summary["seeds"]]
        kept = {key: summary[key] for key in ("recipe", "dataset", "metric", "parameters")}
        return cls(
            **kept,
            val=_score(summary["val"]),
            test=_score(summary["test"]),
            seeds=tuple(seeds),
            folder=Path(summary["folder"]),
            interrupted=summary["interrupted"],
            summary=summary,
        )

    def __fspath__(self) -> str:
        return str(self.folder)

    def load(self) -> Model:
        """Return the model of the best seed by validation, in evaluation mode."""
        return load(self.folder)

    def __str__(self) -> str:
        return f"{self.recipe}: {self.metric} {self.test} on {self.dataset}, in {self.folder}"


@dataclasses.dataclass(frozen=True)
class Finetuned:
    """What a fine-tuning has come to.

    Attributes:
        best: the run with the better mean validation score of the two.
        finetuned: from the weights.
        scratch: as much training from new weights; None where it was not asked for.
    """

    best: Run
    finetuned: Run
    scratch: Run | None

    def __str__(self) -> str:
        beside = "" if self.scratch is None else f"\nfrom scratch {self.scratch}"
        best = (
            ""
            if self.scratch is None
            else f"\nby validation the better one is in {self.best.folder}"
        )
        return f"{self.finetuned}{beside}{best}"


@dataclasses.dataclass(frozen=True)
class Tuned:
    """What a search for settings has come to.

    Attributes:
        run: of the best settings by validation, scored once on the test part.
        settings: the best, by dotted keys, such as `model.dim`.
        trials: how many settings were tried.
        recipe: the file of the best recipe.
        folder: of the search, with all its trials.
    """

    run: Run
    settings: dict[str, Any]
    trials: int
    recipe: Path
    folder: Path


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Models on graphs, side by side.

    Attributes:
        runs: graph by graph, the best test score of each first.
        table: a line for each model and graph, the best model first: `model`, `graph`, `metric`,
            `mean`, `std`, whether it is `best`, the `difference` from the best with its 95 %
            interval `low` to `high`, whether that is `noise`, its `rank`, and what it was trained
            with: all columns of `zoo compare --csv`.
    """

    runs: tuple[Run, ...]
    table: "DataFrame"

    def markdown(self, percent: bool = False) -> str:
        """Return rows of models and columns of graphs in Markdown, and what the cells are.

        Args:
            percent: 84.32 in the place of 0.8432.
        """
        table = in_percent(self.table) if percent else self.table
        return to_markdown(table, [*sentences(table)])

    def latex(self, percent: bool = False) -> str:
        """Return the same in LaTeX, for booktabs."""
        table = in_percent(self.table) if percent else self.table
        return to_latex(table, [*sentences(table)])

    def __str__(self) -> str:
        return self.markdown()


def list_recipes(dataset: str | None = None, model: str | None = None) -> list[str]:
    """Return the names of the recipes that come with the zoo.

    Args:
        dataset: only those for this data set.
        model: only those of this model.

    Raises:
        ZooError: no recipe has such a data set, or such a model.
    """
    if dataset is None and model is None:
        return recipe_names()
    recipes = [load_recipe(name) for name in recipe_names()]
    chosen = {"data set": dataset, "model": model}
    words = [{"data set": word(each.dataset), "model": word(each.model)} for each in recipes]
    for kind, name in chosen.items():
        if name is not None and name not in (known := {own[kind] for own in words}):
            raise ZooError(unknown(f"{kind} of a recipe", name, known))
    return [
        each.name
        for each, own in zip(recipes, words, strict=True)
        if all(name in (None, own[kind]) for kind, name in chosen.items())
    ]


def train(
    recipe: Any,
    overrides: Sequence[str] = (),
    *,
    data: Any = None,
    device: str = "auto",
    runs: Path | str = "runs",
    watch: Watch = lambda seed, epoch: None,
) -> Run:
    """Train a recipe with each of its seeds, as `zoo train` does.

    `run = zoo.train("gcn", ["train.epochs=20", "seeds=[0, 1, 2]"], data="mine")`

    Args:
        recipe: a name, a path, a mapping or what `load_recipe` returns; or the word of a model,
            and `data`. The code that it imports is run.
        overrides: `"train.epochs=50"` each.
        data: the word, path or mapping of the data set, in place of the recipe's; or a graph in
            memory, which is written to `runs/data` for that.
        device: `auto`, `cpu` or `cuda`.
        runs: the parent of the run's folder.
        watch: called after every epoch with the seed and the epoch, such as a `progress_bar`.

    Returns:
        The run: `run.test.mean`, `run.seeds`, `run.folder`, and `run.load()`, the model of the best
        seed by validation.

    Raises:
        ZooError: the recipe, its data or the device is wrong, or training fails.
    """
    return Run.of(
        run_recipe(_loaded(recipe, overrides, data, runs), device=device, runs=runs, watch=watch)
    )


def finetune(
    weights: Model | os.PathLike[str] | str,
    data: Any,
    overrides: Sequence[str] = (),
    *,
    freeze: str | list[str] = "none",
    lr_decay: float = 1.0,
    scratch: bool | None = None,
    device: str = "auto",
    runs: Path | str = "runs",
    watch: Watch = lambda seed, epoch: None,
) -> Finetuned:
    """Train on from weights, as `zoo finetune` does; onto other columns from scratch as well.

    `found = zoo.finetune("gcn-twitch-de", "twitch-fr", ["train.epochs=40"])`

    Args:
        weights: a run or its folder, a folder of weights, what `load` gives, or a name of
            `zoo list models --pretrained`.
        data: the word, path or mapping of the data set.
        overrides: `"train.epochs=50"` each.
        freeze: `none`, `backbone`, `except-head`, or names of weights.
        lr_decay: factor of the learning rate per layer, from the head down.
        scratch: train from scratch as well; left out, where features are other ones, or classes
            new, and nothing is frozen.
        device: `auto`, `cpu` or `cuda`.
        runs: the parent of the folders of the runs.
        watch: called after every epoch with the seed and the epoch.

    Returns:
        The runs: `found.finetuned`, `found.scratch` or None, and `found.best`, that of the two
        which validates better.

    Raises:
        ZooError: the weights, the data or an override are wrong, or training fails.
    """
    folder = _folder_of(weights)
    plan = plan_finetuning(folder, _named(data, runs), overrides, freeze=freeze, lr_decay=lr_decay)
    how = {"device": device, "runs": runs, "watch": watch, "data": plan.data}
    tuned = run_recipe(plan.plan, **how)
    beside = plan.begins_anew and freeze == "none" if scratch is None else scratch
    if not beside or tuned["interrupted"]:
        run = Run.of(tuned)
        return Finetuned(run, run, None)
    anew = run_recipe(plan.scratch, **how)
    best, _ = in_order_of_validation(tuned, anew)
    return Finetuned(Run.of(best), Run.of(tuned), Run.of(anew))


def _flat(sources: Iterable[Any]) -> Iterator[Any]:
    """Yield sources, and those in lists of them."""
    for source in sources:
        yield from source if isinstance(source, list | tuple) else [source]


def _name(source: Any) -> str:
    """Return how the command line names what is compared."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    raise ZooError(
        "recipes, by their name or file, and runs, or their folders, are compared, and this is "
        f"{described(source)}."
    )


def compare(
    *sources: os.PathLike[str] | str | Sequence[os.PathLike[str] | str],
    overrides: Sequence[str] = (),
    data: Any = None,
    datasets: Sequence[str] = (),
    attentions: Sequence[Any] = (),
    baselines: bool = True,
    tuned: bool = False,
    device: str = "auto",
    runs: Path | str = "runs",
) -> Comparison:
    """Compare recipes and finished runs, as `zoo compare` does; what is not finished is trained.

    `print(zoo.compare("sgformer", "gcn", data="mine", overrides=["seeds=[0, 1, 2]"]))`

    Args:
        sources: names or files of recipes, or runs or their folders; or a list of them.
        overrides: `"train.epochs=200"` each, of every recipe and added baseline.
        data: the word, path or mapping of the data set of each.
        datasets: also every recipe called MODEL-DATASET.
        attentions: each model that attends is compared with each of these.
        baselines: add GCN and an MLP where they are missing.
        tuned: add them as their shipped recipes are, with their own features and budget.
        device: `auto`, `cpu` or `cuda`.
        runs: where runs are looked for and written.

    Returns:
        The table: `found.table` of pandas, `found.markdown()`, `found.latex()`; and `found.runs`.

    Raises:
        ZooError: nothing to compare, a recipe or run that cannot be read, or one does not finish.
    """
    entries = candidates(
        [_name(each) for each in _flat(sources)],
        _on(data, overrides, runs),
        datasets,
        attentions,
        tuned=tuned,
        baselines=baselines,
    )
    rows = run_candidates(entries, device=device, runs=Path(runs), quiet=True)
    return Comparison(tuple(Run.of(row) for row in rows), results_table(rows))


def tune(
    recipe: Any,
    overrides: Sequence[str] = (),
    *,
    data: Any = None,
    trials: int | None = None,
    hours: float | None = None,
    splits: int = 5,
    device: str = "auto",
    runs: Path | str = "runs",
) -> Tuned:
    """Find settings for a data set by validation, and score the best on test, as `zoo tune` does.

    `found = zoo.tune("sgformer", data="mine", trials=20)`

    Args:
        recipe: what to begin with, as of `train`.
        overrides: `"train.epochs=200"` each.
        data: the word, path or mapping of the data set, in place of the recipe's.
        trials: how many settings to try, 40 if left out.
        hours: after which no trial is begun.
        splits: seeds that every trial is trained with.
        device: `auto`, `cpu` or `cuda`.
        runs: the parent of the folder of the search.

    Returns:
        The best: `found.settings`, `found.recipe`, a file, and `found.run`, scored once on test.

    Raises:
        ZooError: Optuna is missing, the recipe cannot be trained, or every trial has failed.
        KeyboardInterrupt: Ctrl-C; `zoo tune --resume FOLDER` goes on.
    """
    loaded = _loaded(recipe, overrides, data, runs)
    study = Tuning(new_folder(Path(runs), f"tune-{loaded.name}"), loaded, splits, device=device)
    study.run(trials, hours)
    best, run = study.best(), Run.of(study.score())
    return Tuned(run, best.settings, len(study.trials()), study.write_best(), study.folder)


def _score(spread: dict[str, Any]) -> Score:
    return Score(spread["mean"], spread["std"])


def _folder_of(weights: Any) -> Path:
    """Return the folder of weights, or of a model that was loaded."""
    if isinstance(weights, Model):
        if weights.folder is None:
            raise ZooError("this model was not loaded; save it by `zoo.save(model, FOLDER)`, and "
                           "name the folder.")  # fmt: skip
        weights = weights.folder
    return locate(weights).folder


def _named(data: Any, runs: Path | str) -> Any:
    """Return what names data: of a graph in memory the file in `runs/data` that it is written to.

    Raises:
        ZooError: a run could not read it again.
    """
    if isinstance(data, str | Path | Recipe | None):
        return data
    if isinstance(data, Dataset):
        return _written(data, Path(runs) / "data")
    if isinstance(data, Mapping) and "edge_index" not in data:
        return data
    name, give, package = described(data), "a path or a word", type(data).__module__.split(".")[0]
    if isinstance(data, Separate):
        name, give = data.name, "what it was loaded from, or write what it was made of to a file"
    elif line := _WRITE.get("dict" if isinstance(data, Mapping) else package):
        give = f"the path of a file, which `{line}` writes"
    raise ZooError(
        f"{name} is in memory, and a run reads its data by their name: give {give}; or train it in "
        "a loop of your own (docs/python.md)."
    )


_WRITE = {
    "networkx": 'networkx.write_graphml(graph, "mine.graphml")',
    "dgl": 'dgl.save_graphs("mine.bin", [graph])',
    "torch_geometric": 'torch.save(data.to_dict(), "mine.pt")',
    "dict": 'torch.save(data, "mine.pt")',
    "pandas": 'table.to_csv("mine.csv", index=False)',
}
"""What writes an object of each package as a file that the zoo reads."""


def _written(data: Dataset, folder: Path) -> dict[str, str]:
    """Return the spec of a graph in memory, written under a name that its content gives it."""
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w.-]+", "-", stem_of(data.name))
    with tempfile.TemporaryDirectory(dir=folder) as place:
        draft = Path(place) / "graph.npz"
        data.save(draft)
        path = folder / f"{name}-{sha256_of(draft)[:12]}.npz"
        draft.replace(path)
    return {"name": str(path), "split": data.split}


def _on(data: Any, overrides: Sequence[str], runs: Path | str) -> list[str]:
    return name_data(_named(data, runs), overrides, f"data={data!r}")


def _check_order(recipe: Any, second: Any) -> None:
    """Refuse data before a recipe, or in the place of its overrides."""
    if not isinstance(second, str) or "=" in second:
        return
    if second in recipe_names() or is_model(second):
        recipe, second = second, recipe if isinstance(recipe, str) else "PATH"
    raise ZooError(
        "first the recipe, or the word of a model, and then its data, by their name or path: "
        f"write {recipe!r}, data={second!r}."
    )


def _loaded(recipe: Any, overrides: Sequence[str], data: Any, runs: Path | str) -> Recipe:
    if isinstance(overrides, str | Dataset | Separate):
        _check_order(recipe, overrides)
        written = "the overrides" if isinstance(overrides, str) else "data=..., and overrides"
        raise ZooError(f"write {written} as a list, such as ['train.epochs=20'].")
    if isinstance(recipe, dict) and isinstance(recipe.get("dataset"), Dataset):
        recipe = {**recipe, "dataset": _named(recipe["dataset"], runs)}
    if isinstance(recipe, Dataset):
        raise ZooError("first the recipe, or the word of a model, and then data=...")
    _named(recipe.get("dataset") if isinstance(recipe, dict) else recipe, runs)
    overrides = _on(data, overrides, runs)
    if not isinstance(recipe, Recipe):
        return load_recipe(recipe, overrides, trust=True)
    return load_recipe(recipe.plain(), overrides, trust=True) if overrides else recipe
