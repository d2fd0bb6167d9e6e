"""The code that recipes import: read once, run for who asked for it alone, signed in its run.

A recipe's `imports` are run by what trains with that very recipe. A run's folder may be somebody
else's: `signature.json` says that this user began the run on this machine, with this recipe and
these files, so that going on with it runs nothing new.
"""

import hashlib
import importlib
import importlib.util
import json
import logging
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.config import own_key
from zoo.errors import ZooError
from zoo.experiments.run_folder import read_bytes

SIGNATURE = "signature.json"

Trust = bool | Mapping[str, str]
"""Whether to run what a recipe imports: nothing, all, or files of these SHA-256, by their paths."""


def import_sources(sources: Sequence[str], folder: Path, trust: Trust = True) -> dict[str, str]:
    """Import what a recipe's `imports` names: Python files, relative to a folder, or modules.

    Returns:
        The SHA-256 of each file that was run, by its absolute path; of a package, of all its code.

    Raises:
        ZooError: a file or module is missing, fails while it is imported, or is not the one that
            was trusted.
    """
    ran = {}
    for source in sources:
        try:
            if source.endswith(".py"):
                path = (folder / source).resolve()
                ran[str(path)] = _import_file(path, trust)
            else:
                ran.update(_import_module(source, trust))
        except ZooError:
            raise
        except (Exception, SystemExit) as error:  # a user's file may raise anything
            raise ZooError(f"imports: {_failure(source, error)}") from error
    return ran


def _failure(source: str, error: BaseException) -> str:
    """Return why a source cannot be imported, with the line of a file that it is in."""
    said = f"{type(error).__name__}: {error}".removesuffix(".")
    missing = getattr(error, "name", None)
    if not source.endswith(".py") and missing and f"{source}.".startswith(f"{missing}."):
        return f"{source!r} cannot be imported: {said}. Write a Python file, or what is installed."
    places = traceback.extract_tb(error.__traceback__)
    own = [each for each in places if Path(each.filename).name == Path(source).name]
    place = (own or places)[-1]
    at = "" if isinstance(error, SyntaxError) else f" in line {place.lineno} of {place.filename}"
    return f"{source!r} cannot be imported: {said}{at}. Correct it, and call the command again."


def absolute(source: str, folder: Path) -> str:
    """Return a source as a recipe in any other folder has to name it."""
    return str((folder / source).resolve()) if source.endswith(".py") else source


def signature(recipe: Mapping[str, Any], code: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the content of `signature.json`, None where this user can sign nothing.

    Args:
        recipe: the plain data of `recipe.yaml`.
        code: what `import_sources` returned.
    """
    said = {"recipe": _digest(_plain(recipe)), "imports": dict(code)}
    made = own_key.sign(_plain(said))
    return made and {**said, "hmac_sha256": made}


def signed_code(folder: Path, recipe: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the files that a run may import again, by their SHA-256: those that began it.

    Args:
        folder: of a run.
        recipe: the plain data that was read from its `recipe.yaml`.

    Raises:
        ZooError: the recipe imports code, and not this user, or another recipe, began the run here.
    """
    if "imports" not in recipe:
        return {}
    said, made = said_of(folder)
    if not own_key.is_signed(_plain(said), made):
        why = "nothing shows that you began this run on this machine"
    elif said["recipe"] != _digest(_plain(recipe)):
        why = "its recipe.yaml has changed since you began this run"
    else:
        return said["imports"]
    raise ZooError(
        f"the recipe of {folder} imports code, {', '.join(recipe['imports'])}, and {why}. Read "
        "recipe.yaml and these files, and write `--trust` if they may run as you."
    )


def said_of(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the recipe and the files that `signature.json` speaks of, and the signature itself.

    They may be anybody's: `signed_code` looks whether they are this user's.
    """
    try:
        said = json.loads(read_bytes(folder / SIGNATURE))
        recipe, files, made = (said[key] for key in ("recipe", "imports", "hmac_sha256"))
        texts = [recipe, made, *files, *files.values()]
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return {}, ""
    plain = all(isinstance(each, str) for each in texts)
    return ({"recipe": recipe, "imports": files}, made) if plain else ({}, "")


def warn_of_changed_code(ran: Mapping[str, str], weights: Path | None) -> None:
    """Warn where code was imported that has changed since a run trained weights with it.

    Args:
        ran: what `import_sources` returned.
        weights: the folder of a seed of the run, or of weights that are of none.
    """
    files = said_of(weights.parent)[0].get("imports", {}) if weights else {}
    then = {(Path(path).name, digest) for path, digest in files.items()}
    names = {name for name, _ in then}
    for path, digest in ran.items():
        if (name := Path(path).name) in names and (name, digest) not in then:
            logging.getLogger(__name__).warning(
                f"{path} has changed since {weights} was trained with it: what it computes may not "
                "be what was trained."
            )


def _import_file(path: Path, trust: Trust) -> str:
    if not path.is_file():
        raise ZooError(f"imports: there is no file {path}. Name a Python file beside the recipe.")
    content = path.read_bytes()  # once: what is looked at is what runs
    digest = _digest(content)
    if isinstance(trust, Mapping) and trust.get(str(path)) != digest:
        raise ZooError(_changed(path))
    # A file is run once, and again only when it has changed; two files of one name do not meet.
    name = f"zoo_import {path} {digest}"
    if name in sys.modules:
        return digest
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        exec(compile(content, path, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return digest


def _import_module(name: str, trust: Trust) -> dict[str, str]:
    """Import what is installed; return the SHA-256 of its code, if that is Python, by its path.

    That of `a.b` is all of `a`, which runs before it.
    """
    spec = importlib.util.find_spec(name.partition(".")[0])
    found = {}
    for each in (spec and (spec.submodule_search_locations or [spec.origin])) or ():
        path = Path(each or "built-in")
        files = sorted(path.rglob("*.py")) or [path] * path.is_file()
        found[str(path)] = _digest(b"".join(each.read_bytes() for each in files))
    for place, digest in found.items():
        if isinstance(trust, Mapping) and trust.get(place) != digest:
            raise ZooError(_changed(Path(place)))
    importlib.import_module(name)
    return found


def _changed(path: Path) -> str:
    return (
        f"imports: {path} has changed since you began this run, or is another. Read it, and write "
        "`--trust` if it may run as you."
    )


def _plain(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
