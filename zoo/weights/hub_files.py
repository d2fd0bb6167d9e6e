"""Files of weights on the Hugging Face Hub, by `huggingface_hub` (an optional extra)."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from zoo.errors import ZooError, optional
from zoo.weights.folder import CARD, CONFIG, TOKENIZER, WEIGHTS, read_config

FILES = (WEIGHTS, CONFIG, CARD)


def download(repository: str, folder: Path) -> None:
    """Download the files of weights into a folder, whatever they hold.

    Raises:
        ZooError: `ZOO_OFFLINE` is set, the Hub refuses, or a file is missing.
    """
    hub = connect(repository)
    folder.mkdir(parents=True, exist_ok=True)
    _fetch(hub, repository, FILES, folder)
    _fetch(hub, repository, names_of(folder)[len(FILES) :], folder)
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # what the Hub remembers of it


def _fetch(hub, repository: str, names: Sequence[str], folder: Path) -> None:
    try:
        for name in names:
            hub.hf_hub_download(repository, name, local_dir=folder)
    except Exception as error:  # any error of the Hub or the network
        raise refused(repository, error) from None


def names_of(folder: Path) -> list[str]:
    """Return the files of a folder of weights, as its description says, these three first."""
    text = read_config(folder / CONFIG)["about"].tokenizer is not None
    return [*FILES, *([TOKENIZER] if text else [])]


def connect(repository: str):
    """Return the library of the Hub.

    Raises:
        ZooError: it is missing, or must not be asked, or the name is of no repository.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.ASCII) or ".." in repository:
        raise ZooError(f"{repository!r} is no repository of the Hub; write OWNER/NAME.")
    if os.environ.get("ZOO_OFFLINE", "") not in ("", "0"):
        raise ZooError(f"ZOO_OFFLINE forbids talking to the Hub about {repository}.")
    return optional("huggingface_hub", "hub", "the Hub")


def refused(repository: str, error: Exception) -> ZooError:
    """Return what to say of an error of the Hub, or of the way there."""
    said = " ".join(str(error).split())[:300] or type(error).__name__
    return ZooError(
        f"{repository}: the Hub did not do it ({said}). Check the name, the network, and for what "
        "needs an account `hf auth login`."
    )
