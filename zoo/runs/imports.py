"""The code that recipes import: each file is read and run once, also where Python imported it.

A recipe's `imports` are run by what trains with that recipe, `--resume` included, and by nothing
that only looks at it or at a finished run.
"""

import contextlib
import hashlib
import importlib
import importlib.util
import logging
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from zoo.config.options import LOADED
from zoo.errors import ZooError, blame, cause
from zoo.runs.run_folder import read_environment


def import_sources(sources: Sequence[str], folder: Path) -> dict[str, str]:
    """Import what a recipe's `imports` names: Python files, relative to a folder, or modules.

    Returns:
        The SHA-256 of each file that was run, by its absolute path; of a package, of all its code.

    Raises:
        ZooError: a file or module is missing, or fails while it is imported.
    """
    digests = {}
    for source in sources:
        try:
            if source.endswith(".py"):
                path = (folder / source).resolve()
                digests[str(path)] = _import_file(path)
            else:
                digests.update(_import_module(source))
        except ZooError:
            raise
        except (Exception, SystemExit) as error:  # a user's file may raise anything
            why = blame(error) or (
                f"{cause(error)}; correct it, or name a Python file or what is installed."
            )
            raise ZooError(f"imports: {source!r} cannot be imported: {why}") from error
    return digests


def absolute(source: str, folder: Path) -> str:
    """Return a source as a recipe in any other folder has to name it."""
    return str((folder / source).resolve()) if source.endswith(".py") else source


def warn_of_changed_code(imported: Mapping[str, str], weights: Path | None) -> None:
    """Warn where code was imported that has changed since a run trained weights with it.

    Args:
        imported: what `import_sources` returned.
        weights: the folder of a seed of the run, or of weights that are of none.
    """
    files: Mapping[str, str] = {}
    if imported and weights is not None:
        with contextlib.suppress(ZooError):
            recorded = read_environment(weights.parent)
            files = (recorded and recorded.imports) or {}
    before = {(Path(path).name, digest) for path, digest in files.items()}
    names = {name for name, _ in before}
    for path, digest in imported.items():
        if (name := Path(path).name) in names and (name, digest) not in before:
            logging.getLogger(__name__).warning(
                f"{path} has changed since {weights} was trained with it: what it computes may not "
                "be what was trained."
            )


def _import_file(path: Path) -> str:
    if not path.is_file():
        raise ZooError(f"imports: there is no file {path}. Name a Python file beside the recipe.")
    content = path.read_bytes()  # once: what is hashed is what runs
    digest = hashlib.sha256(content).hexdigest()
    # A file is run once, and again only when it has changed; two files of one name do not meet.
    name = f"zoo_import {path} {digest}"
    if name in sys.modules or any(_is_of(path, module) for module in [*sys.modules.values()]):
        return digest
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path))
    sys.modules[name] = module
    if str(path.parent) not in sys.path:  # the last place where its own imports are looked for
        sys.path.append(str(path.parent))
    try:
        exec(compile(content, path, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return digest


def _is_of(path: Path, module: object) -> bool:
    """Return whether Python has imported a file as this module, and it has not changed since.

    What the module holds, such as a list that an attention fills, is then that of whoever imported
    it. It is unchanged if it is older than the tables that it adds to, or as the bytecode says that
    Python keeps of it, by its time and size.
    """
    file, kept = getattr(module, "__file__", None), getattr(module, "__cached__", None)
    if not (file and kept) or Path(file).name != path.name or Path(file).resolve() != path:
        return False
    now = path.stat()
    if now.st_mtime < LOADED:
        return True
    with contextlib.suppress(OSError):
        found = int(now.st_mtime) & 0xFFFFFFFF, now.st_size & 0xFFFFFFFF
        return Path(kept).read_bytes()[4:16] == struct.pack("<III", 0, *found)
    return False


def _import_module(name: str) -> dict[str, str]:
    """Import what is installed; return the SHA-256 of its code, if that is Python, by its path.

    That of `a.b` is all of `a`, which runs before it.
    """
    spec = importlib.util.find_spec(name.partition(".")[0])
    digests = {}
    for place in (spec and (spec.submodule_search_locations or [spec.origin])) or ():
        path = Path(place or "built-in")
        files = sorted(path.rglob("*.py")) or [path] * path.is_file()
        content = b"".join(file.read_bytes() for file in files)
        digests[str(path)] = hashlib.sha256(content).hexdigest()
    importlib.import_module(name)
    return digests
