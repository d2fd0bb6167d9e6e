"""What mkdocs makes of the project besides docs/: pages of models, words and public names.

Pages that stand elsewhere, such as CONTRIBUTING.md, join the site, and links between files of the
project become links between pages; a block of code that is a file has its name as a title. A link
that leads nowhere, and a public name, word or option without a sentence, end the build.
"""

import inspect
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import zoo  # noqa: E402
from zoo.registry import leave_out_plugins  # noqa: E402

leave_out_plugins()

from zoo.cli.describe import CATALOGUE, Rows, options  # noqa: E402
from zoo.data.graph_words import GRAPHS  # noqa: E402
from zoo.data.load import DATASETS, READERS, STREAMS  # noqa: E402
from zoo.data.load.readers import SERIES, SETS  # noqa: E402
from zoo.data.splits import SPLITS  # noqa: E402
from zoo.encodings import ENCODINGS  # noqa: E402
from zoo.nn.attention import ATTENTIONS  # noqa: E402
from zoo.nn.propagation import PROPAGATIONS  # noqa: E402
from zoo.registry import MODELS, discover  # noqa: E402
from zoo.tasks import LOSSES, METRICS  # noqa: E402
from zoo.training.batches import BATCHING  # noqa: E402
from zoo.training.optimizers import OPTIMIZERS, SCHEDULES  # noqa: E402
from zoo.training.trainer import fit  # noqa: E402
from zoo.weights.model_card import summary  # noqa: E402

ELSEWHERE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "data/README.md": "data.md",
    "benchmarks/results.md": "benchmarks.md",
    "recipes/README.md": "recipes.md",
    **{f"recipes/{name}/README.md": f"models/{name}.md" for name in MODELS},
}
"""Pages that are not in docs/, and what they are called in the site."""

WORDS = {
    "attention": (ATTENTIONS, "`model.attention`, of every model that attends."),
    "propagation": (PROPAGATIONS, "`model.propagation`: how neighbours are gathered."),
    "encoding": (ENCODINGS, "`encoding`: positional encodings, beside the features."),
    "graph": (GRAPHS, "`graph`: edges that are made of the features."),
    "split": (SPLITS, "`dataset.split`, and words such as `ratio-60-20-20`."),
    "batching": (BATCHING, "`train.batching`: what a step is of."),
    "loss": (LOSSES, "`train.loss`: what is minimised."),
    "metric": (METRICS, "`train.metric`: what chooses the epoch, and is the score."),
    "optimizer": (OPTIMIZERS, "`train.optimizer`."),
    "schedule": (SCHEDULES, "`train.schedule`: how the learning rate changes."),
    "dataset": (DATASETS, "`dataset`: what has a name."),
    "file": ({**READERS, **SERIES, **SETS}, "`dataset: PATH`: files, by how they end."),
    "on-disk file": (STREAMS, "`zoo data prepare FILE NAME --on-disk`: larger than memory."),
}  # fmt: skip
"""Kind of word to its table, and where it is written."""

FENCE = re.compile(r"^```(\S*) ?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A block of code: its language, the file that it is or `append` and a file, and its lines."""

FORMULAS = """<link rel="stylesheet" href="{0}/katex.min.css">
<script defer src="{0}/katex.min.js"></script>
<script defer src="{0}/formulas.js"></script>
</head>"""
"""What a page with formulas loads, KaTeX and what calls it, before the end of its head."""

PART = "::: {}\n    options: {{heading_level: 3, members: false}}"

LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)\s#]+)")


def on_config(config: Any) -> None:
    """Add the pages of models to the list of pages."""
    discover()
    pages = next(each["Models and words"] for each in config.nav if "Models and words" in each)
    pages += [{name: f"models/{name}.md"} for name in sorted(MODELS)]


def on_files(files: Files, config: Any) -> None:
    """Add what does not stand in docs/."""
    made = {page: linked((ROOT / source).read_text(), source) for source, page in ELSEWHERE.items()}
    for name in MODELS:
        made[f"models/{name}.md"] = with_options(made[f"models/{name}.md"], name)
    made["recipes.md"] += f"\n{gallery()}\n"
    made["first-ten-minutes.md"] = notebook(ROOT / "docs/first-ten-minutes.ipynb")
    made |= {"words.md": words_page(), "api.md": api_page()}
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    beside = [*(ROOT / "benchmarks").glob("*.png"), *(ROOT / "recipes").glob("*/*.yaml")]
    for path in beside:
        source = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, in_site(source), abs_src_path=str(path)))
    own = ROOT / "docs/site"
    files.append(File.generated(config, "site.css", abs_src_path=str(own / "site.css")))
    for path in filter(Path.is_file, own.glob("katex/**/*")):
        there = path.relative_to(own).as_posix()
        files.append(File.generated(config, there, abs_src_path=str(path)))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links between files into links between pages, and names of files into titles."""
    source = f"docs/{page.file.src_uri}"
    markdown = linked(markdown, source) if (ROOT / source).is_file() else markdown
    return FENCE.sub(titled, markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Link the parts of a model to where they are told, in its equations and in the text."""
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    before, parts, after = html.partition('<h2 id="parts">')
    for part, thing in (named_parts(name) if folder == "models" else {}).items():
        link = f'<a href="#{thing.__module__}.{thing.__qualname__}">{{}}</a>'
        for told in (f"`{part}`", f"<code>{part}</code>"):
            before = before.replace(told, link.format(told))
    return before + parts + after


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Load KaTeX where there are formulas."""
    katex = get_relative_url("katex", page.url)
    loaded = FORMULAS.format(katex) if 'class="arithmatex"' in output else "</head>"
    return output.replace("</head>", loaded, 1)


def titled(block: re.Match) -> str:
    """Return a block of code whose file is its title.

    GitHub takes the name of a file behind the language; mkdocs takes such a block for a paragraph.
    """
    language, where, lines = block.groups()
    if not where:
        return block[0]
    title = where.replace("append ", "append to ", 1)
    return f'```{language} title="{title}"\n{lines}```'


def in_site(source: str) -> str:
    """Return where a file of the project is in the site."""
    page = source.removeprefix("docs/").replace("recipes/", "models/", 1)
    return ELSEWHERE.get(source) or re.sub(r"\.ipynb$", ".md", page)


def linked(text: str, source: str) -> str:
    """Return the text of a page whose links lead to pages of the site."""
    begin = Path(in_site(source)).parent

    def link(found: re.Match) -> str:
        target = Path(os.path.normpath(Path(source).parent / found[1]))
        known = (ROOT / target).is_file()  # a broken one is left, for mkdocs to tell of it
        return os.path.relpath(in_site(target.as_posix()), begin) if known else found[0]

    return LINK.sub(link, text)


def with_options(text: str, name: str) -> str:
    """Return the page of a model with its options, and what it does otherwise than its paper."""
    table = options_table(f"model {name}", options(MODELS[name]))
    about = (inspect.getdoc(inspect.getmodule(MODELS[name])) or "").partition("\n\n")[2]
    parts = [PART.format(f"{each.__module__}.{each.__qualname__}")
             for each in named_parts(name).values()]  # fmt: skip
    own = "\n\n".join(["## Options", table, *(["## About", about] if about else []),
                       *(["## Parts", *parts] if parts else [])])  # fmt: skip
    text = re.sub(r"`zoo info .*? prints its options; its", "Its", text)
    before = "## How to cite" if "## How to cite" in text else "## Recipes"
    return text.replace(before, f"{own}\n\n{before}", 1)


def notebook(path: Path) -> str:
    """Return a notebook as a page: its texts, and its code as blocks."""
    forms = {"markdown": "{}", "code": "```python\n{}\n```"}
    cells = json.loads(path.read_text())["cells"]
    return "\n\n".join(forms[each["cell_type"]].format("".join(each["source"])) for each in cells)


def named_parts(name: str) -> dict[str, Any]:
    """Return the classes and functions of the zoo that the docstrings of a model name."""
    module = inspect.getmodule(MODELS[name])
    said = f"{inspect.getdoc(module)}\n{inspect.getdoc(MODELS[name])}"
    found = {word: getattr(module, word, None) for word in re.findall(r"`(\w+)`", said)}
    return {
        word: each
        for word, each in sorted(found.items())
        if (inspect.isclass(each) or inspect.isfunction(each))
        and each.__module__.startswith("zoo.")
        and inspect.getdoc(each)
    }


def gallery() -> str:
    """Return all recipes with the numbers they should reach and have reached, by data set."""
    lines = ["## By data set", "", "*Published* is what the source reports, *measured* what the "
             "recipe has reached here; empty where nobody has run it.", "", "| data set | recipe | "
             "metric | published | measured |", "| -- | -- | -- | -- | -- |"]  # fmt: skip
    last = None
    for row in CATALOGUE["recipes"]():
        name, model, data = row["name"], row["model"], row["dataset"]
        measured = "" if row["measured"] is None else f"{row['measured']:.4f} ± {row['std']:.4f}"
        published = "" if row["expected"] is None else f"{row['expected']:.4f}"
        lines.append(f"| {'' if data == last else data} | [{name}](models/{model}/{name}.yaml) | "
                     f"{row['metric'] or ''} | {published} | {measured} |")  # fmt: skip
        last = data
    return "\n".join(lines)


def words_page() -> str:
    """Return the page of all words of recipes, and of the options of training."""
    parts = ["# Words of recipes", "Models are [pages of their own](recipes.md).", "## train",
             options_table("train", options(fit))]  # fmt: skip
    for kind, (table, where) in WORDS.items():
        parts += [f"## {kind}", where]
        for word in sorted(table):
            said = summary(table[word])
            if not said:
                raise PluginError(f"{kind} {word!r} has no docstring")
            parts += [f"### {word}", said, options_table(f"{kind} {word}", options(table[word]))]
    return "\n\n".join(part for part in parts if part) + "\n"


def options_table(what: str, rows: Rows) -> str:
    """Return options as a table, "" where there are none."""
    if not rows:
        return ""
    lost = [row["name"] for row in rows if not row["what"]]
    if lost:
        raise PluginError(f"{what}: no sentence about {', '.join(lost)}")
    lines = [f"| `{row['name']}` | {shown(row['default'])} | {cell(row['takes'])} | "
             f"{cell(row['what'])} |" for row in rows]  # fmt: skip
    return "\n".join(["| option | default | takes | what it is |", "| -- | -- | -- | -- |", *lines])


def shown(default: Any) -> str:
    """Return a default as a recipe would write it."""
    written = str(default).lower() if isinstance(default, bool) else str(default)
    return "" if default is None else f"`{written}`"


def cell(text: str) -> str:
    """Return a text that stays in its cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


def api_page() -> str:
    """Return the page of the public names."""
    bare = [name for name in zoo.__all__ if not inspect.getdoc(getattr(zoo, name))]
    if bare:
        raise PluginError(f"public names without a docstring: {', '.join(bare)}")
    parts = ["# Public names", "What `import zoo` brings; the parts of models are in `zoo.nn`."]
    tables = {name for name in zoo.__all__ if name.isupper()}
    things = [getattr(zoo, each) for each in sorted(set(zoo.__all__) - tables, key=str.lower)]
    parts += [f"::: {thing.__module__}.{thing.__qualname__}" for thing in things]
    parts += ["## Tables of words", "`zoo.{" + ", ".join(sorted(tables)) + "}` are mappings of "
              "words to what they build; [words of recipes](words.md) has them."]  # fmt: skip
    return "\n\n".join(parts) + "\n"
