"""Train the pretrained weights that come with the zoo, on the CPU, and write their index.

    python benchmarks/pretrain.py

Each recipe is trained with all of its seeds; the one with the best validation score is kept.
"""

import json
import shutil
import tempfile

from zoo.experiments.run import run_recipe
from zoo.system.files import write_whole
from zoo.weights.folder import PRETRAINED, WEIGHTS, locate, read_config, sha256_of

RECIPES = ("gcn-digits", "mlp-digits", "sgformer-digits-rba")


def pretrain(name: str) -> dict:
    """Train a recipe, keep the weights of its best seed, and return its entry of the index."""
    with tempfile.TemporaryDirectory() as runs:
        summary = run_recipe(name, device="cpu", runs=runs)
        best = locate(summary["folder"]).folder
        shutil.copytree(best, PRETRAINED / name, dirs_exist_ok=True)
    config = read_config(PRETRAINED / name / "config.json")
    about, weights = config["about"], PRETRAINED / name / WEIGHTS
    return {
        "model": config["model"],
        "data": about.data,
        "metric": about.metric,
        "val": about.scores["val"],
        "test": about.scores["test"],
        "bytes": weights.stat().st_size,
        "sha256": sha256_of(weights),
    }


if __name__ == "__main__":
    text = json.dumps({name: pretrain(name) for name in RECIPES}, indent=2) + "\n"
    write_whole(PRETRAINED / "index.json", lambda path: path.write_text(text))
    print(text)
