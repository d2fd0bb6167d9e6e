"""The command `zoo`, also as `python -m zoo`."""

import gc
import os
import signal
import sys

from zoo.system.allocator import preload

COLLECTIONS = 10_000, 10, 10
"""Objects made between two searches for garbage: imports make so many, and none of it is."""


def main() -> None:
    """Run the command, with the allocator that it is to have; Ctrl-C ends it without a word."""
    try:
        open_streams()
        preload(sys.argv[1:])  # before anything is imported twice
        gc.set_threshold(*COLLECTIONS)
        from zoo.cli.app import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python would print what it interrupts
        gc.freeze()  # Python would look through all of them before it ends


def open_streams() -> None:
    """Open what is closed of standard input and output: the next file would be in its place."""
    for stream in range(3):
        try:
            os.fstat(stream)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


if __name__ == "__main__":
    main()
