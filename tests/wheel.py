"""Build the wheel, install it into a fresh environment, use it from an empty folder: `make wheel`.

What is written stays in a temporary folder, but for the wheel, which goes to `dist/`. The commands
run without a network, as far as the system can take it away (`unshare`).
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LARGEST, WEIGHTS = 2_000_000, 8_000_000
"""Bytes that the wheel may take without the pretrained weights, and these in it."""

SHIPPED = ("zoo/py.typed", "zoo/models/papers.bib", "zoo/pretrained/index.json",
           "zoo/reports/templates/page.html", "zoo/reports/templates/page.css",
           "zoo/reports/templates/parts.html")  # fmt: skip
RUNS = "runs"
SHORT = ("train.epochs=3", "seeds=[0]", "--runs", RUNS)
COMMANDS = (
    ("list", "recipes"),
    ("list", "models", "--pretrained"),
    ("train", "sgformer-digits-rba", *SHORT),
    ("predict", "sgformer-digits-rba", "--data", "digits", "--out", "predictions.csv"),
    ("doctor",),
)


def call(*words, **options):
    """Run a command, and say so; end where it fails."""
    print("$", *words, flush=True)
    subprocess.run([str(word) for word in words], check=True, **options)


def build():
    """Return the one wheel in `dist/`, built from what is in the checkout and nothing older."""
    for folder in ("build", "dist"):
        shutil.rmtree(ROOT / folder, ignore_errors=True)
    call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", "dist", ".", cwd=ROOT)
    shutil.rmtree(ROOT / "build", ignore_errors=True)
    (wheel,) = (ROOT / "dist").glob("*.whl")
    return wheel


def check_contents(wheel):
    """Every module, recipe and weight of the checkout is in the wheel, and it is small."""
    entries = zipfile.ZipFile(wheel).infolist()
    inside = {each.filename for each in entries}
    recipes = {f"zoo/{path.relative_to(ROOT)}" for path in (ROOT / "recipes").rglob("*.yaml")}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "zoo").rglob("*.py")}
    weights = {str(path.relative_to(ROOT)) for path in (ROOT / "zoo").rglob("*.safetensors")}
    missing = sorted((recipes | modules | weights | set(SHIPPED)) - inside)
    assert not missing, f"not in the wheel: {missing}"
    size = wheel.stat().st_size
    held = sum(each.compress_size for each in entries if "/pretrained/" in each.filename)
    assert size - held < LARGEST and held < WEIGHTS, f"{size:,} bytes, {held:,} of them weights"
    print(f"{wheel.name}: {size:,} bytes, {held:,} of them weights, {len(inside)} files, "
          f"{len(recipes)} recipes")  # fmt: skip


def without_network():
    """Return the words before a command that take its network away, none where that is refused."""
    words = ("unshare", "--map-root-user", "--net")
    refused = not shutil.which(words[0]) or subprocess.run([*words, "true"], check=False).returncode
    print("network:", "as it is, only ZOO_OFFLINE" if refused else "none")
    return () if refused else words


def main():
    wheel = build()
    check_contents(wheel)
    with tempfile.TemporaryDirectory() as folder:
        fresh, empty, cache = (Path(folder, name) for name in ("environment", "empty", "cache"))
        empty.mkdir()
        call(sys.executable, "-m", "venv", fresh)
        options = ("--quiet", "--no-compile", "--constraint", ROOT / sys.argv[1])
        call(fresh / "bin/python", "-m", "pip", "install", *options, wheel)
        kept = {key: value for key, value in os.environ.items() if key in ("HOME", "PATH", "LANG")}
        environment = {**kept, "XDG_CACHE_HOME": str(cache), "ZOO_OFFLINE": "1"}
        offline = without_network()
        for words in COMMANDS:
            call(*offline, fresh / "bin/zoo", *words, cwd=empty, env=environment)
        written = sorted(each.name for each in empty.iterdir())
        assert written == ["predictions.csv", RUNS], written
        print("in the user's folder of caches:")
        for path in sorted(cache.rglob("*")):
            print(" ", path.relative_to(cache))


if __name__ == "__main__":
    main()
