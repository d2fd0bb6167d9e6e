"""Weights to and from the Hugging Face Hub, where `huggingface_hub` is installed and asked for.

The files are named as `huggingface_hub.PyTorchModelHubMixin` names them.
"""

import importlib
import os
import re
import tempfile
from pathlib import Path

from zoo.errors import ZooError
from zoo.weights.folder import CARD, CONFIG, WEIGHTS
from zoo.weights.load import load

FILES = (WEIGHTS, CONFIG, CARD)


def push(folder: Path | str, repository: str, *, private: bool = False) -> str:
    """Upload the three files of a folder of weights and return the address of the commit.

    Args:
        folder: what `zoo.save` wrote; it is loaded first, so that nothing broken is published.
        repository: `OWNER/NAME`; it is made if there is none.
        private: whether a new one is for its owner only.

    Raises:
        ZooError: the folder is broken, the network is forbidden, or the Hub refuses.
    """
    hub = _hub(repository)
    load(folder)
    try:
        hub.create_repo(repository, private=private, exist_ok=True)
        done = hub.upload_folder(
            repo_id=repository, folder_path=str(folder), allow_patterns=list(FILES)
        )
    except Exception as error:  # what the Hub and the network answer
        raise _refused(repository, error) from None
    return str(done)


def pull(repository: str, folder: Path | str) -> None:
    """Download a folder of weights, which appears only when it is whole and can be loaded.

    Args:
        repository: `OWNER/NAME`.
        folder: where; it must not exist.

    Raises:
        ZooError: the folder exists, the network is forbidden, the Hub refuses, or what comes is no
            weights of the zoo.
    """
    folder = Path(folder)
    if os.path.lexists(folder):
        raise ZooError(f"{folder} exists; name a new folder.")
    hub = _hub(repository)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as draft:
        try:
            for name in FILES:
                hub.hf_hub_download(repository, name, local_dir=draft)
        except Exception as error:  # what the Hub and the network answer
            raise _refused(repository, error) from None
        load(draft)
        folder.mkdir()
        for name in FILES:
            (Path(draft) / name).replace(folder / name)


def _hub(repository: str):
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.ASCII) or ".." in repository:
        raise ZooError(f"{repository!r} is no repository of the Hub; write OWNER/NAME.")
    if os.environ.get("ZOO_OFFLINE", "") not in ("", "0"):
        raise ZooError(f"ZOO_OFFLINE forbids talking to the Hub about {repository}.")
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError:
        raise ZooError(
            "the Hub needs a package more: pip install 'graph-transformer-zoo[hub]'."
        ) from None


def _refused(repository: str, error: Exception) -> ZooError:
    said = " ".join(str(error).split())[:300] or type(error).__name__
    return ZooError(
        f"{repository}: the Hub did not do it ({said}). Check the name, the network, and for what "
        "needs an account `hf auth login`."
    )
