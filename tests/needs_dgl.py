"""What tests need to know of DGL: whether it is here, and what is of DGL itself."""

import pytest

from zoo.dgl import HAS_DGL

needs_dgl = pytest.mark.skipif(not HAS_DGL, reason="of DGL itself, which is not here")

BACKENDS = [*(["_Dgl"] if HAS_DGL else []), "_Bags", "_Torch", "_Csr"]
"""The backends of `zoo.graphs.spmm`."""
