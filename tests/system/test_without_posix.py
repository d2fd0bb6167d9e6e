"""Training, predicting and data need nothing that Linux or Unix alone has."""

import os
import subprocess
import sys

HIDE = """
import ctypes, os, signal, sys
# Libraries have ways of their own elsewhere, which they choose by the name of the system.
import filelock, matplotlib, multiprocessing, numpy, pandas, platformdirs, pooch, rich.console
import scipy.stats, sklearn.datasets, subprocess, tempfile, torch, tqdm, typer
for name in ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "syslog"):
    sys.modules[name] = None
of_os = ("fork", "forkpty", "posix_fallocate", "sched_getaffinity", "getuid", "geteuid", "getpgid",
         "killpg", "setsid", "sysconf", "getloadavg", "statvfs", "nice", "mkfifo", "memfd_create")
for name in (*of_os, "O_DIRECTORY", "O_NOFOLLOW"):
    vars(os).pop(name, None)
for name in ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM", "setitimer", "pthread_kill"):
    vars(signal).pop(name, None)
def no_proc(event, arguments):
    path = str(arguments[0]) if event == "open" else ""
    if path.startswith(("/proc/", "/sys/")) and path != "/proc/self/maps":  # of threadpoolctl
        raise FileNotFoundError(arguments[0])
sys.addaudithook(no_proc)
library = ctypes.CDLL
def on_windows(name, *rest, **options):
    if name is None:
        raise TypeError("bad argument type for built-in operation")
    return library(name, *rest, **options)
ctypes.CDLL = on_windows
"""

USE = """
import zoo
run = zoo.train("sgformer-digits-rba", ["train.epochs=2", "seeds=[0]", "model.dim=8"])
print(run.test.mean > 0, len(zoo.predict(run.load(), "digits").table()) > 1000)
from zoo.cli.app import main
for line in ("data check karate", "train gcn dataset=karate train.epochs=2 --quiet"):
    sys.argv = ["zoo", *line.split()]
    try: main()
    except SystemExit as end: assert not end.code, (line, end.code)
sys.argv = ["zoo", "estimate", "gcn-digits"]
try: main()
except SystemExit as end: print("estimate", bool(end.code))
"""


def test_train_and_predict(tmp_path):
    there = {**os.environ, "PYTHONWARNINGS": "ignore", "LD_PRELOAD": ""}
    call = [sys.executable, "-c", HIDE + USE]
    done = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path, env=there)
    assert done.returncode == 0, done.stderr
    assert "True True\n" in done.stdout and "estimate True\n" in done.stdout
    assert "what Linux counts in /proc" in " ".join(done.stderr.split())
