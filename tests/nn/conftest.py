"""What runs along edges, on every back end."""

import pytest
from needs_dgl import BACKENDS

from zoo.graphs import spmm


@pytest.fixture(params=BACKENDS)
def backend(request, monkeypatch):
    """Each back end in turn, with a few edges at a time."""
    chosen = getattr(spmm, request.param)
    monkeypatch.setattr(spmm, "_backend", lambda graph, x: chosen)
    monkeypatch.setattr(spmm, "_NUMBERS", 40)
