"""DGL, imported as `zoo.dgl` does it, without the zoo: for `preloaded`."""

import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).parent.parent / "zoo" / "dgl.py"))
