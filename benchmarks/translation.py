"""Translation of Multi30k: BLEU of finished runs with intervals, and what they cost.

    python benchmarks/translation.py RUN [RUN ...]

A run is a folder that `zoo train htgn-multi30k` and the like have written. Each of its seeds
translates the test set of 2016, by the likeliest token each time and by four beams (length penalty
0.6). BLEU is that of sacrebleu, with its signature; the interval of 95 % is from 1,000 draws of the
sentences with replacement. Tokens are those of the targets, in training on one thread. The first
ten translations of each are printed: nobody has chosen them. What a seed has reached is kept in
`translation.json`, and the table is of all that is there.
"""

import json
import statistics
import sys
from pathlib import Path

from contest import conclude
from sacrebleu.metrics import BLEU
from torch import Tensor

import zoo
from zoo.config.recipe import divide, read_recipe
from zoo.data.load import load_data
from zoo.runs.run_folder import read_recipe as recipe_of
from zoo.runs.run_folder import read_summary
from zoo.sequences.data.pairs import SentencePairs
from zoo.sequences.translate import Translator

DRAWS, SHOWN = 1000, 10

KEPT = Path(__file__).with_suffix(".json")
"""What every seed that was ever measured has reached: training takes an hour for each."""


def lines_of(run: Path) -> list[dict]:
    """Return what a run says of its epochs."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_bytes().splitlines()]


def sources_of(data: SentencePairs, rows: Tensor) -> list[str]:
    """Return the texts of some sources."""
    return data.tokenizer.decode([data.sources[row].tolist() for row in rows.tolist()])


def measured(run: Path, seed: dict) -> tuple[dict, dict[str, str]]:
    """Return what one seed of a run has reached, and its first translations by source."""
    summary = read_summary(run)
    data = load_data(divide(read_recipe(recipe_of(run)[0]).dataset, ("split",))[0])
    rows = data.masks["test"][0].nonzero().squeeze(1)
    references, texts = data.references(rows), sources_of(data, rows)
    model, found = zoo.load(run / f"seed-{seed['seed']}"), {}
    for word, count in (("greedy", 1), ("beams", 4)):
        answers = Translator(model, beams=count)(texts)
        metric = BLEU()
        score = metric.corpus_score(answers, [references], n_bootstrap=DRAWS)
        found[word] = [score._mean, score._ci]
    tokens = int((data.targets.lengths[data.masks["train"][0]] + 1).sum())
    epochs = [each for each in lines_of(run) if each["seed"] == seed["seed"]]
    plain = [each for each in epochs if each["val"] is None] or epochs  # without an evaluation
    record = {
        **found,
        "validation": seed["val"],
        "epochs": seed["epochs"],
        "parameters": summary["parameters"],
        "GB": summary["peak_memory_bytes"] / 1e9,
        "tokens/s": tokens / statistics.median(each["seconds"] for each in plain),
        "signature": str(metric.get_signature()),
    }
    return record, dict(zip(texts[:SHOWN], answers[:SHOWN], strict=True))


def row_of(recipe: str, seeds: dict[str, dict]) -> dict[str, str]:
    """Return a row of the table: all seeds of a recipe that were ever measured."""
    known = [*seeds.values()]
    return {
        "recipe": recipe,
        "seeds": ", ".join(seeds),
        "greedy": _bleu([each["greedy"] for each in known]),
        "four beams": _bleu([each["beams"] for each in known]),
        "parameters": f"{known[0]['parameters']:,}",
        "GB": f"{statistics.fmean(each['GB'] for each in known):.2f}",
        "tokens/s": f"{statistics.median(each['tokens/s'] for each in known):,.0f}",
        "epochs": ", ".join(sorted({str(each["epochs"]) for each in known})),
    }


def _bleu(found: list[list[float]]) -> str:
    """Return mean ± the mean interval over sentences, and the spread over seeds."""
    scores = [score for score, _ in found]
    spread = f", seeds ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
    interval = statistics.fmean(each for _, each in found)
    return f"{statistics.fmean(scores):.2f} ± {interval:.2f}{spread}"


def main():
    """Measure the runs that are named, keep what they have reached, and write the table of all."""
    runs = [Path(each) for each in sys.argv[1:]]
    if not runs:
        sys.exit(__doc__)
    known = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for run in runs:
        summary = read_summary(run)
        for seed in summary["seeds"]:
            record, shown = measured(run, seed)
            known.setdefault(summary["recipe"], {})[str(seed["seed"])] = record
            KEPT.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
            print(f"{summary['recipe']}, seed {seed['seed']}: {record}")
            for source, answer in shown.items():
                print(json.dumps({"source": source, "zoo": answer}, ensure_ascii=False))
    conclude(__file__, False, [row_of(*each) for each in known.items()], [])


if __name__ == "__main__":
    main()
