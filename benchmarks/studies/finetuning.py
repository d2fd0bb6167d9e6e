"""Fine-tuning by its settings: what is best by validation, beside loaded weights and scratch.

    python benchmarks/studies/finetuning.py [--models gcn,sgformer] [--labels 1] [--seeds 5]
        [--default]

Each model is trained on twitch-de; another country follows with few labels for training and 10 %
for validation. A setting is a factor of the rate of the pretraining, a share of the epochs to warm
up in, and what is frozen. Validation chooses; test scores stand beside it. With `--default` only
what `zoo finetune` does is measured: that rate, no warm-up, nothing frozen. Needs the four graphs.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from transfer import MODELS, SOURCE, TARGETS

import zoo

RATE, DECAY, EPOCHS = 0.01, 5e-4, 60
DEFAULT = "rate x 1, warm-up 0, frozen none"
FACTORS = (1.0, 0.3, 0.1, 0.03, 0.01)
WARMUPS = (0.0, 0.2)
FREEZES = ("none", "except-head")


def run(folder: Path, model: str, data: dict[str, Any], seeds: list[int], **train: Any) -> dict:
    """Return the summary of a run; `start_from` is taken out of the options of training."""
    start = train.pop("start_from", None)
    recipe = {
        "dataset": data,
        "model": MODELS[model],
        "train": {"lr": RATE, "weight_decay": DECAY, "epochs": EPOCHS, **train},
        "seeds": seeds,
    }
    return zoo.run_recipe(recipe | ({"start_from": start} if start else {}), runs=folder)


def settings() -> dict[str, tuple[dict[str, Any], str]]:
    """Return options of training and what is frozen, by their names in the table."""
    found: dict[str, tuple[dict[str, Any], str]] = {"loaded": ({"lr": 1e-12, "epochs": 1}, "none")}
    for freeze in FREEZES:
        for factor in FACTORS:
            for warmup in WARMUPS:
                schedule = {"name": "cosine", "warmup": warmup, "floor": 1.0}
                options = {"lr": RATE * factor, "schedule": schedule if warmup else "constant"}
                found[f"rate x {factor:g}, warm-up {warmup:g}, frozen {freeze}"] = options, freeze
    return found


def scores(folder: Path, model: str, labels: float, seeds: int, tried: dict) -> dict[str, list]:
    """Return `(validation, test)` by setting, of the seeds of one target after the other."""
    pretrained = run(folder, model, {"name": SOURCE, "split": "ratio-80-10-10"},
                     list(range(seeds)), epochs=2 * EPOCHS)["folder"]  # fmt: skip
    found: dict[str, list[tuple]] = {name: [] for name in ("scratch", *tried)}
    for target in TARGETS:
        split = {"name": "ratio", "train": labels, "val": 10, "test": 90 - labels}
        for seed in range(seeds):
            data, every = {"name": target, "split": split}, [seed]
            runs = {"scratch": run(folder, model, data, every)}
            for name, (options, freeze) in tried.items():
                start = {"weights": str(Path(pretrained, f"seed-{seed}")), "freeze": freeze}
                runs[name] = run(folder, model, data, every, **options, start_from=start)
            for name, each in runs.items():
                found[name].append((each["val"]["mean"], each["test"]["mean"]))
        print(f"{model}, {target}: done", flush=True)
    return found


def main() -> None:
    """Print a table for each model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", default="gcn,sgformer")
    parser.add_argument("--labels", type=float, default=1, help="percent, of the training")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--default", action="store_true")
    given = parser.parse_args()
    tried = settings()
    if given.default:
        tried = {name: tried[name] for name in ("loaded", DEFAULT)}
    for model in given.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            found = scores(Path(folder), model, given.labels, given.seeds, tried)
        loaded = [test for _, test in found["loaded"]]
        print(f"\n{model}, {given.labels:g} % of the labels, mean of {len(loaded)} runs")
        print(f"{'':<44} {'validation':>10} {'test':>7} {'below loaded':>13}")
        for name, pairs in sorted(found.items(), key=lambda each: -_mean(each[1], 0)):
            below = sum(val < first - 1e-9 for (val, _), (first, _)
                        in zip(pairs, found["loaded"], strict=True))  # fmt: skip
            print(f"{name:<44} {_mean(pairs, 0):>10.4f} {_mean(pairs, 1):>7.4f} {below:>13}")
        for number, target in enumerate(TARGETS):
            own = slice(number * given.seeds, (number + 1) * given.seeds)
            print(f"{target}, validation and test:", ", ".join(
                f"{name} {_spread(found[name][own], 0)}, {_spread(found[name][own], 1)}"
                for name in ("scratch", "loaded", DEFAULT)))  # fmt: skip


def _spread(pairs: list[tuple], place: int) -> str:
    return f"{_mean(pairs, place):.4f} ± {statistics.stdev(each[place] for each in pairs):.4f}"


def _mean(pairs: list[tuple], place: int) -> float:
    return statistics.fmean(each[place] for each in pairs)


if __name__ == "__main__":
    main()
