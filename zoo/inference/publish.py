"""Weights made ready to be published: as small as their scores allow, with cards and an index.

A weight is written in 16 bits where the model then scores what it scored, to the fourth decimal, on
validation and on test. The folder that comes of it is what `ZOO_WEIGHTS` names, wherever it is
copied to.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.config.options import Spec
from zoo.config.shipped import recipe_names
from zoo.data.load import DATASETS
from zoo.data.load.named import LICENCES
from zoo.errors import ZooError
from zoo.inference.evaluate import evaluate_part
from zoo.registry import Model
from zoo.system.files import check_place, draft_folder, replace_folder, write_whole, writing
from zoo.tasks.labels import TRANSLATION
from zoo.weights.folder import CONFIG, FILES, WEIGHTS, read_config, sha256_of
from zoo.weights.index import INDEX, Entry, as_name, read_index
from zoo.weights.load import load, save

PARTS = ("val", "test")


def publish(
    chosen: Mapping[str, tuple[Path, Spec | None]],
    folder: Path,
    *,
    largest: int | None = None,
    together: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Write weights into a folder, each under its name, and their index as they come.

    What the index has under other names stays in it.

    Args:
        chosen: name to the folder of weights, and the graph of training as the run names it.
        folder: where they are written.
        largest: bytes of weights that one may have; larger ones are left out.
        together: bytes that all may have; those that come too late are left out.

    Yields:
        A row for each: `name`, `bytes`, `bits`, `metric`, `test`, and `left_out`, why or None.

    Raises:
        ZooError: a name is none, or that of something else that is there; weights or the index of
            before are damaged, the index cannot be written, or weights do not score what they say
            they do.
    """
    path = folder / INDEX
    _known(path)
    check_place(path)
    if unfit := [each for each in chosen if each != as_name(each)]:
        raise ZooError(f"weights are not called {unfit[0]!r}, but {as_name(unfit[0])!r}.")
    for name in chosen:
        _check_place(folder / name)
    for name, (source, trained_on) in chosen.items():
        model = load(source)
        bits = _shrink(model, source, trained_on)
        size = sum(each.nbytes for each in model.state_dict().values())
        held = sum(each.bytes for own, each in _known(path).items() if own != name)
        left_out = None
        if largest is not None and size > largest:
            left_out = f"larger than {largest:,} bytes"
        elif together is not None and held + size > together:
            left_out = f"all together would be larger than {together:,} bytes"
        about = model.about
        if left_out is None:
            own = _write(model, folder / name)
            entries = _known(path) | {name: own}  # others may have published there meanwhile
            plain = {key: entry._asdict() for key, entry in entries.items()}
            text = json.dumps(dict(sorted(plain.items())), indent=2) + "\n"
            write_whole(path, lambda draft, text=text: draft.write_text(text, encoding="utf-8"))
            size = own.bytes
        row = {"name": name, "bytes": size, "bits": bits, "metric": about.metric}
        yield {**row, "test": about.scores["test"], "left_out": left_out}


def _check_place(place: Path) -> None:
    """Refuse to write where something else than weights lies."""
    if os.path.lexists(place):
        try:
            if place.is_symlink():
                raise ZooError("it is a link")
            read_config(place / CONFIG)
        except ZooError:
            raise ZooError(
                f"{place} is there, and is no folder of weights; move it away, or write to another "
                "folder by --to."
            ) from None


def _write(model: Model, place: Path) -> Entry:
    """Write weights beside those of before, and put them in their place when they are whole."""
    about = model.about.model_copy(update={"licence": _licence(place.name, model.about.data)})
    with draft_folder(place) as draft:
        save(model, draft, about)
        own = _entry(draft, model)
        _check_place(place)
        with writing(place):
            if place.exists():
                _take_along(place, draft)
            replace_folder(place, draft)
    return own


def _take_along(place: Path, draft: Path) -> None:
    """Give a draft what others keep in the folder that it replaces, which holds it as well."""

    def ours(folder: str, names: list[str]) -> Sequence[str]:
        return FILES if folder == str(place) else ()

    shutil.copytree(place, draft, True, ours, _link, dirs_exist_ok=True)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a disk without such links, or a file of another user
        shutil.copy2(source, target)


def _known(path: Path) -> dict[str, Entry]:
    return read_index(path) if path.is_file() else {}


def _shrink(model: Model, source: Path, trained_on: Spec | None) -> int:
    """Round weights to 16 bits where scores stay, and return how many bits they have.

    Where training measures in another way, in batches or in bfloat16, the weights are given the
    scores that are measured here.
    """
    scores = model.about.scores or {}
    if not set(PARTS) <= set(scores):
        raise ZooError(f"{source} says no scores of validation and test; train it by a recipe.")
    whole = {key: each.clone() for key, each in model.state_dict().items()}
    found = _scores(model, trained_on)
    train = (model.about.recipe or {}).get("train", {})
    if train.get("evaluate") == "batches" or train.get("precision") == "bf16":
        scores = {**scores, **found}
        model.about = model.about.model_copy(update={"scores": scores})
    if not _same(found, scores):
        raise ZooError(
            f"{source} scores {found}, and says {scores}: it was trained on other data, or with "
            "another version of the zoo. Train it again."
        )
    rounded = {key: _rounded(each) for key, each in whole.items()}
    model.load_state_dict(rounded)
    if all(map(_finite, rounded.values())) and _same(_scores(model, trained_on), scores):
        model.half()
        return 16
    model.load_state_dict(whole)
    return 32


def _scores(model: Model, trained_on: Spec | None) -> dict[str, float]:
    how = {"beams": 1} if type(model).tasks == (TRANSLATION,) else {}  # as training measures
    return {
        part: evaluate_part(model, None, part, trained_on=trained_on, **how)["score"]
        for part in PARTS
    }


def _same(found: Mapping[str, float], said: Mapping[str, float]) -> bool:
    return all(abs(found[part] - said[part]) < 0.5e-4 for part in PARTS)


def _rounded(weight: Tensor) -> Tensor:
    return weight.half().to(weight.dtype) if weight.dtype == torch.float32 else weight


def _finite(weight: Tensor) -> bool:
    return bool(weight.isfinite().all())


def _licence(name: str, data: str | None) -> str:
    """Return the licence of the zoo's own recipes; whose weights others are, nobody here knows."""
    own = name in recipe_names() and data in DATASETS
    weights = "MIT, as the zoo" if own else "not stated"
    return f"weights {weights}; data {LICENCES.get(data or '', 'not stated')}"


def _entry(folder: Path, model: Model) -> Entry:
    about = model.about
    return Entry(
        model=(about.recipe or {}).get("model", {}).get("name", ""),
        data=about.data,
        metric=about.metric,
        val=about.scores["val"],
        test=about.scores["test"],
        bytes=(folder / WEIGHTS).stat().st_size,
        files={file: sha256_of(folder / file) for file in FILES if (folder / file).is_file()},
    )
