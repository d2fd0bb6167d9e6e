"""What is written is whole or not there, whatever the disk and other processes do."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from zoo.errors import ZooError
from zoo.system.cache import cache_folder, cached, data_folders
from zoo.system.files import (
    WriteError,
    check_place,
    draft_folder,
    remove_drafts,
    replace_folder,
    user_path,
    write_whole,
)

BEGUN = """
import os, sys, time
from pathlib import Path
from zoo.system.files import draft_folder, write_whole

def begin(draft):
    draft.write_text("half")
    (draft.parent / ".tmpX").touch()  # safetensors has names of its own
    long_ago = time.time() - 10
    for each in (draft, draft.parent / ".tmpX", draft.parent, draft.parent.parent):
        os.utime(each, (long_ago, long_ago))
    print("begun", flush=True)
    time.sleep(60)

path = Path(sys.argv[1])
if path.suffix:
    write_whole(path, begin)
else:
    with draft_folder(path) as draft:
        begin(draft / "a")
"""


@pytest.fixture
def begun():
    """Give what starts a process that is in the midst of writing a path."""
    started = []

    def start(path):
        process = subprocess.Popen(
            [sys.executable, "-c", BEGUN, path], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "begun\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_graphs_lie_where_they_are_told_to_or_with_the_user(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv("ZOO_DATA")
    shared = tmp_path / "caches" / "graph-transformer-zoo" / "data"
    assert data_folders() == [shared] and cache_folder() == shared / "cache"
    (tmp_path / "data").mkdir()  # as in a checkout
    assert data_folders() == [Path("data"), shared]
    monkeypatch.setenv("ZOO_DATA", f"one{os.pathsep}{os.pathsep}two")
    assert data_folders() == [Path("one"), Path("two")]


def test_a_file_is_written_whole(tmp_path):
    path = tmp_path / "new" / "file.txt"
    write_whole(path, lambda draft: draft.write_text("one"))
    write_whole(path, lambda draft: draft.write_text("two"))
    assert path.read_text() == "two"
    assert os.listdir(path.parent) == ["file.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_what_fails_leaves_the_file_as_it_was(tmp_path, error):
    path = tmp_path / "file.txt"
    path.write_text("before")

    def fail(draft):
        draft.write_text("half")
        raise error(errno.EIO, "it is broken") if error is OSError else error

    with pytest.raises(WriteError if error is OSError else error) as found:
        write_whole(path, fail)
    assert os.listdir(tmp_path) == ["file.txt"]
    assert path.read_text() == "before"
    if error is OSError:
        assert "file.txt cannot be written: the disk has failed" in str(found.value)
        assert "What it held before is kept." in str(found.value)


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize(("mask", "file", "folder"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)])
def test_a_draft_is_closed_to_others_until_it_is_whole(tmp_path, umask, mask, file, folder):
    umask(mask)

    def write(draft):
        draft.touch(mode=0o600)  # as some libraries do
        assert draft.parent.stat().st_mode & 0o777 == 0o700

    write_whole(tmp_path / "file", write)
    with draft_folder(tmp_path / "folder") as draft:
        assert draft.parent.stat().st_mode & 0o777 == 0o700
        (draft / "a").touch()
        draft.rename(tmp_path / "folder")
    for name, rights in {"file": file, "folder": folder, "folder/a": file}.items():
        assert (tmp_path / name).stat().st_mode & 0o777 == rights
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


@pytest.mark.parametrize("rights", [0o600, 0o664, 0o444])
def test_a_file_that_is_replaced_keeps_its_rights(tmp_path, umask, rights):
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(rights)
    write_whole(tmp_path / "file", lambda draft: draft.write_text("new"))
    assert (tmp_path / "file").read_text() == "new"
    assert (tmp_path / "file").stat().st_mode & 0o777 == rights


def test_the_umask_of_other_threads_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("all threads have it in common"))
    write_whole(tmp_path / "file", lambda draft: draft.touch())


def test_a_cache_is_not_written_through_a_link(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "data"))
    (tmp_path / "mine").write_text("mine")
    given = "a kind", [1], [], lambda: {"x": np.ones(2)}, lambda _: True
    cached(*given)
    (path,) = cache_folder().iterdir()
    path.unlink()
    path.symlink_to(tmp_path / "mine")
    assert cached(*given)["x"].tolist() == [1, 1]
    assert (tmp_path / "mine").read_text() == "mine" and "is a link" in caplog.text


def test_a_link_that_was_typed_is_written_through(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    check_place(tmp_path / "link", follow=True)
    write_whole(tmp_path / "link", lambda draft: draft.write_text("one"), follow=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_text() == "one"


@pytest.mark.parametrize("name", ["file.txt", "folder"])
def test_drafts_of_the_dead_are_removed_and_those_of_the_living_are_not(tmp_path, begun, name):
    process = begun(tmp_path / name)
    remove_drafts(tmp_path)
    [draft] = tmp_path.iterdir()
    assert draft.name.startswith(".zoo-") and draft.stat().st_mode & 0o777 == 0o700
    process.kill()
    process.wait()
    assert draft.exists()
    write_whole(tmp_path / "other", lambda draft: draft.touch())
    assert os.listdir(tmp_path) == ["other"]


REPLACE = """
import os, sys
from pathlib import Path
from zoo.system import files

folder, left, rename = Path(sys.argv[1]), int(sys.argv[2]), Path.rename

def killed(path, target):
    global left
    left -= 1
    return rename(path, target) if left >= 0 else os._exit(9)

Path.rename = killed
with files.draft_folder(folder) as draft:
    (draft / "a").write_text("new")
    files.replace_folder(folder, draft)
"""


@pytest.mark.parametrize("renames", range(3))
def test_a_folder_outlives_whatever_kills_its_replacement(tmp_path, renames):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text("old")
    call = [sys.executable, "-c", REPLACE, tmp_path / "folder", str(renames)]
    assert subprocess.run(call).returncode == (0 if renames == 2 else 9)
    for each in [*tmp_path.glob(".zoo-*"), *tmp_path.glob(".zoo-*/**/*")]:
        os.utime(each, (time.time() - 10,) * 2)
    with draft_folder(tmp_path / "folder"):
        pass  # the next command, which removes the drafts of the dead
    [kept] = tmp_path.iterdir()
    assert (kept / "a").read_text() == ("new" if renames == 2 else "old")
    assert kept.name.startswith("folder.before-") if renames == 1 else kept.name == "folder"


def test_a_folder_keeps_its_rights_and_stays_where_it_cannot_be_replaced(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    (folder / "a").write_text("old")
    with draft_folder(folder) as draft:
        draft.rmdir()
        with pytest.raises(FileNotFoundError):
            replace_folder(folder, draft)
    assert os.listdir(tmp_path) == ["folder"] and (folder / "a").read_text() == "old"
    with draft_folder(folder) as draft:
        (draft / "a").write_text("new")
        replace_folder(folder, draft)
    assert os.listdir(tmp_path) == ["folder"] and (folder / "a").read_text() == "new"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_who_waits_for_the_same_folder_finds_it(tmp_path):
    """One process downloads for all."""
    code = (
        "import sys, time; from pathlib import Path; from zoo.system.files import draft_folder\n"
        "path = Path(sys.argv[1])\n"
        "with draft_folder(path, wait=True) as draft:\n"
        "    if not path.exists():\n"
        "        print('made'); time.sleep(0.5); draft.rename(path)\n"
    )
    call = [sys.executable, "-c", code, tmp_path / "folder"]
    began = [subprocess.Popen(call, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert sorted(each.communicate()[0] for each in began) == ["", "", "made\n"]
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize("old", [False, True])
def test_a_disk_without_locks_is_written_to(tmp_path, monkeypatch, old):
    import fcntl

    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / ".zoo-left.draft").mkdir()
    os.utime(tmp_path / ".zoo-left.draft", (time.time() - 90_000 * old,) * 2)
    write_whole(tmp_path / "file", lambda draft: draft.write_text("one"))
    with draft_folder(tmp_path / "folder", wait=True) as draft:
        draft.rename(tmp_path / "folder")
    assert sorted(os.listdir(tmp_path)) == [".zoo-left.draft"] * (not old) + ["file", "folder"]


def test_what_is_called_otherwise_is_no_draft(tmp_path):
    (tmp_path / "mine.draft").mkdir()
    (tmp_path / ".zoo-mine.draft").symlink_to(tmp_path / "mine.draft")
    remove_drafts(tmp_path)
    remove_drafts(tmp_path / "nowhere")
    assert sorted(os.listdir(tmp_path)) == [".zoo-mine.draft", "mine.draft"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_not_written_through(tmp_path, there):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "file")
    if there:
        (tmp_path / "folder" / "file").write_text("mine")
    for write in (lambda path: write_whole(path, lambda draft: draft.touch()), check_place):
        with pytest.raises(WriteError, match="link cannot be written: it is a link"):
            write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert os.listdir(tmp_path / "folder") == ["file"] * there
    (tmp_path / "way").symlink_to(tmp_path / "folder")
    write_whole(tmp_path / "way" / "file", lambda draft: draft.write_text("new"))
    assert (tmp_path / "folder" / "file").read_text() == "new"


@pytest.mark.parametrize(
    "write",
    [
        lambda draft: draft.write_bytes(bytes(40_000)),
        lambda draft: save_file({"x": torch.zeros(10_000)}, draft),
        lambda draft: torch.save(torch.zeros(10_000), draft),
        lambda draft: np.save(draft.open("wb"), np.zeros(10_000)),
    ],
)
def test_a_limit_of_files_is_told_whoever_writes(tmp_path, file_limit, write):
    path = tmp_path / "old"
    path.write_text("old")
    file_limit(20_000)
    with pytest.raises(WriteError, match="a file may not be so large here") as found:
        write_whole(path, write)
    assert "Raise that limit. What it held before is kept." in str(found.value)
    assert os.listdir(tmp_path) == ["old"]
    assert path.read_text() == "old"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda at: (at / "f").touch() or at / "f" / "x", "a folder of its path is a file"),
        (lambda at: (at / "f").mkdir() or at / "f", "there is a folder of that name"),
        (lambda at: os.mkfifo(at / "f") or at / "f", "no plain file"),
        (lambda at: at / ("x" * 300), "a name is longer than a disk takes"),
    ],
)
def test_places_that_take_no_file(tmp_path, make, said):
    with pytest.raises(WriteError, match=said):
        write_whole(make(tmp_path), lambda draft: draft.touch())


@pytest.mark.parametrize(
    "text", ["~nobodyhere/x", "x" * 256, "é" * 128, "a\0b", "\ud800", "a/" * 2050]
)
def test_paths_that_no_disk_takes(text):
    with pytest.raises(ZooError, match="write") as found:
        user_path(text)
    assert len(str(found.value)) < 250


def test_paths_of_users(monkeypatch):
    monkeypatch.setenv("HOME", "/home/of/mine")
    assert str(user_path("~/x")) == "/home/of/mine/x"
    assert len(user_path("x" * 255).name) == 255
