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

from zoo.config.shipped import recipe_names
from zoo.data.load import DATASETS
from zoo.data.load.named import LICENCES
from zoo.errors import ZooError
from zoo.inference.evaluate import evaluate_part
from zoo.registry import Model
from zoo.system.files import check_place, draft_folder, replace_folder, write_whole, writing
from zoo.tasks.labels import TRANSLATION
from zoo.weights.files import CONFIG, FILES, WEIGHTS, read_config, sha256_of
from zoo.weights.index import INDEX, Entry, as_name, read_index
from zoo.weights.save_and_load import load, save

PARTS = ("val", "test")


def publish(
    chosen: Mapping[str, Path],
    folder: Path,
    *,
    largest: int | None = None,
    together: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Write weights into a folder, each under its name, and their index as they come.

    What the index has under other names stays in it.

    Args:
        chosen: name to the folder of weights.
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
    _read_entries(path)
    check_place(path)
    if unfit := [name for name in chosen if name != as_name(name)]:
        raise ZooError(f"weights are not called {unfit[0]!r}, but {as_name(unfit[0])!r}.")
    for name in chosen:
        _check_replaceable(folder / name)
    for name, source in chosen.items():
        model = load(source)
        bits = _shrink(model, source)
        size = sum(weight.nbytes for weight in model.state_dict().values())
        others = sum(entry.bytes for own, entry in _read_entries(path).items() if own != name)
        left_out = None
        if largest is not None and size > largest:
            left_out = f"larger than {largest:,} bytes"
        elif together is not None and others + size > together:
            left_out = f"all together would be larger than {together:,} bytes"
        about = model.about
        if left_out is None:
            entry = _write(model, folder / name)
            entries = _read_entries(path) | {name: entry}  # others may have published meanwhile
            plain = {key: entries[key]._asdict() for key in sorted(entries)}
            text = json.dumps(plain, indent=2) + "\n"
            write_whole(path, lambda draft, text=text: draft.write_text(text, encoding="utf-8"))
            size = entry.bytes
        row = {"name": name, "bytes": size, "bits": bits, "metric": about.metric}
        yield {**row, "test": about.scores["test"], "left_out": left_out}


def _check_replaceable(place: Path) -> None:
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
    """Write weights beside those of before, and put them in their place when they are whole.

    What else somebody keeps in their folder stays.
    """

    def ignore(folder: str, names: list[str]) -> Sequence[str]:
        return FILES if folder == str(place) else ()

    about = model.about
    about = about.model_copy(update={"licence": _licence(place.name, about.data)})
    with draft_folder(place) as draft:
        save(model, draft, about)
        entry = Entry(
            model=(about.recipe or {}).get("model", {}).get("name", ""),
            data=about.data,
            metric=about.metric,
            val=about.scores["val"],
            test=about.scores["test"],
            bytes=(draft / WEIGHTS).stat().st_size,
            files={name: sha256_of(draft / name) for name in FILES if (draft / name).is_file()},
        )
        _check_replaceable(place)
        with writing(place):
            if place.exists():
                shutil.copytree(place, draft, True, ignore, dirs_exist_ok=True)
            replace_folder(place, draft)
    return entry


def _read_entries(path: Path) -> dict[str, Entry]:
    return read_index(path) if path.is_file() else {}


def _shrink(model: Model, source: Path) -> int:
    """Round weights to 16 bits where scores stay, and return how many bits they have.

    Where training measures in another way, in batches or in bfloat16, the weights are given the
    scores that are measured here.
    """
    scores = model.about.scores or {}
    if not set(PARTS) <= set(scores):
        raise ZooError(f"{source} says no scores of validation and test; train it by a recipe.")
    whole = {key: weight.clone() for key, weight in model.state_dict().items()}
    measured = _measure(model, source)
    train = (model.about.recipe or {}).get("train", {})
    if train.get("evaluate") == "batches" or train.get("precision") == "bf16":
        scores = {**scores, **measured}
        model.about = model.about.model_copy(update={"scores": scores})
    if not _same_scores(measured, scores):
        raise ZooError(
            f"{source} scores {measured}, and says {scores}: it was trained on other data, or with "
            "another version of the zoo. Train it again."
        )
    rounded = {
        key: weight.half().float() if weight.dtype == torch.float32 else weight
        for key, weight in whole.items()
    }
    model.load_state_dict(rounded)
    finite = all(bool(weight.isfinite().all()) for weight in rounded.values())
    if finite and _same_scores(_measure(model, source), scores):
        model.half()
        return 16
    model.load_state_dict(whole)
    return 32


def _measure(model: Model, folder: Path) -> dict[str, float]:
    how = {"beams": 1} if type(model).tasks == (TRANSLATION,) else {}  # as training measures
    return {part: evaluate_part(model, None, part, folder=folder, **how)["score"] for part in PARTS}


def _same_scores(measured: Mapping[str, float], noted: Mapping[str, float]) -> bool:
    return all(abs(measured[part] - noted[part]) < 0.5e-4 for part in PARTS)


def _licence(name: str, data: str | None) -> str:
    """Return the licence of weights, which is known of the zoo's own recipes alone."""
    own = name in recipe_names() and data in DATASETS
    weights = "MIT, as the zoo" if own else "not stated"
    return f"weights {weights}; data {LICENCES.get(data or '', 'not stated')}"
