"""Files of weights on the Hugging Face Hub, by `huggingface_hub` (an optional extra)."""

import re
from pathlib import Path
from typing import Any

from zoo.errors import ZooError, optional
from zoo.system.http import offline
from zoo.weights.folder import CONFIG, FILES, WEIGHTS

_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w.-]+))?", re.ASCII)


def fetch(name: str, folder: Path | None = None) -> Path:
    """Return the folder of weights of a repository; nothing else that it holds is fetched.

    Args:
        name: `OWNER/NAME`, or `OWNER/NAME@REVISION`: a branch, a tag or a commit.
        folder: where the files are put; left out, in the cache of `huggingface_hub`, from which
            they are taken where there is no network.

    Raises:
        ZooError: `ZOO_OFFLINE` is set, the Hub refuses, or there are no weights.
    """
    repository, revision = _parts(name)
    hub = optional("huggingface_hub", "hub", "the Hub")
    where = {"local_dir": folder, "local_files_only": offline()}
    try:
        found = hub.snapshot_download(
            repository, revision=revision, allow_patterns=list(FILES), **where
        )
    except Exception as error:  # any error of the Hub or the network
        raise refused(name, error) from None
    if missing := [each for each in (CONFIG, WEIGHTS) if not Path(found, each).is_file()]:
        raise ZooError(f"{name} on the Hub holds no weights of the zoo: it has no {missing[0]}.")
    return Path(found)


def connect(repository: str) -> Any:
    """Return the library of the Hub, to write to a repository.

    Raises:
        ZooError: it is missing, or must not be asked, or the name is of no repository.
    """
    if _parts(repository)[1] is not None:
        raise ZooError(f"{repository!r} is a revision; write OWNER/NAME.")
    if offline():
        raise refused(repository, OSError())
    return optional("huggingface_hub", "hub", "the Hub")


def refused(name: str, error: Exception) -> ZooError:
    """Return what to say of an error of the Hub, or of the way there."""
    if offline():
        return ZooError(f"ZOO_OFFLINE forbids talking to the Hub about {name}.")
    said = " ".join(str(error).split())[:300] or type(error).__name__
    return ZooError(
        f"{name}: the Hub did not do it ({said}). Check the name, the network, and for what "
        "needs an account `hf auth login`."
    )


def _parts(name: str) -> tuple[str, str | None]:
    known = _NAME.fullmatch(name)
    if known is None or ".." in name:
        raise ZooError(f"{name!r} is no repository of the Hub; write OWNER/NAME.")
    return known[1], known[2]
