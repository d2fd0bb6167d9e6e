"""Pairs of sentences by name; imported only when a recipe names them."""

from pathlib import Path

from zoo.config.options import Count
from zoo.data.files.text_lines import Language, has_pairs
from zoo.data.load.named import obtain_folder
from zoo.sequences.data.pairs import SentencePairs, read_pairs
from zoo.sequences.data.tokenizer import VocabularySize
from zoo.system.http import download

PAIRS = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
"""Where Multi30k is published; a mirror is used by changing this line."""


def multi30k_en_de(
    *,
    source: Language = "en",
    target: Language = "de",
    vocabulary: VocabularySize = 8000,
    longest: Count = 256,
) -> SentencePairs:
    """Captions of photographs in English and German (Multi30k), test of 2016; 31,014 pairs.

    Args:
        source: the language to translate from.
        target: the language to translate to.
        vocabulary: tokens of both languages together, at most.
        longest: tokens of a sentence at most: longer pairs are not trained on, longer sources cut.
    """
    parts = {"train": "train", "val": "val", "test": "test_2016_flickr"}
    files = {
        f"{part}.{language}.gz": f"{PAIRS}/{published}.{language}.gz"
        for part, published in parts.items()
        for language in ("en", "de")
    }

    def fill(folder: Path) -> None:
        for file, url in files.items():
            download(url, folder / file)

    what = f"{', '.join(files)}, as they are at {PAIRS} (test is {parts['test']}.en.gz there),"
    path = obtain_folder("multi30k-en-de", has_pairs, fill, what)
    return read_pairs(path, source=source, target=target, vocabulary=vocabulary, longest=longest)
