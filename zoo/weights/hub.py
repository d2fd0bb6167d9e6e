"""Push weights to the Hugging Face Hub and pull them, by `huggingface_hub` (an optional extra).

The files are named as `huggingface_hub.PyTorchModelHubMixin` names them.
"""

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from zoo.config.metadata import private_texts
from zoo.errors import ZooError, optional
from zoo.system.files import draft_folder
from zoo.weights.folder import CARD, CONFIG, TOKENIZER, WEIGHTS, read_config
from zoo.weights.load import load

FILES = (WEIGHTS, CONFIG, CARD)


def push(folder: Path | str, repository: str, *, private: bool = False) -> str:
    """Upload the files of a folder of weights and return the address of the commit.

    Args:
        folder: written by `zoo.save`; it is loaded first, so that no broken one is published.
        repository: `OWNER/NAME`; it is created if it does not exist.
        private: whether a new repository is private.

    Raises:
        ZooError: the folder is broken, has a link in it, or holds paths of this machine, as older
            versions of the zoo wrote them; `ZOO_OFFLINE` is set, or the Hub refuses.
    """
    hub = _hub(repository)
    load(folder)
    _refuse_private(Path(folder))
    if links := [each for each in _files(Path(folder)) if os.path.islink(Path(folder) / each)]:
        raise ZooError(f"{Path(folder) / links[0]} is a link; put what it leads to in its place.")
    try:
        hub.create_repo(repository, private=private, exist_ok=True)
        done = hub.upload_folder(
            repo_id=repository, folder_path=str(folder), allow_patterns=_files(Path(folder))
        )
    except Exception as error:  # any error of the Hub or the network
        raise _refused(repository, error) from None
    return str(done)


def pull(repository: str, folder: Path | str, *, unverified: bool = False) -> None:
    """Download a folder of weights; it is created only when it is complete and can be loaded.

    Args:
        repository: `OWNER/NAME`.
        folder: destination; it must not exist.
        unverified: as in `zoo.load`.

    Raises:
        ZooError: the folder exists, `ZOO_OFFLINE` is set, the Hub refuses, or the repository holds
            no weights of the zoo.
    """
    folder = Path(folder)
    if os.path.lexists(folder):
        raise ZooError(f"{folder} exists; name a new folder.")
    hub = _hub(repository)
    with draft_folder(folder) as draft:
        _download(hub, repository, FILES, draft)
        _download(hub, repository, _files(draft)[len(FILES) :], draft)
        load(draft, unverified=unverified)
        shutil.rmtree(draft / ".cache", ignore_errors=True)  # what the Hub remembers of it
        draft.rename(folder)


def _download(hub, repository: str, names: Sequence[str], folder: Path) -> None:
    try:
        for name in names:
            hub.hf_hub_download(repository, name, local_dir=folder)
    except Exception as error:  # any error of the Hub or the network
        raise _refused(repository, error) from None


def _files(folder: Path) -> list[str]:
    """Return the files of a folder of weights, as its description says, these three first."""
    text = read_config(folder / CONFIG)["about"].tokenizer is not None
    return [*FILES, *([TOKENIZER] if text else [])]


def _refuse_private(folder: Path) -> None:
    """Refuse to publish paths of this machine in the description of weights, or in their card."""
    found = list(private_texts(json.loads((folder / CONFIG).read_text(encoding="utf-8"))))
    places = [f"{CONFIG}, {key}: {text!r}" for key, text in found]
    card, home = folder / CARD, os.path.expanduser("~")
    lines = card.read_text(encoding="utf-8", errors="replace").splitlines() if card.exists() else []
    known = {text for _, text in found} | ({home} if len(home) > 1 else set())
    places += [
        f"{CARD}, line {number}"
        for number, line in enumerate(lines, start=1)
        if any(text in line for text in known)
    ]
    if places:
        more = f", and {len(places) - 5} more" if len(places) > 5 else ""
        raise ZooError(
            f"{folder} would publish paths of this machine: {'; '.join(places[:5])}{more}. Saving "
            f"the weights anew leaves them out, in Python: zoo.save(zoo.load({str(folder)!r}), "
            f"{str(folder)!r})."
        )


def _hub(repository: str):
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.ASCII) or ".." in repository:
        raise ZooError(f"{repository!r} is no repository of the Hub; write OWNER/NAME.")
    if os.environ.get("ZOO_OFFLINE", "") not in ("", "0"):
        raise ZooError(f"ZOO_OFFLINE forbids talking to the Hub about {repository}.")
    return optional("huggingface_hub", "hub", "the Hub")


def _refused(repository: str, error: Exception) -> ZooError:
    said = " ".join(str(error).split())[:300] or type(error).__name__
    return ZooError(
        f"{repository}: the Hub did not do it ({said}). Check the name, the network, and for what "
        "needs an account `hf auth login`."
    )
