"""Translation of Multi30k: BLEU of finished runs with intervals, and what they cost.

    python benchmarks/translation.py RUN [RUN ...]

A run is a folder that `zoo train htgn-multi30k` and the like have written. Each of its seeds
translates the test set of 2016, by the likeliest token each time and by four beams (length penalty
0.6). BLEU is that of sacrebleu, with its signature; the interval of 95 % is from 1,000 draws of the
sentences with replacement. Tokens are those of the targets, in training on one thread. The first
ten translations of the first run are printed: nobody has chosen them.
"""

import json
import statistics
import sys
from pathlib import Path

from contest import conclude
from sacrebleu.metrics import BLEU
from torch import Tensor

import zoo
from zoo.config.recipe import read_recipe
from zoo.datasets.load import load_data
from zoo.datasets.pairs import SentencePairs
from zoo.experiments.run_files import read_recipe as recipe_of
from zoo.experiments.run_files import read_summary
from zoo.inference.translate import Translator
from zoo.training.checksums import unsealed_line

DRAWS, SHOWN = 1000, 10


def lines_of(run: Path) -> list[dict]:
    """Return what a run says of its epochs."""
    return [unsealed_line(line) for line in (run / "metrics.jsonl").read_bytes().splitlines()]


def sources_of(data: SentencePairs, rows: Tensor) -> list[str]:
    """Return the texts of some sources."""
    return data.tokenizer.decode([data.sources[row].tolist() for row in rows.tolist()])


def measured(run: Path) -> tuple[dict, list[str], SentencePairs]:
    """Return a row of the table, the best seed's translations by beams, and the data."""
    summary = read_summary(run)
    data = load_data(read_recipe(recipe_of(run)[0]).dataset)
    rows = data.masks["test"][0].nonzero().squeeze(1)
    references, texts = data.references(rows), sources_of(data, rows)
    greedy, beams, best = [], [], None
    for seed in summary["seeds"]:
        model = zoo.load(run / f"seed-{seed['seed']}")
        for found, count in ((greedy, 1), (beams, 4)):
            answers = Translator(model, beams=count)(texts)
            metric = BLEU()
            score = metric.corpus_score(answers, [references], n_bootstrap=DRAWS)
            found.append((score._mean, score._ci, score.score))
            best = best or (answers if count == 4 else None)
    tokens = int((data.targets.lengths[data.masks["train"][0]] + 1).sum())
    seconds = [each["seconds"] for each in lines_of(run) if each["val"] is None]
    row = {
        "recipe": summary["recipe"],
        "seeds": str(len(greedy)),
        "greedy": _bleu(greedy),
        "four beams": _bleu(beams),
        "parameters": f"{summary['parameters']:,}",
        "GB": f"{summary['peak_memory_bytes'] / 1e9:.2f}",
        "tokens/s": f"{tokens / statistics.median(seconds):,.0f}",
        "epochs": str(summary["seeds"][0]["epochs"]),
    }
    row["signature"] = str(metric.get_signature())
    return row, best, data


def _bleu(found: list[tuple[float, float, float]]) -> str:
    """Return mean ± the mean interval over sentences, and the spread over seeds."""
    scores = [score for *_, score in found]
    spread = f", seeds ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
    interval = statistics.fmean(each for _, each, _ in found)
    return f"{statistics.fmean(scores):.2f} ± {interval:.2f}{spread}"


def main():
    """Measure the runs that are named, and write the results."""
    runs = [Path(each) for each in sys.argv[1:]]
    if not runs:
        sys.exit(__doc__)
    table, shown = [], None
    for run in runs:
        row, answers, data = measured(run)
        signature = row.pop("signature")
        table.append(row)
        shown = shown or (answers, data)
    answers, data = shown
    rows = data.masks["test"][0].nonzero().squeeze(1)[:SHOWN]
    print(f"BLEU: {signature}\n")
    for source, answer, reference in zip(
        sources_of(data, rows), answers, data.references(rows), strict=False
    ):
        print(json.dumps({"source": source, "zoo": answer, "human": reference}, ensure_ascii=False))
    conclude(__file__, False, table, [])


if __name__ == "__main__":
    main()
