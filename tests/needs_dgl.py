"""What tests need to know of DGL: whether it is here, and what is of DGL itself."""

import pytest

from zoo.dgl import HAS_DGL

NO_DGL = "of DGL itself, which is not here"

needs_dgl = pytest.mark.skipif(not HAS_DGL, reason=NO_DGL)

BACKENDS = [*(["_Dgl"] if HAS_DGL else []), "_Bags", "_Torch", "_Csr"]
"""The backends of `zoo.graphs.spmm`."""
