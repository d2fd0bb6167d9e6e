"""Weights on the Hugging Face Hub: fetch, push and pull, by `huggingface_hub` (an optional extra).

The files are named as `huggingface_hub.PyTorchModelHubMixin` names them.
"""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from zoo.config.metadata import private_texts
from zoo.errors import ZooError, cause, optional
from zoo.system.files import draft_folder
from zoo.system.http import offline
from zoo.weights.files import CARD, CONFIG, FILES, WEIGHTS, read_folder

_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w.-]+))?", re.ASCII)


def fetch(name: str, folder: Path | None = None) -> Path:
    """Download the weights of a repository and return their folder; other files are left there.

    Args:
        name: `OWNER/NAME`, or `OWNER/NAME@REVISION`: a branch, a tag or a commit.
        folder: destination; left out, the cache of `huggingface_hub`, which also answers offline.

    Raises:
        ZooError: `ZOO_OFFLINE` is set, the Hub refuses, or there are no weights.
    """
    repository, revision = _parts(name)
    hub = optional("huggingface_hub", "hub", "the Hub")
    where = {"local_dir": folder, "local_files_only": offline()}
    try:
        path = hub.snapshot_download(
            repository, revision=revision, allow_patterns=list(FILES), **where
        )
    except Exception as error:  # any error of the Hub or the network
        raise _refused(name, error) from None
    if missing := [file for file in (CONFIG, WEIGHTS) if not Path(path, file).is_file()]:
        raise ZooError(f"{name} on the Hub holds no weights of the zoo: it has no {missing[0]}.")
    return Path(path)


def push(folder: Path | str, repository: str, *, private: bool = False) -> str:
    """Upload the files of a folder of weights and return the address of the commit.

    Args:
        folder: written by `zoo.save`; it is read first, so that nothing broken is published.
        repository: `OWNER/NAME`; it is created if it does not exist.
        private: whether a new repository is private.

    Raises:
        ZooError: the folder is broken, has a link in it, or holds paths of this machine, as older
            versions of the zoo wrote them; `ZOO_OFFLINE` is set, or the Hub refuses.
    """
    hub, folder = connect(repository), Path(folder)
    read_folder(folder)
    _check_private(folder)
    if links := [folder / file for file in FILES if (folder / file).is_symlink()]:
        raise ZooError(f"{links[0]} is a link; put what it leads to in its place.")
    try:
        hub.create_repo(repository, private=private, exist_ok=True)
        commit = hub.upload_folder(
            repo_id=repository, folder_path=str(folder), allow_patterns=list(FILES)
        )
    except Exception as error:  # any error of the Hub or the network
        raise _refused(repository, error) from None
    return str(commit)


def pull(repository: str, folder: Path | str, *, unverified: bool = False) -> None:
    """Download a folder of weights; it is created only when it is complete and whole.

    Args:
        repository: `OWNER/NAME`, or `OWNER/NAME@REVISION`.
        folder: destination; it must not exist.
        unverified: as in `zoo.load`.

    Raises:
        ZooError: the folder exists, `ZOO_OFFLINE` is set, the Hub refuses, or the repository holds
            no weights of the zoo.
    """
    folder = Path(folder)
    if os.path.lexists(folder):
        raise ZooError(f"{folder} exists; name a new folder.")
    with draft_folder(folder) as draft:
        fetch(repository, draft)
        shutil.rmtree(draft / ".cache", ignore_errors=True)  # notes of huggingface_hub
        read_folder(draft, unverified=unverified)
        draft.rename(folder)


def connect(repository: str) -> Any:
    """Return the library of the Hub, to write to a repository.

    Raises:
        ZooError: it is missing, `ZOO_OFFLINE` is set, or the name is of no repository.
    """
    if _parts(repository)[1] is not None:
        raise ZooError(f"{repository!r} is a revision; write OWNER/NAME.")
    if offline():
        raise _refused(repository, OSError())
    return optional("huggingface_hub", "hub", "the Hub")


def _parts(name: str) -> tuple[str, str | None]:
    """Return the repository and the revision, if any, of a name."""
    match = _NAME.fullmatch(name)
    if match is None or ".." in name:
        raise ZooError(f"{name!r} is no repository of the Hub; write OWNER/NAME.")
    return match[1], match[2]


def _refused(name: str, error: Exception) -> ZooError:
    if offline():
        return ZooError(f"ZOO_OFFLINE forbids talking to the Hub about {name}.")
    return ZooError(
        f"{name}: the Hub did not do it ({cause(error)}). Check the name, the network, and for "
        "what needs an account `hf auth login`."
    )


def _check_private(folder: Path) -> None:
    """Refuse to publish paths of this machine, in the config of weights or in their card."""
    texts = dict(private_texts(json.loads((folder / CONFIG).read_text(encoding="utf-8"))))
    places = [f"{CONFIG}, {key}: {text!r}" for key, text in texts.items()]
    card, home = folder / CARD, os.path.expanduser("~")
    lines = card.read_text(encoding="utf-8", errors="replace").splitlines() if card.exists() else []
    private = {*texts.values(), *([home] if len(home) > 1 else [])}
    places += [
        f"{CARD}, line {number}"
        for number, line in enumerate(lines, start=1)
        if any(text in line for text in private)
    ]
    if places:
        more = f", and {len(places) - 5} more" if len(places) > 5 else ""
        raise ZooError(
            f"{folder} would publish paths of this machine: {'; '.join(places[:5])}{more}. Saving "
            f"the weights anew leaves them out, in Python: zoo.save(zoo.load({str(folder)!r}), "
            f"{str(folder)!r})."
        )
