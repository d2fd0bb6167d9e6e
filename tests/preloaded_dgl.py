"""DGL, imported as `zoo.dgl` does it, without the zoo: for `preloaded`. Nothing where it is not."""

import os
import runpy
from importlib.util import find_spec
from pathlib import Path

if find_spec("dgl") and "ZOO_WITHOUT_DGL" not in os.environ:
    runpy.run_path(str(Path(__file__).parent.parent / "zoo" / "dgl.py"))
