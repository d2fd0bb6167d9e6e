"""Arrays in `.npy` files that are larger than memory: mapped for reading, written row by row."""

import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from zoo.errors import ZooError, cause
from zoo.system.files import writing


class ArrayFile:
    """An `.npy` file that rows are appended to; the header is completed when it is closed."""

    def __init__(self, path: Path, dtype: type, columns: tuple[int, ...] = ()):
        """Begin a file of numbers whose rows have the shape `columns`."""
        self._dtype, self._columns, self._rows = np.dtype(dtype), columns, 0
        with writing(path):
            self._file = path.open("wb")
            self._write_header()

    def __len__(self) -> int:
        return self._rows

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(self, *error: object) -> None:
        with writing(self._file.name):
            if error[0] is None:
                self._file.seek(0)
                self._write_header()
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()

    def append(self, rows: np.ndarray) -> None:
        """Write rows (B, *columns), in the type of the file."""
        rows = np.ascontiguousarray(rows, self._dtype)
        if rows.shape[1:] != self._columns:
            raise ValueError(f"rows of the shape {rows.shape[1:]}, not {self._columns}")
        with writing(self._file.name):
            self._file.write(rows.data)
        self._rows += len(rows)

    def _write_header(self) -> None:
        # numpy leaves room in it for any number of rows, so that its length does not change.
        shape = (self._rows, *self._columns)
        header = {
            "descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape
        }  # fmt: skip
        npy.write_array_header_1_0(self._file, header)


def map_array(path: Path, member: str | None = None) -> np.ndarray:
    """Map the array of an `.npy` file for reading, or of a member of an `.npz`.

    A member is unpacked first, into a file beside the archive that is gone with the array.

    Raises:
        ZooError: there is no such file, or it is no plain array of numbers, or a part of one.
    """
    try:
        if member is None:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            folder = path.parent if os.access(path.parent, os.W_OK) else None
            with (
                zipfile.ZipFile(path) as archive,
                archive.open(f"{member}.npy") as packed,
                tempfile.NamedTemporaryFile(suffix=".npy", dir=folder) as file,
            ):
                shutil.copyfileobj(packed, file)
                file.flush()
                array = np.load(file.name, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise ZooError(f"there is no file {path.name}; copy it again, or write its path.") from None
    except (OSError, MemoryError):  # which say nothing of the file
        raise
    except Exception as error:  # numpy and zipfile raise what the bytes suggest
        raise ZooError(
            f"{path.name} is damaged, cut short, or no plain array of numbers ({cause(error)}); "
            "copy or write it again."
        ) from None
    if not isinstance(array, np.ndarray):
        raise ZooError(f"{path.name} is no .npy file but an archive; copy or write it again.")
    return array
