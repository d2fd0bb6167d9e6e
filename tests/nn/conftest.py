"""What runs along edges, on every back end."""

import pytest

from zoo.graphs import along, message_passing


@pytest.fixture(params=["_Dgl", "_Bags", "_Torch", "_Rows"])
def backend(request, monkeypatch):
    """Each back end in turn, with a few edges at a time."""
    chosen = getattr(message_passing, request.param)
    monkeypatch.setattr(message_passing, "_backend", lambda graph, x: chosen)
    monkeypatch.setattr(along, "_NUMBERS", 40)
