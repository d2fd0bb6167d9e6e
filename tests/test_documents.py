"""The pages do what they say: every file in them is written, every command run."""

import ast
import doctest
import importlib
import json
import pkgutil
import re
import shlex
import shutil
import subprocess
from inspect import signature
from pathlib import Path

import pytest
from preloaded import run_preloaded

import zoo
from zoo.dgl import HAS_DGL
from zoo.training.trainer import fit

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```(\w+) ?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUICK = ["train.epochs=2", "seeds=[0]"]
LONG = re.compile(r"zoo (compare|check)|--processes")
"""Lines that take half a minute each: of `make slow`."""

SECTIONS = {
    "CONTRIBUTING.md: A dataset",
    "CONTRIBUTING.md: An attention",
    "CONTRIBUTING.md: An encoding",
    "data/README.md: A graph larger than memory",
    "data/README.md: A graph of your own",
    "docs/compare.md: Several graphs, and a table for a paper",
    "docs/encodings.md: # Encodings: where a node is in the graph",
    "docs/forecasting.md: A table of sales",
    "docs/forecasting.md: Chickenpox",
    "docs/graphs.md: # Whole graphs: a class or a number for each of many",
    "docs/graphs.md: Three tables",
    "docs/graphs.md: Molecules",
    "docs/links.md: # Links: which nodes are linked next",
    "docs/links.md: From Python",
    "docs/own-graphs.md: A shop",
    "docs/predict.md: Fine-tune",
    "docs/samples.md: The graph",
    "docs/start.md: First steps",
    "docs/train.md: A recipe of your own",
    "docs/tracking.md: # Trackers",
    "docs/train.md: Several processes, and graphs that are large",
    "docs/tune.md: # Find settings for a graph",
}
"""Sections whose commands other tests run as well, on other data: of `make slow`."""


@pytest.fixture
def checkout(tmp_path):
    """A copy of the project in which a page may write."""
    for name in ("zoo", "recipes", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name)  # with what is compiled, which is still true
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def run(line, folder):
    """Run a command of a page; training is cut short, a missing graph skips the page's test."""
    words = shlex.split(line)
    if words[0] == "zoo":
        words = [name for word in words for name in _expanded(word, folder)]
    if words[0] == "zoo":
        trains = words[1] in ("train", "reproduce", "compare", "finetune") and "--list" not in words
        short = QUICK if trains else []
        words = ["python", "-m", *words, *short]
    assert words[0] == "python", f"{line}: a page may call zoo and python"
    done = run_preloaded(words[1:], folder, PYTHONPATH=str(folder))
    if "ZOO_DATA" in done.stderr and done.returncode == 2:
        return  # a graph that would be downloaded
    allowed = (0, 1) if "reproduce" in words else (0,)  # which judges
    assert done.returncode in allowed, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def _expanded(word, folder):
    """What a shell makes of a pattern that files match."""
    found = sorted(folder.glob(word)) if "*" in word else []
    return map(str, found) if found else [word]


def test_a_command_is_run_as_in_a_new_process(tmp_path):
    code = """if True:
    import os, sys
    print(os.getcwd(), os.environ["OWN"], sys.argv[1:])
    sys.exit(f"{[name for name in sys.modules if name.startswith('zoo')]} {'dgl' in sys.modules}")
    """
    done = run_preloaded(["-c", code, "a"], tmp_path, OWN="mine")
    assert done.returncode == 1 and done.stderr == f"[] {HAS_DGL}\n"
    assert done.stdout == f"{tmp_path} mine ['a']\n"
    (tmp_path / "zoo.py").write_text("import os\nos._exit(7 * (__name__ == '__main__'))\n")
    assert run_preloaded(["-m", "zoo"], tmp_path).returncode == 7
    assert run_preloaded(["zoo.py"], tmp_path).returncode == 7


def agrees_with_the_makefile(line):
    """A line of the set-up, which no test can run inside itself, is what `make` would run."""
    if line.startswith("make "):
        subprocess.run(["make", "-n", *line.split()[1:]], cwd=ROOT, check=True, capture_output=True)
        return
    makefile = (
        (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin").replace("--quiet ", "")
    )
    makefile = makefile.replace("$(PYTHON)", "python3.11")
    makefile = makefile.replace("$(CONSTRAINTS)", "constraints.txt")
    assert line in makefile or "download.pytorch.org" in line, f"{line}: not in the Makefile"


RUN = ("README.md", "CONTRIBUTING.md", "data/README.md", *(
    f"docs/{name}.md" for name in ("compare", "encodings", "forecasting", "graphs", "links",
                                   "own-graphs", "predict", "python", "samples", "speed", "start",
                                   "tracking", "train", "tune")))  # fmt: skip
"""Pages whose blocks are run."""


def sections(long=False):
    """Every section of every page that has something to run, with what was written above it."""
    for page in RUN:
        above = []
        for section in re.split(r"^## ", (ROOT / page).read_text(), flags=re.MULTILINE):
            blocks = FENCE.findall(section)
            title = section.partition("\n")[0]
            if blocks and (not long or LONG.search(section)):
                name = f"{page}: {title}"
                late = [pytest.mark.slow] if name in SECTIONS else []
                yield pytest.param(page, above, blocks, id=name, marks=late)
            above = [*above, *(block for block in blocks if block[1])]


def write(where, text, folder):
    if where.startswith("append "):
        with (folder / where.removeprefix("append ")).open("a") as file:
            file.write(text)
    else:
        (folder / where).parent.mkdir(parents=True, exist_ok=True)
        (folder / where).write_text(text)


def test_sections_that_come_later_are_there():
    assert {each.id for each in sections()} >= SECTIONS


@pytest.mark.parametrize(("page", "above", "blocks"), list(sections()))
def test_a_page_does_what_it_says(page, above, blocks, checkout):
    follow(page, above, blocks, checkout, lambda line: not LONG.search(line))


@pytest.mark.slow
@pytest.mark.parametrize(("page", "above", "blocks"), list(sections(long=True)))
def test_a_page_does_what_it_says_at_length(page, above, blocks, checkout):
    follow(page, above, blocks, checkout, lambda line: True)


def follow(page, above, blocks, checkout, wanted):
    """Write and run what a section says, those lines of it that are wanted."""
    for _, where, text in above:
        write(where, text, checkout)
    for kind, where, text in blocks:
        if where:
            write(where, text, checkout)
        elif kind == "console":
            for line in filter(wanted, text.splitlines()):
                run(line, checkout)
        elif kind == "python":
            run(f"python -c {shlex.quote(text)}", checkout)
        elif kind == "sh":
            for line in text.splitlines():
                agrees_with_the_makefile(line)
        else:
            assert kind == "toml", f"{page}: a block of {kind} that nobody runs"


PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "data/README.md", *sorted(
    str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")))  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_what_there_is(page):
    text = (ROOT / page).read_text()
    written = {where.removeprefix("append ") for _, where, _ in FENCE.findall(text)}
    paths = re.findall(r"`((?:zoo|tests|benchmarks|docs|recipes)/[\w./-]*)`", text)
    assert [path for path in paths if path not in written and not (ROOT / path).exists()] == []
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []
    for name in re.findall(r"`(zoo(?:\.\w+)+)", text):
        pkgutil.resolve_name(name)  # ImportError or AttributeError: there is no such name


def test_what_the_page_of_limits_refuses_is_refused(command):
    page = " ".join((ROOT / "docs/limits.md").read_text().split())
    rows = re.findall(r"\(`(zoo [^`]+)`: \*([^*]+)\*\)", page)
    Path("graph.xlsx").touch()
    assert len(rows) == page.count("- **") > 20
    for line, refusal in rows:
        code, out, error = command(*shlex.split(line)[1:])
        said = " ".join(re.sub("[│╭╮╰╯─]", " ", out + error).split())
        assert code == 2 and refusal in said, f"{line}\n{said}"


def test_the_notebook_of_the_first_ten_minutes_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "docs/first-ten-minutes.ipynb").read_text())["cells"]
    code = ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    names = set(re.findall(r"zoo\.(\w+)", "".join(code)))
    assert len(code) > 5 and names <= set(zoo.__all__)
    there = {}
    for each in code:
        *lines, last = ast.parse(each.replace("epochs=20", "epochs=2")).body
        exec(compile(ast.Module(lines, []), "cell", "exec"), there)
        exec(compile(ast.Interactive([last]), "cell", "single"), there)
    assert isinstance(there["run"].test.mean, float) and there["run"].dataset == "mine"


def test_the_page_on_training_tells_the_defaults():
    table = (
        (ROOT / "docs/train.md").read_text().split("| `train.` | default | |")[1].split("\n\n")[0]
    )
    told = {}
    for names, values in re.findall(r"^\| (`.+?`) \| (.+?) \|", table, re.MULTILINE):
        told |= zip(re.findall(r"`(\w+)`", names), values.replace("`", "").split(", "), strict=True)
    defaults = {
        name: str(each.default).lower().removesuffix(".0")
        for name, each in signature(fit).parameters.items()
        if each.kind is each.KEYWORD_ONLY
    }
    assert told == {**defaults, "capture": "automatic"}


def test_contributing_names_every_room():
    rooms = {path.parent.name for path in (ROOT / "zoo").glob("*/*.py")}
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert [room for room in sorted(rooms) if f"`{room}/`" not in text] == []


def test_examples_in_docstrings():
    names = [each.name for each in pkgutil.walk_packages(zoo.__path__, "zoo.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    results = [doctest.testmod(module) for module in modules]
    assert sum(each.failed for each in results) == 0
    assert sum(each.attempted for each in results) > 0
