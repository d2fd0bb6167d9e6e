"""Pages in a headless Chromium: on wide and narrow screens, by day and by night, by keyboard."""

import socket

import pytest
from chromium import PROGRAM, chromium
from reports.pages import trained, write_graph

from zoo.reports.report import write_report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="needs Debian's package chromium"),
]

OVERFLOWING = """[...document.querySelectorAll("main *, header *")].filter(each => {
  const box = each.getBoundingClientRect();
  return box.right > innerWidth + 1 && !each.closest(".scroll, pre, svg");
}).map(each => each.outerHTML.slice(0, 80))"""

SMALL = """[...document.querySelectorAll("figure svg[role=img] text")].map(each =>
  each.getBoundingClientRect().height).filter(height => height < 11).length"""
"""Texts of figures that nobody can read: the box of a line of 10 pixels is 11 high, or more."""

CONTRAST = """(() => {
  const light = text => {
    const parts = text.match(/[\\d.]+/g).slice(0, 3).map(each => each / 255).map(each =>
      each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ratio = (one, two) => (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
  const card = light(getComputedStyle(document.querySelector("figure")).backgroundColor);
  const least = (selector, key) => Math.min(...[...document.querySelectorAll(selector)].map(each =>
    ratio(light(getComputedStyle(each)[key]), card)));
  return [least("figure svg text:not([style*=over])", "fill"),
          least("figure svg path[style*='fill: none; stroke: var(--s']", "stroke"),
          least("figure svg use[style^='fill: var(--s']", "fill")];
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The page of a run, and of two."""
    place = tmp_path_factory.mktemp("browser")
    data = {"name": str(write_graph(place / "mine")), "split": "ratio-60-20-20"}
    runs = [trained(place / "runs", data, model, train={"epochs": 8}) for model in ("gcn", "mlp")]
    return {7: write_report(runs[0]), 5: write_report(runs, place / "compared.html")}


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.mark.parametrize("figures", [7, 5])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_whole_on_every_screen(figures, width, scheme, pages, browser):
    browser.problems.clear()
    browser.requests.clear()
    browser.open(pages[figures], width, scheme=scheme)
    assert browser.problems == []
    assert {each.partition(":")[0] for each in browser.requests} <= {"file", "data"}
    assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
    assert browser.ask(OVERFLOWING) == []
    drawn = browser.ask("""[...document.querySelectorAll("figure svg[role=img]")].map(each =>
        each.getBBox()).filter(box => box.width > 200 && box.height > 150).length""")
    assert drawn == figures
    assert browser.ask(SMALL) == 0
    text, line, mark = browser.ask(CONTRAST)
    assert text >= 4.5 and line >= 3 and mark >= 3  # WCAG 2.2, 1.4.3 and 1.4.11
    dark = browser.ask("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")


def test_a_page_is_read_by_keyboard_and_by_ear(pages, browser):
    browser.open(pages[7])
    browser.press("Tab", 9)
    assert browser.ask("document.activeElement.textContent") == "Skip to the results"
    assert browser.ask("document.activeElement.getBoundingClientRect().left") == 0
    browser.press("Tab", 9)
    assert browser.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    found = browser.tree()
    roles = [role for role, _ in found]
    assert {"banner", "navigation", "main", "region"} <= set(roles)
    images = [name for role, name in found if role in ("image", "img")]
    assert {"Training loss", "Validation score", "Confusion matrix", "Reliability",
            "Score by degree", "Score by homophily", "Embedding"} <= set(images)  # fmt: skip
    assert browser.ask("document.querySelectorAll('details').length") >= 7
    browser.ask("document.querySelector('figure summary').focus()")
    assert not browser.ask("document.querySelector('figure details').open")
    browser.press(" ", 32)
    assert browser.ask("document.querySelector('figure details').open")


def test_the_policy_of_a_page_lets_nothing_out(pages, browser, tmp_path):
    """And a browser that is asked to complains: the test above would see it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        more = f"<script>fetch('{address}')</script><img src='{address}'>"
        changed = tmp_path / "changed.html"
        changed.write_text(pages[7].read_text().replace("</main>", f"{more}</main>"))
        browser.problems.clear()
        browser.open(changed)
        assert len(browser.problems) >= 2
        with pytest.raises(BlockingIOError):
            server.accept()
