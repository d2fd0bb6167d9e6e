"""Push weights to the Hugging Face Hub and pull them, by `huggingface_hub` (an optional extra).

The files are named as `huggingface_hub.PyTorchModelHubMixin` names them.
"""

import json
import os
import shutil
from pathlib import Path

from zoo.config.metadata import private_texts
from zoo.errors import ZooError
from zoo.system.files import draft_folder
from zoo.weights.folder import CARD, CONFIG, FILES
from zoo.weights.hub_files import connect, fetch, refused
from zoo.weights.load import load


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
    hub = connect(repository)
    load(folder)
    _refuse_private(Path(folder))
    if links := [path for each in FILES if (path := Path(folder) / each).is_symlink()]:
        raise ZooError(f"{links[0]} is a link; put what it leads to in its place.")
    try:
        hub.create_repo(repository, private=private, exist_ok=True)
        done = hub.upload_folder(
            repo_id=repository, folder_path=str(folder), allow_patterns=list(FILES)
        )
    except Exception as error:  # any error of the Hub or the network
        raise refused(repository, error) from None
    return str(done)


def pull(repository: str, folder: Path | str, *, unverified: bool = False) -> None:
    """Download a folder of weights; it is created only when it is complete and can be loaded.

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
        shutil.rmtree(draft / ".cache", ignore_errors=True)  # what the Hub remembers of it
        load(draft, unverified=unverified)
        draft.rename(folder)


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
