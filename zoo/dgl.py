"""DGL: the one place that imports it, `from zoo.dgl import dgl` everywhere else.

Where it cannot be imported, `dgl` is `zoo.own_graph`, which has what the zoo uses of it under the
same names. `ZOO_WITHOUT_DGL=1` hides a DGL that is there, so that both can be tried on a machine.

DGL 2.1, the one with a wheel for Python 3.12, loads a library of `dgl.graphbolt` as it is imported.
Its wheel has one for each torch of its own time and fails with any other. The zoo uses nothing of
graphbolt: where the library for this torch is missing, an empty module takes its place. It also
imports `ogb` for one of its data sets, which looks for a newer version of itself in the network:
while DGL is imported an empty module stands there too.
"""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch

GRAPHBOLT = "dgl.graphbolt"


def lacks_graphbolt() -> bool:
    """Return whether DGL has a graphbolt, and no library of it for this torch."""
    spec = find_spec("dgl")
    folders = (spec and spec.submodule_search_locations) or []
    library = f"*graphbolt_pytorch_{torch.__version__.partition('+')[0]}.*"
    graphbolts = [Path(folder, "graphbolt") for folder in folders]
    return any(folder.is_dir() and not any(folder.glob(library)) for folder in graphbolts)


HIDDEN = os.environ.get("ZOO_WITHOUT_DGL", "0") not in ("", "0")
"""Whether a DGL is left aside."""

STANDS_IN = not HIDDEN and "dgl" not in sys.modules and lacks_graphbolt()
"""Whether an empty module stands in for graphbolt."""

if STANDS_IN:
    sys.modules[GRAPHBOLT] = ModuleType(GRAPHBOLT)

_OGB = () if "ogb" in sys.modules else ("ogb", "ogb.utils")
for _name in _OGB:
    sys.modules[_name] = ModuleType(_name)
    vars(sys.modules[_name])["smiles2graph"] = None

FAILURE: Exception | None = None
"""Why a DGL that is installed does not import."""

try:
    if HIDDEN or not ("dgl" in sys.modules or find_spec("dgl")):
        raise ModuleNotFoundError("dgl", name="dgl")
    import dgl
    from dgl import DGLGraph
except Exception as error:  # of a wheel for another torch or system whatever its loader raises
    dgl = import_module("zoo.own_graph")  # a plain import closes a circle in which mypy gets lost
    DGLGraph = dgl.DGLGraph
    FAILURE = None if getattr(error, "name", None) == "dgl" else error
finally:
    for _name in _OGB:
        del sys.modules[_name]

HAS_DGL = dgl.__name__ == "dgl"
"""Whether `dgl` is DGL itself."""

__all__ = ["FAILURE", "HAS_DGL", "HIDDEN", "STANDS_IN", "DGLGraph", "dgl", "lacks_graphbolt"]
