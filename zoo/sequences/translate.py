"""Translation by trained weights: texts as they come, and BLEU on a data set."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import torch

from zoo.config.options import Count, Few, NonNegative, value_problems
from zoo.data.splits import PARTS
from zoo.errors import ZooError, printable
from zoo.registry import Model
from zoo.sequences.beam_search import translate_tokens
from zoo.sequences.data.pairs import SentencePairs
from zoo.sequences.data.tokenizer import END, Tokenizer
from zoo.system.files import user_path, write_whole
from zoo.tasks.labels import TRANSLATION
from zoo.tasks.metrics import bleu, signature
from zoo.training.batches import evaluating

LONGEST_LINE = 2**20
"""The longest line of text that is read, in bytes."""

_LINES = 1_000
"""Lines that are translated together, at most."""


class Translator:
    """A trained model with its tokenizer, and how it looks for the best translation.

    Args:
        model: of translation, as `zoo.load` gives it.
        beams: hypotheses that are kept of each sentence; 1 takes the likeliest token each time.
        length_penalty: exponent of the length that scores are divided by, see `beam_search`.
        batch_size: tokens that are translated at a time, at most.
        device: where.

    Attributes:
        cut: how many texts were too long, and were read to `longest` tokens.

    Raises:
        ZooError: the model is none of translation, or has no tokenizer, or a number is wrong.
    """

    def __init__(
        self,
        model: Model,
        *,
        beams: int = 4,
        length_penalty: float = 0.6,
        batch_size: int = 4096,
        device: str | torch.device = "cpu",
    ):
        if TRANSLATION not in model.tasks:
            raise ZooError(
                f"{type(model).__name__} is a model of {', '.join(model.tasks)} and reads no text; "
                "write `zoo predict WEIGHTS --data GRAPH`."
            )
        if model.tokenizer is None:
            raise ZooError(
                "the weights have no `tokenizer.json`, without which no text can be read; take "
                "the folder that training has written."
            )
        options = {
            "beams": (Few, beams),
            "length penalty": (NonNegative, float(length_penalty)),
            "batch size": (Count, batch_size),
        }
        for name, (kind, value) in options.items():
            for problem in value_problems(kind, value, (name,)):
                raise ZooError(f"{problem}.")
        self.tokenizer, self.model = Tokenizer(model.tokenizer), model.to(device)
        if self.tokenizer.size != model.config["in_dim"]:
            raise ZooError(
                f"`tokenizer.json` has {self.tokenizer.size} tokens and the model reads "
                f"{model.config['in_dim']}: they are of two trainings; copy the folder again."
            )
        recipe = (model.about.recipe or {}).get("dataset")
        longest = recipe.get("longest") if isinstance(recipe, dict) else None
        self.longest = 256 if value_problems(Count, longest, ()) else longest
        self.cut, self._options = 0, {"beams": beams, "length_penalty": length_penalty,
                                  "size": batch_size, "device": device}  # fmt: skip

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Return the translation of each text, on one line; of an empty one an empty one."""
        filled = [number for number, text in enumerate(texts) if text.strip()]
        encoded = self.tokenizer.encode([texts[number].strip() for number in filled])
        self.cut += sum(len(tokens) > self.longest for tokens in encoded)
        sources = [torch.tensor([*tokens[: self.longest], END]) for tokens in encoded]
        with evaluating(self.model, self._options["device"]):
            answers = self.tokenizer.decode(translate_tokens(self.model, sources, **self._options))
        translations = [""] * len(texts)
        for number, answer in zip(filled, answers, strict=True):
            translations[number] = " ".join(answer.split())
        return translations


def read_lines(file: BinaryIO) -> Iterator[list[str]]:
    """Yield the lines of a file as they arrive: those that are there, and at least one, at a time.

    Raises:
        ZooError: a line is not UTF-8, or longer than anyone writes.
    """
    number, rest = 0, b""
    while chunk := file.read1(LONGEST_LINE):
        *lines, rest = (rest + chunk).split(b"\n")
        for start in range(0, len(lines), _LINES):
            yield from _decode(lines[start : start + _LINES], number + start + 1)
        number += len(lines)
        if len(rest) >= LONGEST_LINE:
            raise ZooError(
                f"line {number + 1:,} of the text is longer than {LONGEST_LINE:,} bytes; write a "
                "sentence a line."
            )
    if rest:
        yield from _decode([rest], number + 1)


def _decode(lines: list[bytes], number: int) -> Iterator[list[str]]:
    """Yield lines as text, of which the first has this number; those before a wrong one first."""
    texts: list[str] = []
    for line in lines:
        try:
            texts.append(line.decode("utf-8").removeprefix("\ufeff" if number == 1 else ""))
        except UnicodeDecodeError:
            if texts:
                yield texts
            raise ZooError(
                f"line {number:,} of the text is not UTF-8; write it in that, for example by "
                "`iconv -f latin1 -t utf-8`."
            ) from None
        number += 1
    yield texts


def translate(
    answer: Translator,
    source: BinaryIO,
    sink: BinaryIO,
    shown: Callable[[str], str] = lambda text: text,
) -> tuple[int, int]:
    """Translate a file line by line, each as soon as it comes, in its order.

    Args:
        answer: what translates.
        source: the text, UTF-8.
        sink: where a line is written, and flushed, for each line that was read.
        shown: what is written of each translation.

    Returns:
        How many lines there were, and how many of them were cut because of their length.

    Raises:
        ZooError: as `read_lines`.
    """
    count = 0
    for lines in read_lines(source):
        sink.write("".join(f"{shown(text)}\n" for text in answer(lines)).encode())
        sink.flush()
        count += len(lines)
    return count, answer.cut


def translate_file(
    model: Model,
    source: str,
    out: Path | None,
    *,
    beams: int = 4,
    length_penalty: float = 0.6,
    batch_size: int = 4096,
    device: str | torch.device = "cpu",
) -> tuple[int, int]:
    """Do what `translate` does, from and into files.

    Args:
        model: as of `Translator`.
        source: the path of a text, or `-`: what is typed.
        out: the file to write, whole or not at all; None: it is printed.
        beams: as of `Translator`.
        length_penalty: as of `Translator`.
        batch_size: as of `Translator`.
        device: as of `Translator`.
    """
    answer = Translator(model, beams=beams, length_penalty=length_penalty, batch_size=batch_size,
                        device=device)  # fmt: skip
    with contextlib.ExitStack() as stack:
        try:
            # Of its own: the standard stream would be waited for by Python as it ends.
            file = os.fdopen(os.dup(0), "rb") if source == "-" else user_path(source).open("rb")
        except OSError as error:
            raise ZooError(f"{source} cannot be read: {error.strerror}.") from None
        if source != "-":
            stack.enter_context(file)
        if out is None and sys.stdout.isatty():  # a model may write any byte
            return translate(answer, file, sys.stdout.buffer, printable)
        if out is None:
            return translate(answer, file, sys.stdout.buffer)
        counts = []

        def write(draft: Path) -> None:
            with draft.open("wb") as sink:
                counts.append(translate(answer, file, sink))

        write_whole(out, write, follow=True)
        return counts[0]


def evaluate_pairs(
    model: Model,
    data: SentencePairs,
    part: str,
    *,
    beams: int = 4,
    length_penalty: float = 0.6,
    batch_size: int = 4096,
    device: str | torch.device = "cpu",
) -> dict[str, Any]:
    """Return BLEU / 100 of a model on a part of a data set, and how it was measured.

    Args:
        model: as of `Translator`.
        data: pairs of sentences; they are given to the model as text, in its own tokens.
        part: `train`, `val`, `test` or `all`.
        beams: as of `Translator`.
        length_penalty: as of `Translator`.
        batch_size: as of `Translator`.
        device: as of `Translator`.

    Raises:
        ZooError: as `Translator`, or the pairs are of other languages.
    """
    ours, theirs = model.about.languages, data.languages
    if ours and list(theirs) != ours:
        raise ZooError(
            f"the weights translate {' to '.join(ours)}, and {data.name} is {' to '.join(theirs)}; "
            "name pairs of these languages, or say which is which: "
            f"`{{name: {data.name}, source: {ours[0]}, target: {ours[-1]}}}`."
        )
    parts = PARTS if part == "all" else (part,)
    rows = torch.cat([data.masks[name][0].nonzero().flatten() for name in parts])
    sources = data.tokenizer.decode([data.sources[row].tolist() for row in rows.tolist()])
    options = {"beams": beams, "length_penalty": length_penalty, "batch_size": batch_size}
    with evaluating(model, device):
        answer = Translator(model, device=device, **options)
        score = bleu(answer(sources), data.references(rows))
    return {
        "data": data.name,
        "part": part,
        "pairs": len(rows),
        "metric": data.metric,
        "score": score,
        "beams": beams,
        "length_penalty": length_penalty,
        "signature": signature(),
    }
