"""The command `zoo`, also as `python -m zoo`."""

import sys

from zoo.allocator import preload


def main() -> None:
    """Run the command, with the allocator that it is to have."""
    preload(sys.argv[1:])  # before anything is imported twice
    from zoo.cli import main as command

    command()


if __name__ == "__main__":
    main()
