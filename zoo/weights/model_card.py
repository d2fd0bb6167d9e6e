"""The model card, README.md of a folder of weights: data, training, scores, use, citation.

It is rendered as Markdown, by the Hub and others. Text that is not the zoo's own, such as names of
data sets and classes, stands in it as code on one line, where neither Markdown nor HTML is read.
"""

import inspect
import re
from importlib.resources import files

from zoo.config.metadata import About
from zoo.config.scores import figure
from zoo.config.yaml_lines import recipe_text
from zoo.errors import printable
from zoo.registry import MODELS, Model
from zoo.tasks.labels import GRAPH_METRICS, OF_GRAPHS, SEQUENCES

SHOWN = 30
"""Columns at most that a card names; `config.json` names all."""

_TAGS = {
    "node-forecasting": "time-series-forecasting",
    **{task: task for task in GRAPH_METRICS},
    SEQUENCES: "text-classification",
}
"""Task to its tag on the Hub; of the others it is `node-classification`."""


def card(name: str, model: Model, about: About) -> str:
    """Return the model card of some weights, in Markdown.

    Args:
        name: word of the model.
        model: the model with its weights.
        about: metadata of its weights.
    """
    weights = sum(weight.numel() for weight in model.parameters())
    text, series = model.tokenizer is not None, about.task == "node-forecasting"
    tag = _TAGS.get(about.task or "", "node-classification")
    tags = "translation, seq2seq" if text else f"graphs, {tag}, dgl"
    parts = [
        f"---\nlibrary_name: graph-transformer-zoo\ntags: [{tags}]\n---",
        f"# {name}{f' on {_name(about.data)}' if about.data else ''}",
        f"{summary(MODELS[name])} {weights:,} parameters.",
        _data(model, about),
        _training(about),
        _scores(about, "part" if text or about.task in _TAGS else "nodes"),
        _USE_OF_TEXT if text else _USE_OF_SERIES if series else _use(model),
        _imports(about),
        f"## Citation\n\n{_block('bibtex', entry)}" if (entry := citation(name)) else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(thing: object) -> str:
    """Return the first line of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def citation(name: str) -> str | None:
    """Return the BibTeX entry of a model of the zoo, None where it has no paper."""
    text = files("zoo.models").joinpath("papers.bib").read_text(encoding="utf-8")
    entries = re.split(r"\n\n(?=@)", text.strip())
    begins = re.compile(rf"@\w+{{{re.escape(name)},")
    return next((entry for entry in entries if begins.match(entry)), None)


def _data(model: Model, about: About) -> str:
    unit = "graph" if about.task in OF_GRAPHS else "node"
    gives, reads = f"logits per {unit}", f"{model.config['in_dim']} numbers per node"
    if model.tokenizer is not None:
        gives, reads = "logits per token", f"text, in {model.config['in_dim']} tokens"
    elif about.features is not None:
        transform = _plain(f"features: {_word(about.transform)}")
        reads = f"{about.features} features per node ({transform})"
        reads += f" and the encoding {_plain(_word(about.encoding))}, "
        reads += f"{model.config['in_dim']} numbers"
    lines = [f"- task: {_name(about.task) if about.task else 'not known'}", f"- reads: {reads}"]
    if about.feature_names:
        shown = ", ".join(map(_plain, about.feature_names[:SHOWN]))
        more = len(about.feature_names) - SHOWN
        lines += [f"- columns: {shown}{f' and {more:,} more' * (more > 0)}"]
    lines += [f"- gives: {model.config['out_dim']} {gives}"]
    if about.labels:
        lines += [f"- classes: {', '.join(map(_plain, about.labels))}"]
    if about.licence:
        lines += [f"- licence: {_plain(about.licence)}"]
    return "## Data\n\n" + "\n".join(lines)


def _training(about: About) -> str:
    if about.recipe is None:
        return ""
    files = about.files or {}
    packages = (about.versions or {}).items()
    versions = ", ".join(f"{name} {version}" for name, version in packages if version)
    recipe = _block("yaml", recipe_text(about.recipe))
    sums = "".join(
        f"\n- {_plain(name)}: SHA-256 {_plain(sha256)}" for name, sha256 in files.items()
    )
    return (
        f"## Training\n\nSeed {about.seed} of this recipe, with "
        f"{_plain(versions or 'unknown versions')}:\n\n{recipe}" + (f"\n{sums}" if sums else "")
    )


def _scores(about: About, what: str) -> str:
    if not about.scores:
        return ""
    rows = "\n".join(f"| {_cell(part)} | {figure(score)} |" for part, score in about.scores.items())
    return f"## Scores\n\n| {what} | {_cell(about.metric or 'score')} |\n| -- | -- |\n{rows}"


def _use(model: Model) -> str:
    graph = "any graph with some labels" if model.any_graph else "a graph with the same features"
    return _USE.format(graph=graph)


_USE = """## Use

```python
import zoo

model = zoo.load("this folder")
print(zoo.predict(model, "{graph}").table())
```

or `zoo predict FOLDER --data GRAPH --out predictions.csv`; `zoo finetune FOLDER --data GRAPH`
trains on from here."""


_USE_OF_TEXT = """## Use

`zoo predict FOLDER --text FILE --out TRANSLATION` translates a sentence a line; `--text -` what is
typed."""


_USE_OF_SERIES = """## Use

`zoo predict FOLDER --data TABLE --steps 10` writes what comes next, id, time and value;
`zoo evaluate FOLDER --data TABLE` measures it beside baselines."""


def _imports(about: About) -> str:
    """Say which code the weights need that does not come with them."""
    names = (about.recipe or {}).get("imports")
    files = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    if not files:
        return ""
    return (
        f"They need code that is not part of the weights: {', '.join(map(_plain, files))}. Have it "
        "at hand, import it before `zoo.load`, and write `--import` with each command."
    )


def _word(spec: str | dict) -> str:
    if not isinstance(spec, dict):
        return spec
    options = ", ".join(f"{key}: {value}" for key, value in spec.items() if key != "name")
    return f"{spec['name']} ({options})" if options else spec["name"]


def _plain(text: str) -> str:
    """Quote a user's text as code on one line, so that it is no Markdown and no HTML."""
    return f"`{' '.join(printable(text.replace('`', chr(39))).split()) or ' '}`"


def _name(text: str) -> str:
    """Return a word as it is, and quote any other text."""
    return text if re.fullmatch(r"[A-Za-z0-9-]+", text) else _plain(text)


def _cell(text: str) -> str:
    """Quote a text in a table, whose cells end at a bar in code as well."""
    return _name(text).replace("|", "\\|")


def _block(language: str, text: str) -> str:
    """Quote lines of text between fences that are longer than any run of backticks in it."""
    fence = "`" * max(3, len(max(re.findall("`+", text), key=len, default="")) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
