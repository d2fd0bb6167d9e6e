"""What `part.json` says of a partition and each of its files, and whether they are that still."""

from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError
from torch import Tensor

from zoo.config.options import Spec
from zoo.datasets.mapped.array_file import open_mapped
from zoo.datasets.mapped.metadata import Array
from zoo.datasets.mapped.reader import tensor
from zoo.datasets.mapped.writer import described, sha256
from zoo.errors import ZooError

WHOLE = ("new", "old", "offsets")
"""The arrays that every machine reads."""


class Told(BaseModel):
    """What `part.json` says.

    Attributes:
        name: the graph's name.
        columns: F, of its features.
        dtype: type of its features.
        transform: what was done to the features, in the words of `FEATURES`.
        sample: SHA-256 of edges and features of some of the nodes.
        ends: the new number after the last one of each part, (R,).
        arrays: file, without its ending, to what it holds.
    """

    model_config = ConfigDict(extra="forbid")
    name: str
    columns: NonNegativeInt
    dtype: str
    transform: Spec
    sample: str
    ends: list[PositiveInt]
    arrays: dict[str, Array]


def own_arrays(part: int) -> tuple[str, str]:
    """Return the names of the arrays of a part: its nodes' neighbours, and their features."""
    return f"part{part}/neighbours", f"part{part}/x"


def describe(folder: Path) -> dict[str, Array]:
    """Return what each array file of a folder, and of those in it, holds."""
    found = sorted(folder.rglob("*.npy"))
    names = (each.relative_to(folder).with_suffix("").as_posix() for each in found)
    return dict(zip(names, map(described, found), strict=True))


def read_told(config: Path) -> Told:
    """Read a `part.json`.

    Raises:
        ValueError: it is none, or of an earlier version, which noted no checksums.
        OSError: it cannot be read.
    """
    if config.exists() and not config.is_file():
        raise ValueError("no regular file")
    try:
        return Told.model_validate_json(config.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["loc"] == ("arrays",) and first["type"] == "missing":
            raise ValueError("an earlier version wrote it, without checksums of files") from None
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from None


def open_array(folder: Path, name: str, arrays: dict[str, Array]) -> Tensor:
    """Map an array of a partition, and raise one of `BROKEN` unless it is what was written down."""
    array, said = open_mapped(folder / f"{name}.npy"), arrays[name]
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name}.npy is no .npy file")
    if list(array.shape) != said.shape or array.dtype.str != said.type:
        raise ValueError(
            f"{name}.npy is {array.dtype.str} of the shape {array.shape}, and was {said.type} of "
            f"the shape {tuple(said.shape)}"
        )
    return tensor(array)


def check_sums(folder: Path, names: tuple[str, ...], arrays: dict[str, Array]) -> None:
    """Read some files of a partition and compare their checksums with those written down.

    Raises:
        ZooError: one has changed, or cannot be read.
    """
    for name in names:
        path = folder / f"{name}.npy"
        try:
            same = sha256(path) == arrays[name].sha256
        except OSError as error:
            raise ZooError(f"{path} cannot be read ({error.strerror or error}).") from None
        if not same:
            raise ZooError(
                f"{path} has changed since it was written: copy it again, or partition the graph "
                "again."
            )
