"""Whose code an error comes from: a user's model, data set or attention, or the zoo's."""

import sys
import sysconfig
import traceback
from pathlib import Path

_ZOO = Path(__file__).parent.parent
_INSTALLED = {Path(each).resolve() for each in (*sysconfig.get_paths().values(), sys.prefix)}


def users_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the lines of a user's own files that an error has passed, the innermost last."""
    return [each for each in traceback.extract_tb(error.__traceback__) if _is_users(each.filename)]


def blame(error: BaseException) -> str | None:
    """Return what a user's own code has raised, and where; None if none of it took part.

    The lines of the zoo and of what is installed are left out.
    """
    frames = users_frames(error)
    if not frames:
        return None
    kind, said = type(error).__name__, " ".join(str(error).split())[:600]
    lines = [f"  {each.filename}:{each.lineno}, in {each.name}: {each.line}" for each in frames]
    last = frames[-1]
    return "\n".join(
        [
            f"{last.filename}:{last.lineno} has raised {kind}: {said}. This is code of your own; "
            "correct it there. The lines of your files that led to it:",
            *lines[-20:],
        ]
    )


def _is_users(filename: str) -> bool:
    path = Path(filename)
    if not path.is_file() or path.is_relative_to(_ZOO):
        return False
    return not any(path.resolve().is_relative_to(each) for each in _INSTALLED)
