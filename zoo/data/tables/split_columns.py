"""The columns of a table that say which part of the split its nodes are of; they are no features.

One column, `split`, has the words train, val and test; or there is a mask for each part, called as
PyG and DGL call it, `train_mask`, `val_mask` and `test_mask`, or `train`, `val` and `test`. Several
splits are lists, or columns `train_mask.0`, `train_mask.1` and so on.
"""

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zoo.data.files.graph_arrays import PARTS
from zoo.data.tables.cells import held, numbers, texts
from zoo.data.tables.read import frame_of
from zoo.errors import ZooError, brief, suggestion

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Masks = dict[str, np.ndarray]  # of each part (S, N) bool

_MASK = re.compile(r"(train|val|valid|validation|test)([_ -]?masks?)?(?:([._])(\d+))?", re.I)
_TRUTH = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False, "": False}
_MOST = 12  # different values of a column that may be a mask: each way of writing one, and nothing


class MaskName(NamedTuple):
    """What the name of a column says: the part, whether it says `mask`, and which of the splits."""

    part: str
    sure: bool
    number: int | None


class SplitColumns(NamedTuple):
    """The split of a table, None where it has none, and which of its columns are no features."""

    masks: Masks | None = None
    columns: tuple[str, ...] = ()


def mask_names(names: Iterable[str], named: Collection[str]) -> dict[str, MaskName]:
    """Return the columns that are called like masks of parts.

    Where one of them is named as something else, such as a feature or the label, those called in
    the same way are none.

    Args:
        names: of the columns.
        named: those that somebody has said to be something else.
    """
    masks = {}
    for name in names:
        told = _MASK.fullmatch(name.strip())
        if told and (told[2] or told[3] != "_"):  # test_1 is one of several scores
            part = next(each for each in PARTS if told[1].lower().startswith(each))
            masks[name] = MaskName(part, told[2] is not None, told[4] and int(told[4]))
    others = {mask.sure for name, mask in masks.items() if name in named}
    return {name: mask for name, mask in masks.items() if mask.sure not in others}


def read_split(
    table: "DataFrame",
    split: str | None,
    masks: Mapping[str, MaskName],
    where: str,
    *,
    needed: bool = True,
) -> SplitColumns:
    """Return the split that the columns say; of masks one line tells which they are.

    What is called `mask` is one. A column `test` may as well be a score: it is a mask where it
    holds nothing but true and false, or 1 and 0, and the other parts have one too.

    Args:
        table: with the columns of the split at least.
        split: the column that has the words train, val and test; None: there is none.
        masks: the columns that are called like masks, of `mask_names`.
        where: what the table is called in errors.
        needed: False where nothing is divided: what is wrong with a split is not told then.

    Raises:
        ZooError: the words are others, or there are masks of some of the parts alone.
    """
    sure = {name: _mask(table[name], name) for name, mask in masks.items() if mask.sure}
    like = _plain_masks(table, masks)
    taken = [*sure, *(like if {masks[name].part for name in like} == {*PARTS} else ())]
    if split is not None:
        found = _by_words(table[split], split, where)
        if taken:
            _tell(f"{where}: the split is that of {split!r}; {_listed(taken)} are no features.")
        return SplitColumns(found, (*taken, split))
    told = dict(sorted((sure or like).items(), key=lambda each: PARTS.index(masks[each[0]].part)))
    if not told:
        return SplitColumns()
    try:
        found = _together(told, masks, where)
    except ZooError:
        if needed:
            raise
        return SplitColumns(None, (*taken,))
    if needed:
        sizes = _listed(f"{found[part][0].sum():,}" for part in PARTS)
        count = len(found["train"])
        what = f"are the split, {sizes} nodes," if count == 1 else f"are {count} splits"
        fix = "Where they are features, name all features: `columns: [...]`."
        _tell(f"{where}: {_listed(told)} {what} and no features. {fix}")
    return SplitColumns(found, (*taken,))


def without_split(features: Any, masks: Any, feature_names: Any) -> tuple[Any, Any]:
    """Return features without the columns of a split, and the masks that these hold.

    Args:
        features: a table of pandas or Polars; anything else is returned as it is.
        masks: those that are given already, in whose place none are taken; None: there are none.
        feature_names: names that are given to the features, which are features then; None: none.

    Raises:
        ZooError: as `read_split`.
    """
    import pyarrow

    names = list(getattr(features, "columns", ()))
    if feature_names is not None or not all(isinstance(each, str) for each in names):
        return features, masks
    split, found = "split" if "split" in names else None, mask_names(names, ())
    own = {name: features[name] for name in (*found, *([split] if split else []))}
    if not own:
        return features, masks
    arrow = {name: each.to_arrow() if hasattr(each, "to_arrow")
             else pyarrow.array(each, from_pandas=True) for name, each in own.items()}  # fmt: skip
    table = frame_of(pyarrow.table(arrow))
    read = read_split(table, split, found, "features", needed=masks is None)
    if not read.columns:
        return features, masks
    return features[[each for each in names if each not in read.columns]], masks or read.masks


def _by_words(column: "Series", name: str, where: str) -> Masks:
    """Return what a column of words says; who divides nodes by it refuses empty parts."""
    words = texts(column)
    if other := sorted(set(words.tolist()) - {"", *PARTS}):
        masks = ""
        if other[0].lower() in _TRUTH:
            masks = " Masks are three columns, train_mask, val_mask and test_mask, of no option."
        raise ZooError(
            f"{where}: {name!r} holds {brief(other[0])}; write train, val or test, or nothing for "
            f"nodes in none: {suggestion(other[0], PARTS)} If it is a feature, name all features: "
            f"`columns: [...]`.{masks}"
        )
    return {part: (words == part)[None] for part in PARTS}


def _mask(column: "Series", name: str) -> np.ndarray | None:
    """Return a column of truth values as (N,), of lists of them as (N, S); None of other columns.

    What is missing is false.
    """
    if held(column) == "list":
        found = numbers(column, name)
        return found == 1 if np.isin(found[~np.isnan(found)], (0, 1)).all() else None
    if held(column) == "other" or len(values := column.dropna().unique()) > _MOST:
        return None
    truth = {each: _TRUTH.get(str(each).strip().lower()) for each in values}
    if None in truth.values():
        return None
    return column.isin([each for each, told in truth.items() if told]).to_numpy(bool)


def _plain_masks(table: "DataFrame", masks: Mapping[str, MaskName]) -> dict[str, np.ndarray]:
    """Return the masks that are not called so: of all parts, else those that are hardly features.

    These are none where nothing is true; `valid` is a word for much else; and a number behind a
    name is what pandas writes where a name is there twice.
    """
    found = {name: _mask(table[name], name) for name, mask in masks.items() if not mask.sure}
    like = {name: mask for name, mask in found.items() if mask is not None}
    others = {name: mask for name, mask in like.items() if name.lower() != "valid"}
    for each in (others, like):
        if {masks[name].part for name in each} == {*PARTS}:
            return each
    return {name: mask for name, mask in others.items() if name.isalpha() and mask.any()}


def _together(
    told: Mapping[str, np.ndarray | None], names: Mapping[str, MaskName], where: str
) -> Masks:
    """Return masks (S, N) of the three parts.

    Raises:
        ZooError: a part has none or two, or one holds something else than truth values.
    """
    fix = "rename what is a feature, or name all features: `columns: [...]`."
    if strange := next((name for name, mask in told.items() if mask is None), None):
        raise ZooError(
            f"{where}: {strange!r} is called like a mask and holds something else than true and "
            f"false, or 1 and 0; write these, or {fix}"
        )
    own = {part: [each for each in told if names[each].part == part] for part in PARTS}
    if lost := [part for part in PARTS if not own[part]]:
        ending = "_mask" if all(names[each].sure for each in told) else ""
        others = [name for name, each in names.items() if each.part in lost and name not in told]
        beside = f" ({_listed(others)} holds other values)" if others else ""
        raise ZooError(
            f"{where}: of the masks only {_listed(told)} {'is' if len(told) == 1 else 'are'} "
            f"there{beside}; write {_listed(f'{part}{ending}' for part in lost)} too, or {fix}"
        )
    found = {}
    for part, columns in own.items():
        places = [-1 if (number := names[each].number) is None else number for each in columns]
        if len({*places}) < len(places):
            raise ZooError(f"{where}: {_listed(columns)} are masks of one part; keep one.")
        ordered = [columns[each] for each in np.argsort(places)]
        found[part] = np.concatenate([np.atleast_2d(told[each].T) for each in ordered])
    return found


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    shown = [*first[:5], *(["..."] if len(first) > 5 else [])]
    return f"{', '.join(shown)} and {last}" if first else last


def _tell(text: str) -> None:
    logging.getLogger(__name__).warning(text)
