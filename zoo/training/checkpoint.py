"""The best weights of a training, and its state between two epochs in a file.

The file is replaced as a whole. It is written by `torch.save`, below a checksum, and read by
`torch.load(weights_only=True)`: torch's restricted unpickler makes tensors and plain data only, and
calls nothing else that a file names. The checkpoint before is kept until the next one, and taken
where the last is damaged.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import pickle
import random
import time
import warnings
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from zoo.config.scores import gain
from zoo.datasets.splits import PARTS
from zoo.errors import ZooError
from zoo.registry import Model
from zoo.system.files import WriteError, write_whole, writing

EVERY = 10.0
"""Seconds between two writings: what is lost at most, and trained again with the same numbers."""


class Checkpoint:
    """The last state of a training, in a file.

    Args:
        path: the file; it need not exist yet.
        every: seconds between two writings.
        of: the training that it belongs to, in one word; that of another training is refused.
        tell: is given a sentence where a checkpoint cannot be written, or the one before is taken.
    """

    def __init__(
        self,
        path: Path,
        every: float = EVERY,
        of: str = "",
        tell: Callable[[str], None] = warnings.warn,
    ):
        self.path, self.every, self.of, self._tell = path, every, of, tell
        self.previous = path.with_name(f"{path.stem}.previous{path.suffix}")
        self._written, self._failed, self._damaged = time.monotonic(), False, False

    def offer(self, state: Callable[[], dict[str, Any]]) -> None:
        """Write what `state` returns if it is time to; its values are plain data and tensors.

        Training goes on where it cannot be written: the checkpoint before is kept, and the next
        one is tried when its time has come.
        """
        if 0 <= time.monotonic() - self._written < self.every:
            return
        try:
            with writing(self.path):
                self._write({"of": self.of, "state": state()})
        except WriteError as error:
            if not self._failed:
                begins = "from its beginning"
                if self.previous.exists():
                    begins = "from the checkpoint before"
                self._tell(
                    f"{error} Training goes on; if it is killed, `--resume` trains this seed "
                    f"{begins}."
                )
            self._failed = True
        self._written = time.monotonic()

    def read(self, use: Callable[[dict[str, Any]], None] = lambda state: None) -> dict | None:
        """Return the state that was written last, None where there is none.

        Where the file is damaged, the one before is taken and that is told: training comes to the
        same numbers again.

        Args:
            use: is given the state, and raises `Damaged` where it is of no use.

        Raises:
            ZooError: both are damaged, or belong to another training.
        """
        there = [path for path in (self.path, self.previous) if os.path.lexists(path)]
        causes = []
        for path in there:
            try:
                state = self._read(path)
                use(state)
            except Damaged as error:
                causes.append(f"{path} is damaged ({error})")
                continue
            self._damaged = bool(causes)
            if causes:
                self._tell(f"{causes[0]}; the checkpoint before it is taken, {path.name}.")
            return state
        if not causes:
            return None
        raise ZooError(
            f"{' and '.join(causes)}; delete {'it' if len(causes) == 1 else 'both'}, and its seed "
            "begins anew."
        )

    def remove(self) -> None:
        """Delete the files: the training has come to its end."""
        for path in (self.path, self.previous):
            with contextlib.suppress(OSError):  # what is left is not looked at again
                path.unlink()

    def _write(self, content: dict[str, Any]) -> None:
        if self.path.exists() and not self._damaged:
            self.path.replace(self.previous)
        write_whole(self.path, lambda draft: write_sealed(draft, lambda f: torch.save(content, f)))
        self._damaged = False

    def _read(self, path: Path) -> dict[str, Any]:
        """Return the state in one of the files.

        Raises:
            Damaged: it is not what was written, or written by another training.
        """
        if not os.path.isfile(path):
            raise Damaged("it is no file")
        try:
            content = read_sealed(path, _load)
            of, state = content["of"], content["state"]
        except Damaged:
            raise
        except pickle.UnpicklingError:
            raise Damaged("it is not tensors and plain data") from None
        except Exception as error:  # torch raises what the bytes suggest
            cause = str(error).partition("\n")[0].partition(". ")[0] or type(error).__name__
            raise Damaged(cause) from None
        if of != self.of:
            raise Damaged("it is that of another training")
        if not isinstance(state, dict):
            raise Damaged(f"it holds a {type(state).__name__}")
        return state


def _load(file) -> dict[str, Any]:
    return torch.load(file, map_location="cpu", weights_only=True)


class Best:
    """The best validation score so far and the weights that reached it.

    The optimiser's state is kept beside them until the last phase of training has begun.

    Args:
        model: what is trained.
        optimiser: what trains it.
        starts: the epochs in which a phase begins.
        metric: of which the score is, and which says whether less of it is better.
    """

    def __init__(
        self, model: Model, optimiser: torch.optim.Optimizer, starts: Iterable[int], metric: str
    ):
        self.model, self.optimiser, self.starts = model, optimiser, tuple(starts)
        self.metric = metric
        self.epoch = -1
        self.scores: dict[str, float] = {}
        self.weights: dict[str, Tensor] = {}
        self.moments: dict[int, Any] = {}

    def offer(self, epoch: int, found: dict[str, float], test: Callable[[], float]) -> None:
        """Keep weights and scores if the validation score is better than any before.

        Args:
            epoch: of which they are.
            found: `train` and `val`; and `loss`, of validation, where that tells the best.
            test: asked for the test score of the best alone.
        """
        if not self.scores or self._gain(found) > self._gain(self.scores):
            scores = {**found, "test": test()}
            weights, moments = copy.deepcopy(self.model.state_dict()), self.moments
            if epoch < max(self.starts, default=0):
                moments = copy.deepcopy(self.optimiser.state_dict()["state"])
            # Together and last: Ctrl-C may come at any time.
            self.weights, self.moments, self.scores, self.epoch = weights, moments, scores, epoch

    def _gain(self, scores: dict[str, float]) -> float:
        return -scores["loss"] if "loss" in scores else gain(self.metric, scores["val"])

    def rewind(self) -> None:
        """Go back to the best weights and the optimiser's state then; its learning rate stays."""
        if self.scores:  # nothing has been evaluated yet where evaluations are rare
            self.restore()
            # The optimiser goes on writing into what it is given.
            state = {**self.optimiser.state_dict(), "state": copy.deepcopy(self.moments)}
            self.optimiser.load_state_dict(state)

    def restore(self) -> None:
        """Give the model its best weights back."""
        self.model.load_state_dict(self.weights)

    def stale(self, epoch: int) -> int:
        """Return how many epochs before this one the best score was found, 0 without a score.

        They count from where the last phase begins: before it the whole model has not been trained.
        """
        return epoch - max(self.epoch, *self.starts, -1) if self.scores else 0

    def state(self) -> dict[str, Any]:
        """Return all of it."""
        kept = ("starts", "epoch", "scores", "weights", "moments")
        return {name: getattr(self, name) for name in kept}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        for name, value in state.items():
            setattr(self, name, value)


_UNFIT = (ValueError, TypeError, IndexError, KeyError, OverflowError, RuntimeError)
"""Errors of generators that are given a state that is none."""


def generators() -> dict[str, Any]:
    """Return the state of the global generators of Python, NumPy and torch."""
    kind, keys, *rest = np.random.get_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {
        "python": random.getstate(),
        "numpy": [kind, keys.tolist(), *rest],
        "torch": torch.get_rng_state(),
        "cuda": cuda,
    }


def restore_generators(state: dict[str, Any]) -> None:
    """Give the global generators a state that `generators` returned.

    Raises:
        Damaged: it is none; the generators are as before.
    """
    before = generators()
    try:
        _restore(state)
    except _UNFIT as error:
        _restore(before)
        raise Damaged(f"generators: {error}") from None


def _restore(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(tuple(state["numpy"]))
    torch.set_rng_state(state["torch"])
    if not all(isinstance(each, Tensor) for each in state["cuda"]):
        raise TypeError("those of CUDA are no tensors")
    for device, each in zip(range(torch.cuda.device_count()), state["cuda"], strict=False):
        torch.cuda.set_rng_state(each, device)


def check_stored(own: dict[str, Any], found: dict[str, Any], weights: list[Tensor]) -> None:
    """Hold a stored state of training against that of a training that begins.

    Args:
        own: the state now, of the very model and optimiser that are to go on.
        found: what was stored.
        weights: what the optimiser trains, in its order.

    Raises:
        Damaged: a part is missing, or of another type, shape or length.
    """
    _alike(dict.fromkeys(own), dict.fromkeys(found), "the state")
    for part in ("optimiser", "best", "generators"):
        _alike(dict.fromkeys(own[part]), _keys(found[part], part), part)
    _alike(own["model"], found["model"], "model")
    _alike(own["rates"], found["rates"], "rates")
    _alike(_options(own), _options(found), "optimiser")
    if _numbered(own) != _numbered(found):
        raise Damaged("optimiser: it is that of other weights")
    _check_moments(weights, found["optimiser"]["state"], "optimiser")
    best = found["best"]
    _alike(own["model"] if best["weights"] else {}, best["weights"], "best weights")
    _alike(dict.fromkeys(PARTS, 0.0) if best["scores"] else {}, best["scores"], "best scores")
    _alike({key: own["best"][key] for key in ("starts", "epoch")},
           {key: best[key] for key in ("starts", "epoch")}, "best")  # fmt: skip
    _check_moments(weights, best["moments"], "best")
    epochs, seconds = found["epochs"], found["seconds"]
    if type(epochs) is not int or not isinstance(seconds, list) or len(seconds) != epochs:
        raise Damaged("seconds: there is not one number for each of its epochs")
    _alike([0.0] * epochs, seconds, "seconds")
    scored = bool(best["scores"])
    if found["rates"]["last_epoch"] != epochs or bool(best["weights"]) != scored:
        raise Damaged("its parts are of different epochs")


def _options(state: dict[str, Any]) -> Any:
    """Return the optimiser's options; by which kernel it moves weights, the device says."""
    groups = state["optimiser"]["param_groups"]
    if not isinstance(groups, list) or not all(isinstance(each, dict) for each in groups):
        return groups
    return [{key: each for key, each in group.items() if key != "fused"} for group in groups]


def _numbered(state: dict[str, Any]) -> list[list[int]]:
    return [group["params"] for group in state["optimiser"]["param_groups"]]


def _check_moments(weights: list[Tensor], found: Any, where: str) -> None:
    """Check what an optimiser keeps of each weight: tensors of its shape, and single numbers."""
    for place in _keys(found, where):
        if type(place) is not int or not 0 <= place < len(weights):
            raise Damaged(f"{where}: {place!r} is no weight")
        for name in _keys(found[place], where):
            kept = found[place][name]
            if not isinstance(kept, Tensor) or kept.numel() > 1:
                _alike(weights[place], kept, f"{where}: {name}")


def _keys(found: Any, where: str) -> dict[Any, None]:
    if not isinstance(found, dict):
        raise Damaged(f"{where}: it is {type(found).__name__}")
    return dict.fromkeys(found)


def _alike(own: Any, found: Any, where: str) -> None:
    """Check that nested plain data and tensors are of the types, lengths and shapes of others."""
    if type(own) is not type(found) and not isinstance(own, Tensor | dict):
        raise Damaged(f"{where}: it is {type(found).__name__}, not {type(own).__name__}")
    if isinstance(own, dict):
        if not isinstance(found, dict) or own.keys() != found.keys():
            raise Damaged(f"{where}: it has other names")
        for key, value in own.items():
            _alike(value, found[key], f"{where}: {key}" if isinstance(key, str) else where)
    elif isinstance(own, list | tuple):
        if len(own) != len(found):
            raise Damaged(f"{where}: there are {len(found)}, not {len(own)}")
        for one, other in zip(own, found, strict=True):
            _alike(one, other, where)
    elif isinstance(own, Tensor):
        same = isinstance(found, Tensor) and (own.shape, own.dtype) == (found.shape, found.dtype)
        if not same:
            raise Damaged(f"{where}: it is of another shape or type")


_KEY = "checksum"
_LINE = "# SHA-256 of the lines below: "


class Damaged(ValueError):
    """What a file holds is not what was written; the text says how one can tell."""


def sealed_json(data: dict[str, Any]) -> str:
    """Return data as JSON with one more key, the checksum of the others."""
    return json.dumps({**data, _KEY: _digest(_canonical(data))}, indent=2) + "\n"


def unsealed_json(content: bytes) -> dict[str, Any]:
    """Return the data of what `sealed_json` wrote, without the checksum.

    Raises:
        Damaged: it is not what was written.
    """
    data = _mapping(content)
    if data.pop(_KEY, None) != _digest(_canonical(data)):
        raise Damaged("its checksum is another")
    return data


def sealed_text(text: str) -> str:
    """Return text below a line with its checksum, a comment in YAML."""
    return f"{_LINE}{_digest(text)}\n{text}"


def unsealed_text(content: bytes) -> str:
    """Return the text of what `sealed_text` wrote, without the first line.

    Raises:
        Damaged: it is not what was written.
    """
    first, _, text = _decoded(content).partition("\n")
    if first != _LINE + _digest(text):
        raise Damaged("its checksum is another")
    return text


def sealed_line(data: dict[str, Any]) -> str:
    """Return data as a line of JSON with one more key, the CRC-32 of the others."""
    return json.dumps({**data, "crc32": zlib.crc32(_canonical(data).encode())}) + "\n"


def unsealed_line(content: bytes) -> dict[str, Any]:
    """Return the data of a line that `sealed_line` made, without the checksum.

    Raises:
        Damaged: it is not what was written.
    """
    data = _mapping(content)
    if data.pop("crc32", None) != zlib.crc32(_canonical(data).encode()):
        raise Damaged("its checksum is another")
    return data


def write_sealed(path: Path, write: Callable[[Hashed], None]) -> None:
    """Write a file of bytes that begins with their checksum."""
    with path.open("wb") as file:
        file.write(bytes(hashlib.sha256().digest_size))
        hashed = Hashed(file)
        try:
            write(hashed)
        except Exception as error:
            if asked := _asked_to_end(error):
                raise asked from None
            raise
        file.seek(0)
        file.write(hashed.sha256.digest())


def _asked_to_end(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the Ctrl-C during which torch's writer raised an error of its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error


def read_sealed(path: Path, read: Callable[[BinaryIO], Any]) -> Any:
    """Return what `read` makes of the bytes of a file that `write_sealed` wrote.

    Args:
        path: the file.
        read: is given the file at the place where the bytes begin, once they are known to be whole.

    Raises:
        Damaged: the file is not what was written.
    """
    with path.open("rb") as file:
        said = file.read(hashlib.sha256().digest_size)
        if said != hashlib.file_digest(file, "sha256").digest():
            raise Damaged("its checksum is another")
        file.seek(len(said))
        return read(file)


class Hashed:
    """A file that is written to, whose bytes are hashed on their way."""

    def __init__(self, file: BinaryIO):
        self.file, self.sha256 = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Write bytes."""
        self.sha256.update(data)
        return self.file.write(data)

    def flush(self) -> None:
        """Do nothing: the file is closed right after."""


def _mapping(content: bytes) -> dict[str, Any]:
    try:
        data = json.loads(_decoded(content))
        json.dumps(data)  # nested so deeply that it could not be written again
    except (ValueError, RecursionError) as error:
        raise Damaged(_line(error)) from None
    if not isinstance(data, dict):
        raise Damaged(f"it holds no mapping, but {type(data).__name__}")
    return data


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Damaged(_line(error)) from None


def _canonical(data: dict[str, Any]) -> str:
    return json.dumps(data, sort_keys=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
