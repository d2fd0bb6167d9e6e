"""Stream `.npy` and `.npz` arrays, written and read block by block; object arrays are refused."""

import math
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.lib import format as npy

from zoo.errors import ZooError
from zoo.system.files import writing
from zoo.system.memory import available_memory


class ArrayFile:
    """An `.npy` file that rows are appended to; the header is completed when it is closed."""

    def __init__(self, path: Path, kind: type, columns: tuple[int, ...] = ()):
        """Begin a file of numbers of a kind whose rows have the shape `columns`."""
        self._kind, self._columns, self._rows = np.dtype(kind), columns, 0
        with writing(path):
            self._file = path.open("wb")
            self._header()

    def __len__(self) -> int:
        return self._rows

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(self, *error: object) -> None:
        with writing(self._file.name):
            if error[0] is None:
                self._file.seek(0)
                self._header()
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()

    def append(self, rows: np.ndarray) -> None:
        """Write rows (B, *columns), in the type of the file."""
        rows = np.ascontiguousarray(rows, self._kind)
        if rows.shape[1:] != self._columns:
            raise ValueError(f"rows of the shape {rows.shape[1:]}, not {self._columns}")
        with writing(self._file.name):
            self._file.write(rows.data)
        self._rows += len(rows)

    def _header(self) -> None:
        # numpy leaves room in it for any number of rows, so that its length does not change.
        kind = npy.dtype_to_descr(self._kind)
        shape = (self._rows, *self._columns)
        said = {"descr": kind, "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self._file, said)


class Stored(NamedTuple):
    """An array in an `.npy` file, or in an `.npz` under a name.

    Attributes:
        path: the file.
        member: the name in it; None in an `.npy`.
        shape: as it lies in the file, row by row: that of the transpose if it was written so.
        kind: type of its numbers.
        turned: whether it is the transpose.
    """

    path: Path
    member: str | None
    shape: tuple[int, ...]
    kind: np.dtype
    turned: bool

    def whole(self) -> np.ndarray:
        """Return all of it; raise ZooError if it does not fit into memory."""
        if 2 * math.prod(self.shape) * self.kind.itemsize > available_memory():
            raise ZooError(f"{self.path} does not fit into memory; is it what it should be?")
        return next(self.read(max(1, self.shape[0])), np.zeros(self.shape, self.kind))

    def read(self, rows: int, start: int = 0) -> Iterator[np.ndarray]:
        """Give at most `rows` rows at a time, from row `start`; the last of each is the end."""
        each = int(np.prod(self.shape[1:], dtype=np.int64))
        with _opened(self.path, self.member) as file:
            header_of(file)
            file.seek(start * each * self.kind.itemsize, os.SEEK_CUR)
            for begin in range(start, self.shape[0], rows):
                count = min(rows, self.shape[0] - begin)
                yield self._numbers(file, count * each).reshape(count, *self.shape[1:])

    def numbers(self, size: int, start: int) -> Iterator[np.ndarray]:
        """Give the numbers of row `start` of a two-dimensional array, `size` at a time."""
        with _opened(self.path, self.member) as file:
            header_of(file)
            file.seek(start * self.shape[1] * self.kind.itemsize, os.SEEK_CUR)
            for begin in range(0, self.shape[1], size):
                yield self._numbers(file, min(size, self.shape[1] - begin))

    def _numbers(self, file: IO[bytes], count: int) -> np.ndarray:
        raw = file.read(count * self.kind.itemsize)
        if len(raw) < count * self.kind.itemsize:
            raise ZooError(f"{self.path} is cut short; fetch or write it again.")
        return np.frombuffer(raw, self.kind)


def open_mapped(path: Path) -> np.ndarray:
    """Map an array file for reading; of what is none, raise what numpy does, or return no array."""
    if path.exists() and not path.is_file():
        raise ValueError("no regular file")
    with path.open("rb") as file:
        plain = file.read(1) == b"\x93"
        file.seek(0)
        if plain and header_of(file)[2].itemsize == 0:  # to map it would end the process
            raise ValueError("numbers of no bytes")
    return np.load(path, mmap_mode="r", allow_pickle=False)


def stored(path: Path, member: str | None = None) -> Stored:
    """Read the header of an array in a file.

    Raises:
        ZooError: it is no plain array of numbers.
    """
    try:
        if path.exists() and not path.is_file():
            raise ValueError("no regular file")
        with _opened(path, member) as file:
            shape, turned, kind = header_of(file)
            if min(shape, default=0) < 0:
                raise ValueError(f"the shape {shape}")
            if math.prod(shape) * kind.itemsize > _size(path, member) - file.tell():
                raise ZooError(f"{path} is cut short; fetch or write it again.")
    except FileNotFoundError:
        raise ZooError(f"there is no file {path}; write the path of an .npy.") from None
    except ZooError:
        raise
    except Exception as error:  # numpy and zipfile raise what the bytes suggest
        cause = " ".join(str(error).split())[:100]
        raise ZooError(f"{path} is no plain array in a file of numpy ({cause}).") from None
    if kind.kind not in "iufb":
        raise ZooError(
            f"{path} holds {kind}, and objects are never unpickled; write a plain array of numbers."
        )
    if not shape:
        raise ZooError(f"{path} holds one number; write an array.")
    return Stored(path, member, shape[::-1] if turned else shape, kind, turned)


def header_of(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return the shape of an array file, whether it lies column by column, and its type."""
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    version = npy.read_magic(file)
    if version not in readers:
        raise ValueError(f"format {version} of numpy")
    shape, turned, kind = readers[version](file)
    return tuple(map(int, shape)), turned, kind


def _opened(path: Path, member: str | None) -> IO[bytes]:
    if member is None:
        return path.open("rb")
    return zipfile.ZipFile(path).open(f"{member}.npy")


def _size(path: Path, member: str | None) -> int:
    if member is None:
        return path.stat().st_size
    return zipfile.ZipFile(path).getinfo(f"{member}.npy").file_size
