"""The folder and the summary that a run leaves behind; a run that was killed goes on from there.

`recipe.yaml` has every value, `environment.json` where it ran, `metrics.jsonl` a line per epoch,
`seed-<s>/` the weights of a seed and, once it is finished, its `result.json`; until then
`checkpoint-<s>.pt` is where its training stands. `summary.json` comes last: the scores of all seeds
together, and the cost. Each file holds its own checksum, but for the weights, whose checksum is in
`config.json` beside them. `signature.json` says who began a run that imports code.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from zoo.errors import ZooError
from zoo.experiments.metrics import LINE, Metrics
from zoo.experiments.run_files import Result, read_bytes, read_recipe, read_result
from zoo.registry import Model
from zoo.system.disk import WriteError, check_space
from zoo.system.files import held, remove_drafts, write_whole
from zoo.trackers import Trackers
from zoo.training.checkpoint import Checkpoint
from zoo.training.checksums import Damaged, sealed_json, sealed_text, unsealed_json
from zoo.weights.finetune import Start
from zoo.weights.folder import CONFIG, TOKENIZER, WEIGHTS, sha256_of
from zoo.weights.load import save

Tell = Callable[[str], None]


def silent(text: str) -> None:
    """Tell nothing: the first of several processes speaks for all."""


def new_folder(runs: Path, name: str) -> Path:
    """Make a folder for something of this name that begins now; none is ever overwritten.

    Raises:
        ZooError: it cannot be made.
    """
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        try:
            (runs / f"{stem}{suffix}").mkdir(parents=True)
            return runs / f"{stem}{suffix}"
        except FileExistsError:
            if not (runs / f"{stem}{suffix}").is_dir():
                raise ZooError(f"{runs} is no folder that holds runs; name another.") from None
        except OSError as error:
            raise ZooError(f"{runs} cannot hold runs ({error}); name another folder.") from None
    raise ZooError(f"{runs} holds a thousand runs of this second; name another folder.")


class Record:
    """A run's folder.

    Args:
        folder: it exists.
        every: seconds between two checkpoints.
        tell: is given a sentence about what is damaged, or cannot be written, and what is done.
        new: it was made for this run, and holds nothing else.

    Attributes:
        recipe_sha256: the checksum of the recipe: what belongs to another is not taken.
        metrics: the file of epochs.
    """

    def __init__(
        self, folder: Path, every: float, tell: Tell = warnings.warn, *, new: bool = False
    ):
        self.folder, self._every, self._tell, self._new = folder, every, tell, new
        self.recipe_sha256, self.metrics = "", Metrics(folder / "metrics.jsonl", tell)
        self._trackers = Trackers((), folder, {}, tell)

    def __enter__(self) -> Record:
        """Hold the folder, so that no other process goes on with the run meanwhile.

        Raises:
            ZooError: another process holds it.
        """
        self._held = contextlib.ExitStack()
        try:
            self._held.enter_context(held(self.folder))
        except BlockingIOError:
            raise ZooError(
                f"another process is training {self.folder}; wait until it has ended, or end it."
            ) from None
        except OSError:  # a file system without locks
            self._held.close()
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the folder."""
        self._trackers.close()
        self._held.close()

    def track(self, words: Sequence[str], recipe: dict[str, Any]) -> None:
        """Tell trackers of the run from now on."""
        self._trackers = Trackers(words, self.folder, recipe, self._tell)

    def add(self, line: dict[str, Any]) -> None:
        """Write a line of metrics, and tell the trackers."""
        self.metrics.add(line)
        self._trackers.epoch(line)

    def write(self, name: str, data: dict[str, Any]) -> None:
        """Write data as JSON."""
        _write(self.folder / name, sealed_json(data))

    def holds(self, name: str) -> bool:
        """Say whether the folder has a file of this name."""
        return (self.folder / name).exists()

    def write_recipe(self, text: str) -> None:
        """Write the recipe, if it is not there already."""
        if not self.holds("recipe.yaml"):
            _write(self.folder / "recipe.yaml", sealed_text(text))
        self.read_recipe()

    def begin_from(self, start: Start, seen: int) -> None:
        """Write which weights the run starts from, and how many nodes it measures they have `seen`.

        Raises:
            ZooError: it goes on, and they are not those that it has started from.
        """
        name = "start_from.json"
        with contextlib.suppress(Damaged):  # it is written anew
            known = unsealed_json(read_bytes(self.folder / name)).get("sha256")
            if known != start.sha256:
                raise ZooError(
                    f"{start.weights} are no longer the weights that {self.folder} started from: "
                    f"their SHA-256 is {start.sha256} and was {known}. Put back those."
                )
        self.write(name, {**start._asdict(), "seen": seen})

    def begin(self, environment: Callable[[], dict[str, Any]]) -> None:
        """Write where the run begins, unless it is one that goes on."""
        if not (self.folder / "environment.json").exists():
            known = {**environment(), "recipe_sha256": self.recipe_sha256}
            self.write("environment.json", known)

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary, and the lines of metrics that wait.

        Raises:
            WriteError: they cannot be written; says what is kept, and how to go on.
        """
        try:
            self.write("summary.json", summary)
        except WriteError as error:
            raise WriteError(
                f"{error} The weights and scores of its seeds are in {self.folder}. Once there is "
                f"room, {self._again()} writes the summary, and trains what is left."
            ) from None
        try:
            self.metrics.write()
        except WriteError as error:
            place = self._aside(lambda folder: None)
            where = f"whole in {place}" if place else "lost, without what it holds now"
            raise WriteError(f"{error} It is {where}; all else is in {self.folder}.") from None

    def read_recipe(self, sha256: str | None = None) -> Path:
        """Return the file of the recipe.

        Args:
            sha256: its checksum as it is known from elsewhere.

        Raises:
            ZooError: it is not as it was written.
        """
        path, self.recipe_sha256 = read_recipe(self.folder, sha256)
        return path

    def clean(self) -> None:
        """Remove what was being written when the run was killed."""
        for folder in (self.folder, *self.folder.glob("seed-*/")):
            remove_drafts(folder)

    def check_space(self, weights: int, seeds: int, epochs: int) -> None:
        """Refuse to begin if there is no room for the weights; tell if there may be too little.

        Args:
            weights: bytes of the weights of a seed.
            seeds: how many.
            epochs: of each seed at most.
        """
        check_space(self.folder, *[weights] * seeds)
        # A checkpoint holds the weights, the best so far and Adam's two moments of each; while one
        # is written, the one before is there.
        checkpoints = [4 * weights] * (2 if self._every < float("inf") else 0)
        try:
            check_space(self.folder, *[weights] * seeds, *checkpoints,
                        LINE * epochs * seeds)  # fmt: skip
        except WriteError as error:
            self._tell(
                f"There may be too little room for metrics and checkpoints. {error} Training "
                "begins, and goes on without those that cannot be written."
            )

    def checkpoint(self, seed: int) -> Checkpoint:
        """Return where the training of a seed stands."""
        path = self.folder / f"checkpoint-{seed}.pt"
        return Checkpoint(path, self._every, f"{self.recipe_sha256} {seed}", self._tell)

    def result(self, seed: int) -> dict[str, Any] | None:
        """Return the scores of a seed, None as long as it is not finished.

        Raises:
            ZooError: its files are damaged, or those of another run.
        """
        found, folder = read_result(self.folder, seed), self.folder / f"seed-{seed}"
        if found is None:
            return None
        wrong = [] if found.recipe_sha256 == self.recipe_sha256 else ["result.json"]
        for name, sha256 in found.files.items():
            path = folder / Path(name).name
            if not os.path.isfile(path) or sha256_of(path) != sha256:
                wrong.append(name)
        if wrong:
            raise ZooError(
                f"{folder / wrong[0]} is not what seed {seed} of this run has written. Put back a "
                f"copy, or delete {folder / 'result.json'}: seed {seed} is then trained again."
            )
        self.checkpoint(seed).remove()  # it is left where a run was ended right here
        return found.scores.model_dump()

    def keep(self, result: dict[str, Any], model: Model) -> None:
        """Keep the weights of a seed; unless it was interrupted, it is finished.

        Raises:
            WriteError: they cannot be written; says where else they are, if anywhere.
        """
        try:
            self._keep(self.folder, result, model)
        except WriteError as error:
            raise WriteError(f"{error} {self._rescue(result, model)}") from None
        if not result["interrupted"]:
            self.checkpoint(result["seed"]).remove()
            self._trackers.end(result)

    def _keep(self, folder: Path, result: dict[str, Any], model: Model) -> None:
        own = folder / f"seed-{result['seed']}"
        save(model, own)
        if not result["interrupted"]:
            names = [WEIGHTS, CONFIG, *([] if model.tokenizer is None else [TOKENIZER])]
            files = {name: sha256_of(own / name) for name in names}
            content = Result(scores=result, recipe_sha256=self.recipe_sha256, files=files)
            _write(own / "result.json", sealed_json(content.model_dump()))

    def _rescue(self, result: dict[str, Any], model: Model) -> str:
        """Write a seed into a temporary folder instead; return where it is and how to go on."""
        seed, again = f"seed {result['seed']}", self._again()
        place = self._aside(lambda folder: self._keep(folder, result, model))
        if place is None:
            return (
                f"What {seed} has come to is lost: TMPDIR has no room either. Once there is some, "
                f"{again} trains it again from its last checkpoint, to the same numbers."
            )
        return (
            f"What {seed} has come to is in {place}. Once there is room, `cp -r "
            f"{shlex.quote(str(place))}/. {shlex.quote(str(self.folder))}` puts it where it "
            f"belongs, and {again} goes on."
        )

    def _aside(self, keep: Callable[[Path], None]) -> Path | None:
        """Keep something, and the metrics, in a temporary folder; None where that fails too."""
        place = None
        try:
            place = Path(tempfile.mkdtemp(prefix="zoo-"))
            keep(place)
            (place / self.metrics.path.name).write_bytes(self.metrics.content())
        except (WriteError, OSError):
            if place is not None:
                shutil.rmtree(place, ignore_errors=True)
            return None
        return place

    def _again(self) -> str:
        return f"`zoo train --resume {shlex.quote(str(self.folder))}`"

    def discard_unless_begun(self) -> None:
        """Delete the folder of a new run without weights, checkpoint or score."""
        if not self._new:
            return
        with contextlib.suppress(OSError):
            kept = [each for name in ("checkpoint-*", "seed-*") for each in self.folder.glob(name)]
            if not kept and not self.metrics.scored():
                shutil.rmtree(self.folder)


def _write(path: Path, text: str) -> None:
    write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"))
