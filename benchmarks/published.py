"""Command lines of the authors against the zoo's recipes: no difference without a sentence.

    python benchmarks/published.py [RECIPE ...]

`benchmarks/published.yaml` holds what the command lines set. Here each program's flags and defaults
are turned into the words of a recipe and compared with the recipe, all its options written out.
Where they differ, a sentence under `differs:` of the recipe has to name the option in backticks;
one that names an option in which nothing differs is stale. Ends with 1 where there is either.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from zoo.runs.resolve import load_recipe, write_out

Flags = dict[str, Any]
Settings = dict[str, Any]

TABLE = Path(__file__).with_name("published.yaml")
PER_CLASS = {"name": "per-class-20", "seed": 123}
ROW = {"computer", "photo", "cs", "physics"}
"""Data sets whose features the baselines' program, and Polynormer's, normalise by row."""


OFF = (None, False, 0, "none")
"""What a program sets that it might as well not: a model needs no option for it."""


class Difference(NamedTuple):
    """One setting that a recipe and its source do not share, and the sentence that says so."""

    recipe: str
    key: str
    published: object
    here: object
    sentence: str | None


def training(flags: Flags, **defaults: Any) -> Settings:
    """Return what every program sets of the training."""
    given = {**defaults, **flags}
    keys = {"lr": "lr", "weight_decay": "weight_decay", "epochs": "epochs", "patience": "patience",
            "eval_step": "evaluate_every", "optimizer": "optimizer.name"}  # fmt: skip
    settings = {f"train.{word}": given[flag] for flag, word in keys.items() if flag in given}
    settings.setdefault("train.patience", "none")
    settings["seeds"] = given["runs"]  # how many
    if "batch_size" in given:
        settings |= {"train.batching.name": "random-nodes",
                     "train.batching.size": given["batch_size"]}  # fmt: skip
    if "eval_epoch" in given:
        settings["train.evaluate_from"] = given["eval_epoch"] + 1
    return settings


def split(flags: Flags, dataset: str, *, one: bool) -> Settings:
    """Return the split; `one` of them serves all runs where it is random."""
    if "rand_split_class" in flags:
        return {"dataset.split": PER_CLASS}
    if "rand_split" not in flags:
        return {"dataset.split": "benchmark"}
    name = "ratio-50-25-25"
    return {"dataset.split": {"name": name, "seed": "one for all runs"} if one else name}


def sgformer_medium(flags: Flags, dataset: str) -> Settings:
    """SGFormer's program for medium graphs."""
    drop, decay = flags["dropout"], flags["weight_decay"]
    return {
        **training(flags, epochs=500, patience=200),
        **split(flags, dataset, one=False),
        "dataset.features": "raw" if "no_feat_norm" in flags or "deezer" in dataset else "row",
        "model.graph_branch": "stack",
        "model.dim": flags["hidden_channels"],
        "model.layers": flags["ours_layers"],
        "model.graph_layers": flags["num_layers"],
        "model.graph_dropout": drop,
        "model.graph_weight": flags.get("graph_weight", 0.8),
        "model.dropout": flags.get("ours_dropout", drop),
        "model.attention_weight_decay": flags.get("ours_weight_decay", decay),
        "model.alpha": flags["alpha"] if "ours_use_residual" in flags else 1.0,
        "model.use_weight": False,
        "model.activation": False,
        "model.norm.name": "none",
        "model.graph_norm.name": "none",
        "train.loss": "one-hot" if "deezer" in dataset else "task",
    }


def sgformer_medium_difformer(flags: Flags, dataset: str) -> Settings:
    """DIFFormer as SGFormer's program runs it."""
    return {
        **training(flags, epochs=500, patience=200),
        "dataset.split": "benchmark",
        "dataset.features": "row",
        "model.dim": flags["hidden_channels"],
        "model.layers": flags["num_layers"],
        "model.dropout": flags["dropout"],
        "model.kernel": "simple",
        "model.alpha": 0.5,
        "model.use_weight": True,
        "model.use_graph": True,
        "model.norm.name": "layer",
    }


def sgformer_large(flags: Flags, dataset: str) -> Settings:
    """SGFormer's program for large graphs."""
    return {
        **training(flags, epochs=1000, weight_decay=0, eval_step=9),
        **split(flags, dataset, one=False),
        "model.graph_branch": "residual",
        "model.dim": flags["hidden_channels"],
        "model.layers": 1,
        "model.graph_layers": flags["gnn_num_layers"],
        "model.graph_dropout": flags["gnn_dropout"],
        "model.graph_weight": flags["graph_weight"],
        "model.dropout": flags["trans_dropout"],
        "model.alpha": 0.5,
        "model.use_weight": True,
        "model.use_init": "gnn_use_init" in flags,
        "model.activation": False,
        "model.norm.name": "layer",
        "model.graph_norm.name": "batch",
    }


def sgformer_100m(flags: Flags, dataset: str) -> Settings:
    """SGFormer's program for 100M nodes."""
    sizes = {"name": "neighbours", "fanouts": [15, 10, 5], "size": flags["batch_size"]}
    flags = {**flags, "gnn_num_layers": flags["num_layers"], "gnn_dropout": flags["dropout"],
             "trans_dropout": flags["ours_dropout"]}  # fmt: skip
    flags |= {"gnn_use_init": True} if "use_init" in flags else {}
    settings = sgformer_large(flags, dataset) | {
        f"train.batching.{key}": value for key, value in sizes.items()
    }
    return {**settings, "train.evaluate": "batches", "train.evaluate_every": 1}


def nodeformer(flags: Flags, dataset: str) -> Settings:
    """NodeFormer's programs."""
    return {
        **training(flags),
        **split(flags, dataset, one=dataset in ("cora", "citeseer", "pubmed")),
        "dataset.features": "row" if dataset in ("cora", "citeseer", "pubmed", "actor") else "raw",
        "dataset.task": "node-binary" if dataset == "deezer-europe" else None,
        "model.dim": flags.get("hidden_channels", 32),
        "model.layers": flags.get("num_layers", 2),
        "model.full_heads": flags["num_heads"],
        "model.orders": flags["rb_order"],
        "model.order_weight": flags.get("rb_trans", "sigmoid"),
        "model.edge_loss": flags["lamda"],
        "model.random_features": flags.get("M", 30),
        "model.samples": flags.get("K", 10),
        "model.temperature": 0.25,
        "model.epsilon": 1e-6,
        "model.dropout": flags.get("dropout", 0.0),
        "model.norm.name": "layer",
        "model.residual": True,
        "model.activation": "use_act" in flags,
        "model.jumping_knowledge": "use_jk" in flags,
        "train.loss": "one-hot" if dataset == "deezer-europe" else "task",
    }


def difformer(flags: Flags, dataset: str) -> Settings:
    """DIFFormer's programs for nodes."""
    return {
        **training(flags),
        **split(flags, dataset, one=False),
        "dataset.features": "row" if "rand_split_class" in flags else "raw",
        "model.dim": flags["hidden_channels"],
        "model.layers": flags["num_layers"],
        "model.full_heads": 1,
        "model.kernel": flags.get("kernel", "simple"),
        "model.dropout": flags.get("dropout", 0.0),
        "model.alpha": 0.5,
        "model.use_weight": "use_weight" in flags,
        "model.use_source": False,
        "model.use_graph": True,
        "model.norm.name": "layer",
    }


def difformer_samples(flags: Flags, dataset: str) -> Settings:
    """DIFFormer's program for images and texts."""
    flags = {**flags, "dropout": 0.0, "num_layers": 2, "weight_decay": 0.1, "epochs": 600}
    counts = (100, 200, 400) if dataset == "20news" else (10, 50, 100)
    splits = [f"per-class-{count}" for count in counts]
    return {**difformer(flags, dataset), "dataset.split": splits, "model.use_graph": False}


def difformer_temporal(flags: Flags, dataset: str) -> Settings:
    """DIFFormer's program for graphs in time."""
    flags = {"weight_decay": 0.0, "num_layers": 2, "hidden_channels": 4, "dropout": 0.2, **flags}
    return {
        **difformer(flags, dataset),
        **training(flags, epochs=200, patience=20),
        "dataset.split": "time-20-20-60",
        "dataset.features": None,
        "model.use_graph": "use_graph" in flags,
    }


def polynormer(flags: Flags, dataset: str) -> Settings:
    """Polynormer's program for medium graphs."""
    heads, phases = flags["num_heads"], (flags["local_epochs"], flags["global_epochs"])
    beta = flags.get("beta", -1.0)
    return {
        **training({**flags, "epochs": sum(phases)}, lr=0.001),
        "dataset.features": "row" if dataset in ROW else "raw",
        "dataset.split": "benchmark",
        "model.dim": heads * flags["hidden_channels"],
        "model.heads": heads,
        "model.propagation.name": "gat",
        "model.propagation.heads": heads,
        "model.local_layers": flags["local_layers"],
        "model.global_layers": flags["global_layers"],
        "model.local_epochs": phases[0],
        "model.beta": beta if beta >= 0 else None,
        "model.input_dropout": flags["in_dropout"],
        "model.dropout": flags["dropout"],
        "model.global_dropout": flags.get("global_dropout"),
        "model.norm_first": "pre_ln" in flags,
        "model.norm.name": "none",
        "train.loss": "one-hot" if dataset == "questions" else _of_two_logits(dataset),
    }


def polynormer_large(flags: Flags, dataset: str) -> Settings:
    """Polynormer's programs for large graphs."""
    heads = flags.get("num_heads", 1)
    return {
        **training({**flags, "epochs": flags["local_epochs"]}, weight_decay=5e-4, eval_step=1),
        "dataset.split": "benchmark",
        "model.dim": heads * flags.get("hidden_channels", 256),
        "model.propagation.name": "gat" if "local_attn" in flags else "gcn",
        "model.local_layers": flags["local_layers"],
        "model.local_epochs": flags["local_epochs"],
        "model.beta": 0.9,
        "model.input_dropout": flags.get("in_dropout", 0.15),
        "model.dropout": flags.get("dropout", 0.5),
        "model.norm_first": "pre_ln" in flags,
        "model.norm.name": "batch",
    }


def baselines(flags: Flags, dataset: str) -> Settings:
    """The baselines' program for medium graphs."""
    return {
        **training(flags, lr=0.001, epochs=500),
        **split(flags, dataset, one=True),
        **_stack(flags),
        "dataset.features": "row" if dataset in ROW else "raw",
        "model.project": "pre_linear" in flags,
        "model.input_dropout": 0.0,
        "train.loss": "one-hot" if dataset == "questions" else _of_two_logits(dataset),
    }


def _of_two_logits(dataset: str) -> str:
    return "cross-entropy" if dataset in ("minesweeper", "tolokers") else "task"


def _stack(flags: Flags) -> Settings:
    norm = {"ln": "layer", "bn": "batch"}
    return {
        "model.dim": flags["hidden_channels"],
        "model.layers": flags["local_layers"],
        "model.dropout": flags["dropout"],
        "model.norm.name": next((norm[each] for each in norm if each in flags), "none"),
        "model.residual": "res" in flags,
    }


def baselines_large(flags: Flags, dataset: str) -> Settings:
    """The baselines' programs for large graphs."""
    defaults = {"hidden_channels": 256, "local_layers": 7, "dropout": 0.5, "in_dropout": 0.15}
    flags = {**defaults, **flags}
    return {
        **training(flags, weight_decay=5e-4, eval_step=1),
        **_stack(flags),
        "dataset.split": "benchmark",
        "model.input_dropout": flags["in_dropout"],
        "model.project": False,
    }


def baselines_products(flags: Flags, dataset: str) -> Settings:
    """The baselines' program for ogbn-products."""
    flags = {"hidden_channels": 200, "local_layers": 5, "dropout": 0.5, "ln": True,
             "batch_size": 244_903, **flags, "epochs": flags["epochs"] - 1}  # fmt: skip
    return {
        **training(flags, lr=0.003, weight_decay=0, eval_step=1),
        **_stack(flags),
        "dataset.split": "benchmark",
        "model.project": True,
        "model.norm_first": True,
    }


def baselines_proteins(flags: Flags, dataset: str) -> Settings:
    """The baselines' program for ogbn-proteins."""
    heads, layers = flags.get("n-heads", 6), flags.get("n-layers", 6)
    depth = layers[0] if isinstance(layers, list) else layers
    flags = {"runs": flags["runs"], "epochs": flags.get("n-epochs", 1000), "bn": True, "res": True,
             "hidden_channels": 80 * heads, "local_layers": layers, "dropout": 0.25}  # fmt: skip
    return {
        **training(flags, lr=0.01, weight_decay=0, eval_step=5, optimizer="adamw"),
        **_stack(flags),
        "model.input_dropout": 0.1,
        "train.schedule": "plateau, 0.75 after 50",
        "train.batching.name": "neighbours",
        "train.batching.size": 8662,
        "train.batching.fanouts": [32] * depth,
        "train.evaluate": "batches",
    }


def baselines_sgformer(flags: Flags, dataset: str) -> Settings:
    """SGFormer in the baselines' program, a grid."""
    layers, rates = [*range(1, 11)], [0.1, 0.3, 0.5, 0.7]
    return {
        **training(flags, lr=0.001, weight_decay=5e-4),
        "dataset.split": "benchmark",
        "dataset.features": "row" if dataset in ROW else "raw",
        "model.graph_branch": "stack",
        "model.dim": [64, 512, 256],
        "model.layers": layers,
        "model.graph_layers": layers,
        "model.dropout": rates,
        "model.graph_dropout": rates,
        "model.graph_weight": [0.5, 0.8],
        "model.alpha": 0.5,
        "model.use_weight": False,
        "model.activation": False,
        "model.norm.name": "layer",
        "model.graph_norm.name": "batch",
        "model.attention_weight_decay": flags.get("weight_decay", 5e-4),
        "train.loss": "one-hot" if dataset == "questions" else _of_two_logits(dataset),
    }


def gcnii(flags: Flags, dataset: str) -> Settings:
    """GCNII's program for few labels."""
    return {
        **training(flags, lr=0.01, weight_decay=flags.get("wd2", 5e-4), epochs=1500, patience=100),
        "dataset.split": "benchmark",
        "dataset.features": "row",
        "model.dim": flags.get("hidden", 64),
        "model.layers": flags["layer"],
        "model.alpha": 0.1,
        "model.map_weight": flags.get("lamda", 0.5),
        "model.separate": "variant" in flags,
        "model.dropout": flags.get("dropout", 0.6),
        "model.layer_weight_decay": flags.get("wd1", 0.01),
        "train.stop_on": "loss",
    }


def nagphormer(flags: Flags, dataset: str) -> Settings:
    """NAGphormer's program; its rate rises for 400 steps, and falls by the square to a tenth."""
    return {
        **training(flags, lr=flags["peak_lr"], epochs=2000, patience=50, optimizer="adamw"),
        "dataset.split": "ratio-60-20-20",
        "encoding.name": "laplacian",
        "encoding.k": flags["pe_dim"],
        "model.dim": flags["hidden_dim"],
        "model.hops": flags["hops"],
        "model.heads": flags["n_heads"],
        "model.layers": flags["n_layers"],
        "model.dropout": flags["dropout"],
        "train.schedule.name": "linear",
    }


def exphormer(flags: Flags, dataset: str) -> Settings:
    """Exphormer's program, which is GraphGym's."""
    epochs = flags["max_epoch"]
    return {
        **training({**flags, "lr": flags["base_lr"], "epochs": epochs, "optimizer": "adamw"}),
        "dataset.split": "ratio-60-20-20",
        "dataset.features": "raw",
        "model.dim": flags["dim_hidden"],
        "model.layers": flags["layers"],
        "model.heads": flags["n_heads"],
        "model.cycles": flags["exp_deg"],
        "model.virtual": flags["num_virt_node"],
        "model.propagation": "gcn",
        "model.expansion": 2,
        "model.norm.name": "batch",
        "model.dropout": flags["dropout"],
        "model.attention_dropout": flags["attn_dropout"],
        "train.schedule.name": "cosine",
        "train.schedule.warmup": flags["num_warmup_epochs"] / epochs,
        "train.clip": 1.0,
    }


PROGRAMS: dict[str, Callable[[Flags, str], Settings]] = {
    "sgformer-medium": sgformer_medium,
    "sgformer-medium-before": sgformer_medium,
    "sgformer-medium-difformer": sgformer_medium_difformer,
    "sgformer-large": sgformer_large,
    "sgformer-100M": sgformer_100m,
    "nodeformer": nodeformer,
    "difformer": difformer,
    "difformer-samples": difformer_samples,
    "difformer-temporal": difformer_temporal,
    "polynormer": polynormer,
    "polynormer-large": polynormer_large,
    "baselines": baselines,
    "baselines-large": baselines_large,
    "baselines-products": baselines_products,
    "baselines-proteins": baselines_proteins,
    "baselines-sgformer": baselines_sgformer,
    "gcnii": gcnii,
    "nagphormer": nagphormer,
    "exphormer": exphormer,
}
"""Program to `(flags, data set) -> settings in the words of a recipe`; None: nothing to compare."""


def commands() -> dict[str, tuple[str, Flags]]:
    """Return the program and the flags of each recipe with a published command line."""
    table = yaml.safe_load(TABLE.read_text())
    return {name: (program, _flags(line)) for program in table
            for name, line in table[program].items()}  # fmt: skip


def _flags(line: str) -> Flags:
    """Return `{lr: 0.01, ln: True}` for `lr 0.01 ln`."""
    words = re.findall(r"\[[^]]*\]|\S+", line)
    flags: Flags = {}
    for word, after in zip(words, [*words[1:], "end"], strict=True):
        if not _is_value(word):
            flags[word] = _value(after) if _is_value(after) else True
    return flags


def _value(word: str) -> Any:
    loaded = yaml.safe_load(word)
    try:
        return float(loaded) if isinstance(loaded, str) else loaded  # YAML 1.1 reads 1e-3 as text
    except ValueError:
        return loaded


def _is_value(word: str) -> bool:
    return word[0] in "-.0123456789[" or word in ("identity", "sigmoid", "rocauc")


def settings(name: str) -> tuple[Settings, list[str]]:
    """Return a recipe's options, flat and all of them, and its sentences on differences."""
    recipe = load_recipe(name)
    written = dict(_flat(write_out(recipe)))
    decay = "model.attention_weight_decay"
    if decay in written and written[decay] is None:
        written[decay] = written["train.weight_decay"]
    written["train.patience"] = written["train.patience"] or "none"
    written["seeds"] = len(recipe.seeds)
    return written, recipe.differs


def _flat(data: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        yield above + key, value
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        elif key in ("propagation", "batching", "optimizer", "schedule", "norm", "graph_norm"):
            yield f"{above}{key}.name", value


def differences(name: str, program: str, flags: Flags) -> tuple[list[Difference], list[str]]:
    """Return where a recipe is not what its source sets, and its sentences that are stale."""
    written, sentences = settings(name)
    published = PROGRAMS[program](flags, written["dataset.name"])
    known = {key for key in written if published.get(key) is not None or key == "model.beta"}
    found = [
        Difference(name, key, published[key], written[key], _said(key, sentences))
        for key in sorted(known & set(published))
        if not _same(published[key], written[key])
    ]
    lacking = [key for key in published if key not in written and published[key] not in OFF]
    found += [Difference(name, key, published[key], "no option", _said(key, sentences))
              for key in lacking]  # fmt: skip
    named = {word for each in sentences for word in re.findall(r"`([\w.-]+)`", each)}
    apart = {each.key.rpartition(".")[2] for each in found} | {each.key for each in found}
    agreed = {key.rpartition(".")[2] for key in known} - apart
    return found, sorted(named & agreed)


def _said(key: str, sentences: list[str]) -> str | None:
    names = {f"`{key}`", f"`{key.rpartition('.')[2]}`"}
    if key.rpartition(".")[0].rpartition(".")[2] in ("batching", "propagation", "schedule"):
        names.add(f"`{key.split('.')[1]}`")
    return next((each for each in sentences if any(name in each for name in names)), None)


def _same(published: Any, here: Any) -> bool:
    if isinstance(published, list) and not isinstance(here, list):
        return here in published
    if isinstance(published, float) and isinstance(here, int | float):
        return abs(published - here) <= 1e-9 * max(1, abs(here))
    return published == here


def main() -> int:
    """Print every recipe with a command line; return 1 where a sentence is missing or stale."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help="all, if none is named")
    chosen, silent, stale, count = parser.parse_args().recipes, 0, 0, 0
    for name, (program, flags) in commands().items():
        if chosen and name not in chosen:
            continue
        found, old = differences(name, program, flags)
        count += 1
        print(f"{name}: {len(found) or 'no'} difference{'s' * (len(found) != 1)} from {program}")
        for each in found:
            silent += each.sentence is None
            mark = "" if each.sentence else "  NOT SAID"
            print(f"  {each.key}: published {each.published}, here {each.here}{mark}")
        for sentence in dict.fromkeys(each.sentence for each in found if each.sentence):
            print(f"    {sentence}")
        for word in old:
            stale += 1
            print(f"  STALE: `{word}` is named and does not differ")
    print(f"{count} command lines, {silent} differences without a sentence, {stale} stale names")
    return 1 if silent or stale else 0


if __name__ == "__main__":
    sys.exit(main())
