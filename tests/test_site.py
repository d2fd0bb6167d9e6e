"""The pages as a site: `make docs` builds it strictly, and a browser needs no network for it."""

import functools
import http.server
import re
import runpy
import shutil
import subprocess
import sys
import threading
import time
from html import unescape
from pathlib import Path

import pytest
from chromium import PROGRAM, chromium

import zoo

ROOT = Path(__file__).parent.parent


def build(root, site):
    """Build as `make docs` does; return the exit status and what was said."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    config = root / "docs" / "site" / "mkdocs.yml"
    done = subprocess.run([*command, "-f", config, "-d", site], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    status, said = build(ROOT, folder)
    assert status == 0, said
    return folder


def plain(html):
    return re.sub(r"<[^>]*>", "", html)


def text_of(path):
    return plain(path.read_text())


def test_it_has_every_model_option_recipe_and_public_name(site):
    for name in zoo.list_models():
        page = (site / "models" / f"{name}.html").read_text()
        for option in zoo.config.options.options_of(zoo.MODELS[name]):
            assert f"<code>{option}</code>" in page, f"{name}: {option}"
    names, gallery = (site / "api.html").read_text(), text_of(site / "recipes.html")
    tables = {name for name in zoo.__all__ if name.isupper()}
    assert [name for name in set(zoo.__all__) - tables if f'.{name}"' not in names] == []
    recipes = list(ROOT.glob("recipes/*/*.yaml"))
    assert [each.stem for each in recipes if each.stem not in gallery] == []
    assert (site / "models" / "sgformer" / "sgformer-cora.yaml").is_file()


BLOCK = re.compile(
    r'<div class="[^"]*highlight">(?:<span class="filename">(.*?)</span>)?<pre>(.*?)</pre></div>',
    re.DOTALL,
)


def blocks_in(source):
    """Each block of code of a page as it is written: the file that it is, and its text."""
    found, inside = [], False
    for line in source.splitlines(keepends=True):
        if line.startswith("```"):
            inside = not inside
            found += [(line.partition(" ")[2].strip().removeprefix("append "), "")] * inside
        elif inside:
            found[-1] = (found[-1][0], found[-1][1] + line)
    return found


def test_every_block_of_code_is_one_and_a_file_is_its_title(site):
    hooks = runpy.run_path(str(ROOT / "docs" / "site" / "hooks.py"))
    sources = [*hooks["ELSEWHERE"], *(f"docs/{each.name}" for each in ROOT.glob("docs/*.md"))]
    files = 0
    for source in sources:
        page = (site / hooks["in_site"](source)).with_suffix(".html")
        html, written = page.read_text(), blocks_in((ROOT / source).read_text())
        built = [(title, unescape(plain(text))) for title, text in BLOCK.findall(html)]
        assert [text for _, text in built] == [text for _, text in written], source
        assert html.count("<pre") == len(built), source
        for (title, _), (name, _) in zip(built, written, strict=True):
            assert title.endswith(name) and bool(title) == bool(name), source
        files += sum(bool(name) for name, _ in written)
    assert files > 20
    broken = [str(page) for page in site.rglob("*.html") if "```" in text_of(page)]
    assert broken == []


@pytest.fixture
def copy(tmp_path):
    """A checkout whose pages may be spoilt."""
    for name in ("docs", "recipes", "benchmarks", "zoo"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "data").mkdir()
    shutil.copy(ROOT / "data" / "README.md", tmp_path / "data")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "old", "new", "said"),
    [
        pytest.param(
            *("docs/train.md", "large-graphs.md", "larger-graphs.md", "larger-graphs.md"),
            marks=pytest.mark.slow,  # a whole build; that of the pages themselves is strict as well
        ),
        pytest.param(
            *("zoo/models/sage.py", "        norm: ", "        gnorm: ", "model sage: no sentence"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["a broken link", "an option without a sentence"],
)
def test_what_is_missing_ends_the_build(copy, path, old, new, said):
    text = (copy / path).read_text()
    assert old in text
    (copy / path).write_text(text.replace(old, new, 1))
    status, told = build(copy, copy / "built")
    assert status != 0 and said in told


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def address(site):
    """A server of the pages on this machine."""
    handler = functools.partial(Silent, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


OPENED = (("index", 1280), ("models/sgformer", 400), ("api", 1280), ("energy", 400))
SET = ".arithmatex > .katex, .arithmatex > .katex-display"
BEYOND = """[...document.querySelectorAll('.md-content :not(.katex *)')].filter(each => {
    const box = each.getBoundingClientRect()
    return box.width && box.left < 400 && box.right > 401
}).filter(each => {
    const scrolls = other => /auto|scroll/.test(getComputedStyle(other).overflowX)
    const fits = other => other.getBoundingClientRect().right <= 400
    let around = each.parentElement
    while (around && !(scrolls(around) && fits(around))) around = around.parentElement
    return !around
}).map(each => each.outerHTML.slice(0, 100))"""
"""What the right edge of a window of 400 pixels cuts, and no box scrolls."""


@pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium")
def test_a_browser_shows_it_and_finds_words_without_a_network(address):
    with chromium() as page:
        for name, width in OPENED:
            page.open(f"{address}/{name}.html", width=width, scheme="dark")
            assert page.ask("document.documentElement.scrollWidth") <= width, name
            assert page.ask("document.body.getAttribute('data-md-color-scheme')") == "slate"
        written, found = (
            f"document.querySelectorAll('{each}').length" for each in (".arithmatex", SET)
        )
        assert page.ask(written) == page.ask(found) > 0
        page.ask("document.querySelector('.md-search__input').focus()")
        page("Input.insertText", text="softmax")  # at once: its search warns of single letters
        until = time.monotonic() + 20
        while not page.ask("document.querySelectorAll('.md-search-result__item').length"):
            assert time.monotonic() < until, "nothing was found"
            time.sleep(0.1)
    assert page.problems == []
    assert [each for each in page.requests if not each.startswith((address, "data:"))] == []


@pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium")
def test_no_page_is_wider_than_a_telephone(site, address):
    wide = {}
    with chromium() as page:
        page("Network.setBlockedURLs", urls=["*/assets/javascripts/*"])  # of the theme: slow
        for each in sorted(path.relative_to(site) for path in site.rglob("*.html")):
            page.open(f"{address}/{each}", width=400)
            width, cut = page.ask("document.documentElement.scrollWidth"), page.ask(BEYOND)
            if width > 400 or cut:
                wide[str(each)] = (width, cut)
        page.ask("document.querySelector('article').innerHTML = '<hr style=\"width: 500px\">'")
        assert page.ask("document.documentElement.scrollWidth") > 400
        assert page.ask(BEYOND)[-1].startswith("<hr")
    assert wide == {}


def test_parts_of_a_model_are_linked_to_what_is_told_of_them(site):
    page = (site / "models" / "sgformer.html").read_text()
    for part in ("GraphStack", "GraphResidual"):
        assert f'<a href="#zoo.models.sgformer.{part}">`{part}`</a>' in page
        assert f'id="zoo.models.sgformer.{part}"' in page
