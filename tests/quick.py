"""Which cases of a test run by default: the others are of `make slow`."""

import pytest


def every(values, count):
    """Return params, every `count`-th of which runs by default, the first among them."""
    return [each if place % count == 0 else pytest.param(each, marks=pytest.mark.slow)
            for place, each in enumerate(values)]  # fmt: skip
