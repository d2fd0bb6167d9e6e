"""What is written is whole or not there, whatever the disk and other processes do."""

import errno
import os
import pkgutil
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from zoo.errors import ZooError
from zoo.system import files
from zoo.system.cache import cache_folder, cached, data_folders
from zoo.system.files import (
    WriteError,
    check_place,
    check_space,
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
    (tmp_path / "folder.partial").mkdir()  # as one that was killed has left

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
    assert draft.name.endswith((".draft", ".partial"))
    process.kill()
    process.wait()
    assert draft.exists()
    write_whole(tmp_path / "other", lambda draft: draft.touch())
    assert os.listdir(tmp_path) == ["other"]


def test_a_folder_of_ones_own_is_no_draft(tmp_path):
    (tmp_path / "mine.partial" / "x").mkdir(parents=True)
    (tmp_path / "my.draft").write_text("x")
    remove_drafts(tmp_path)
    remove_drafts(tmp_path / "nowhere")
    assert sorted(os.listdir(tmp_path)) == ["mine.partial", "my.draft"]


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("kind", ["folder", "link", "link to a draft", "lock that is a link"])
def test_what_is_no_draft_is_kept_and_named(tmp_path, kind, wait):
    victim, partial = tmp_path / "victim", tmp_path / "data" / "mine.partial"
    (victim / "mine").mkdir(parents=True)
    (victim / "mine" / "notes").write_text("mine")
    if kind.startswith("link"):
        partial.parent.mkdir()
        partial.symlink_to(victim)
    else:
        shutil.copytree(victim, partial)
    if kind == "link to a draft":
        (victim / ".zoo-lock").touch()
    elif kind == "lock that is a link":
        (partial / ".zoo-lock").symlink_to(partial / "mine" / "notes")
    before = {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")}
    remove_drafts(partial.parent)
    with (
        pytest.raises(ZooError, match=r"mine\.partial is no draft of the zoo: it .*Move it away"),
        draft_folder(partial.parent / "mine", wait=wait),
    ):
        pass
    assert {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")} == before


def test_links_in_a_draft_are_not_followed(tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "notes").write_text("mine")
    (tmp_path / "mine.partial").mkdir()
    (tmp_path / "mine.partial" / ".zoo-lock").touch()
    (tmp_path / "mine.partial" / "mine").symlink_to(tmp_path / "victim")
    with draft_folder(tmp_path / "mine") as draft:
        assert not os.listdir(draft) and not draft.is_symlink()
    assert os.listdir(tmp_path) == ["victim"] and os.listdir(tmp_path / "victim") == ["notes"]


def test_a_draft_is_removed_with_its_lock_last(tmp_path, monkeypatch):
    def refuse(*_, **__):
        assert (tmp_path / "folder.partial" / ".zoo-lock").exists()
        raise PermissionError

    with monkeypatch.context() as patched, draft_folder(tmp_path / "folder") as draft:
        (draft / "a").touch()
        patched.setattr(shutil, "rmtree", refuse)
    assert (tmp_path / "folder.partial" / "folder" / "a").exists()
    with draft_folder(tmp_path / "folder") as draft:  # which knows the rest for a draft
        assert not os.listdir(draft)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("place", ["pathlib.Path.mkdir", "filelock.FileLock.acquire"])
def test_ctrl_c_before_a_draft_is_signed_leaves_nothing(tmp_path, monkeypatch, place):
    room, _, name = place.rpartition(".")
    does = getattr(pkgutil.resolve_name(room.replace(".", ":", 1)), name)

    def interrupted(self, *given, **options):
        does(self, *given, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "file", lambda draft: draft.touch())
    with pytest.raises(KeyboardInterrupt), draft_folder(tmp_path / "folder"):
        pass
    assert not os.listdir(tmp_path)


def test_a_draft_that_was_never_signed_is_removed(tmp_path):
    for name in (".1.draft", ".2.draft", ".3.draft"):
        (tmp_path / name).mkdir()
    for name in (".2.draft", ".3.draft"):
        (tmp_path / name / ".zoo-lock").touch()
    os.utime(tmp_path / ".2.draft" / ".zoo-lock", (time.time() - 10,) * 2)
    remove_drafts(tmp_path)
    assert os.listdir(tmp_path) == [".3.draft"]


def test_a_draft_of_another_machine_is_left_for_a_day(tmp_path, begun, monkeypatch):
    process = begun(tmp_path / "folder")
    process.kill()
    process.wait()
    monkeypatch.setattr(files.platform, "node", lambda: "another")
    remove_drafts(tmp_path)
    [lock] = tmp_path.glob("*/.zoo-lock")
    os.utime(lock, (time.time() - 90_000,) * 2)
    remove_drafts(tmp_path)
    assert not os.listdir(tmp_path)


def test_two_processes_do_not_write_one_folder(tmp_path, begun):
    process = begun(tmp_path / "folder")
    with (
        pytest.raises(ZooError, match=f"another process {process.pid} on .* since 20.* folder"),
        draft_folder(tmp_path / "folder"),
    ):
        pass
    assert (tmp_path / "folder.partial" / "folder" / "a").read_text() == "half"
    process.kill()
    process.wait()
    with draft_folder(tmp_path / "folder") as draft:
        assert not os.listdir(draft)
        draft.rename(tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]


def test_one_may_wait_for_the_other(tmp_path, begun):
    process = begun(tmp_path / "folder")
    process.kill()
    with draft_folder(tmp_path / "folder", wait=True) as draft:
        assert draft.is_dir()


REPLACE = """
import os, sys
from pathlib import Path
from zoo.system import files

folder, left, rename = Path(sys.argv[1]), int(sys.argv[2]), Path.rename
files._exchanged = lambda *_: False

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
    with draft_folder(tmp_path / "folder"):
        pass  # the next command, which removes the drafts of the dead
    [kept] = tmp_path.iterdir()
    assert (kept / "a").read_text() == ("new" if renames == 2 else "old")
    assert kept.name.startswith("folder.before-") if renames == 1 else kept.name == "folder"


@pytest.mark.parametrize("at_once", [True, False])
def test_a_folder_keeps_its_rights_and_stays_where_it_cannot_be_replaced(
    tmp_path, monkeypatch, at_once
):
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    (folder / "a").write_text("old")
    if not at_once:
        monkeypatch.setattr(files, "_exchanged", lambda *_: False)
        with pytest.raises(FileNotFoundError):
            replace_folder(folder, tmp_path / "nowhere")
        (tmp_path / "nowhere").mkdir()
        with monkeypatch.context() as patched, pytest.raises(OSError, match="broken"):
            rename = Path.rename

            def fails(path, target):
                if path.name == "nowhere":
                    raise OSError("broken")
                return rename(path, target)

            patched.setattr(Path, "rename", fails)
            replace_folder(folder, tmp_path / "nowhere")
        (tmp_path / "nowhere").rmdir()
        assert os.listdir(tmp_path) == ["folder"] and (folder / "a").read_text() == "old"
    with draft_folder(folder) as draft:
        (draft / "a").write_text("new")
        replace_folder(folder, draft)
    assert os.listdir(tmp_path) == ["folder"] and (folder / "a").read_text() == "new"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_disk_without_locks_is_written_to(tmp_path, monkeypatch):
    import filelock

    def refuse(self, *_, **__):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    write_whole(tmp_path / "file", lambda draft: draft.write_text("one"))
    assert os.listdir(tmp_path) == ["file"]


def test_space_is_checked_before(tmp_path):
    check_space(tmp_path / "new" / "file", 1, 2)
    with pytest.raises(WriteError, match=r"the disk is full, .* left; it would take 1000000.0 TB"):
        check_space(tmp_path / "new" / "file", 5 * 10**17, 5 * 10**17)
    with pytest.raises(WriteError, match="the disk is full"):
        write_whole(tmp_path / "file", lambda draft: draft.touch(), size=10**18)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "write",
    [
        lambda draft: draft.write_bytes(bytes(40_000)),
        lambda draft: save_file({"x": torch.zeros(10_000)}, draft),
        lambda draft: torch.save(torch.zeros(10_000), draft),
        lambda draft: np.save(draft.open("wb"), np.zeros(10_000)),
        lambda draft: check_space(draft, 10, 40_000),
    ],
)
def test_a_limit_of_files_is_told_whoever_writes(tmp_path, file_limit, write):
    path = tmp_path / "old"
    path.write_text("old")
    file_limit(20_000)
    with pytest.raises(WriteError, match="a file may have 20.0 kB here") as found:
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
        (lambda at: at / ("x" * 300), "a name is longer than the 255 bytes"),
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
