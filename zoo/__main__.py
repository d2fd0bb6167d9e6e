"""The command `zoo`, also as `python -m zoo`."""

import gc
import sys

from zoo.system.allocator import preload

COLLECTIONS = 10_000, 10, 10
"""Objects made between two searches for garbage: imports make so many, and none of it is."""


def main() -> None:
    """Run the command, with the allocator that it is to have."""
    preload(sys.argv[1:])  # before anything is imported twice
    gc.set_threshold(*COLLECTIONS)
    from zoo.cli.app import main as command

    try:
        command()
    finally:
        gc.freeze()  # Python would look through all of them before it ends


if __name__ == "__main__":
    main()
