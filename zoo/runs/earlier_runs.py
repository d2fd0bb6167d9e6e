"""Runs of the very same training that are there already, and trainings in a process of their own.

`zoo compare`, `reproduce` and `tune` read what is finished, go on with what was ended, and train
the rest apart, so that the peak of memory is that of one training.
"""

import glob
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zoo.config.recipe import UNTRAINED_KEYS, recipe_text
from zoo.errors import ZooError
from zoo.runs.prepare import hash_files
from zoo.runs.resolve import Plan, load_recipe, resolve, with_split
from zoo.runs.run_folder import (
    Environment,
    is_summarised,
    read_environment,
    read_recipe,
    read_summary,
)
from zoo.system.environment import code_sha256
from zoo.system.signals import ENDING

_PATIENCE = 30.0
"""Seconds that a training may take to end after Ctrl-C, before it is told again."""


class NotFinished(ZooError):
    """A training in a process of its own that has failed, or was killed."""


def is_of_this_code(recorded: Environment | None) -> bool:
    """Return whether a run was trained by the zoo's models as they are now, or nothing tells."""
    return recorded is None or recorded.code in (None, code_sha256())


def find_finished(plan: Plan, runs: Path, *, any_code: bool = False) -> dict[str, Any] | None:
    """Return the summary of the latest finished run of exactly this training, None without one.

    Args:
        plan: of the training.
        runs: the folder of runs.
        any_code: also one that was trained by other code of the zoo's models.
    """
    for folder in _same_training(plan, runs):
        if is_summarised(folder):  # the name of a longer recipe may begin with ours
            if any_code or is_of_this_code(read_environment(folder)):
                return {**read_summary(folder), "recipe": plan.recipe.name, "folder": str(folder)}
            logging.getLogger(__name__).warning(
                f"{folder} was trained by other code of the zoo, so that it is not read."
            )
    return None


def find_unfinished(plan: Plan, runs: Path) -> Path | None:
    """Return the latest run of exactly this training that one process may go on with, or None."""
    for folder in _same_training(plan, runs):
        environment = read_environment(folder)
        alone = environment is None or environment.processes == 1
        if alone and not is_summarised(folder):
            return folder
    return None


def _same_training(plan: Plan, runs: Path) -> Iterator[Path]:
    """Yield the folders of runs of exactly this training, the latest first."""
    folders = sorted(runs.glob(f"{glob.escape(plan.recipe.name)}-*"), reverse=True)
    if not folders:  # data is not read for nothing
        return
    trained, files = trained_options(with_split(plan)), hash_files(plan)
    for folder in folders:
        try:
            other = resolve(load_recipe(read_recipe(folder)[0]))
            recorded = read_environment(folder)
        except ZooError:  # no run, or of another version of the zoo
            continue
        same = recorded is None or not recorded.files or files.items() <= recorded.files.items()
        code = None if recorded is None else recorded.imports
        if trained_options(other) == trained and code in (None, plan.code) and same:
            yield folder


def trained_options(plan: Plan) -> dict[str, Any]:
    """Return all of a plan that the numbers of a run depend on.

    What it should reach is no part of that, nor whether its steps are recorded: they are the same.
    """
    data = {key: value for key, value in plan.plain().items() if key not in UNTRAINED_KEYS}
    return {**data, "train": {**data["train"], "capture": None}}


def train_apart(plan: Plan, device: str, runs: Path, **options: Any) -> dict[str, Any]:
    """Train a plan in a process of its own, progress on standard error; return its summary.

    Args:
        plan: what is trained.
        device: `auto`, `cpu` or `cuda`.
        runs: where its run is written.
        options: `quiet`: no progress is shown; `threads`: as many, None as torch chooses.

    Raises:
        NotFinished: it has failed.
        ZooError: it needs code that was not run.
        KeyboardInterrupt: this process, or that one, was asked to end; that one has ended.
    """
    name = plan.recipe.name
    if plan.code is None:
        raise ZooError(f"{name} imports code, {', '.join(plan.imports)}, which was not asked for.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.yaml"
        path.write_text(recipe_text(plan.plain()))
        words = ["train", path, "--json", "--device", device, "--runs", runs]
        return _summary_of(name, words, **options)


def resume_apart(folder: Path, device: str, **options: Any) -> dict[str, Any]:
    """Go on with a run in a process of its own, as `train_apart` trains one."""
    words = ["train", "--resume", folder, "--json", "--device", device]
    return _summary_of(folder.name, words, **options)


def _summary_of(
    name: str, words: list[Any], quiet: bool = False, threads: int | None = None
) -> dict[str, Any]:
    """Return what a command prints, which has to be a summary."""
    words = [*words, "--quiet"] if quiet else words
    command = [sys.executable, "-P", "-m", "zoo", *map(str, words)]
    variables = {"OMP_NUM_THREADS": str(threads)} if threads else {}
    process = _run(command, {**os.environ, **variables})
    if process.returncode in (128 + number for number in (signal.SIGINT, *ENDING)):
        raise KeyboardInterrupt
    if process.returncode != 0:
        how = "was killed, as a rule for want of memory" if process.returncode < 0 else "failed"
        raise NotFinished(f"{name} {how} (exit code {process.returncode}).")
    return json.loads(process.stdout)


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; where this process is asked to end, that one is asked first."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            output, _ = process.communicate()
        except KeyboardInterrupt as interrupt:
            for number in interrupt.args:  # a terminal tells both of Ctrl-C
                process.send_signal(number)
            try:
                process.communicate(timeout=None if interrupt.args else _PATIENCE)
            except subprocess.TimeoutExpired:
                process.terminate()
                process.communicate()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output)
