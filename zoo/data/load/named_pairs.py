"""Pairs of sentences by name; imported only when a recipe names them."""

from zoo.config.options import Count
from zoo.data.files.pair_folders import Language, has_pairs
from zoo.data.load.obtain import obtain_pairs
from zoo.sequences.data.pairs import SentencePairs, read_pairs
from zoo.sequences.data.tokenizer import VocabularySize
from zoo.system.cache import data_folders


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
    folders = [folder / "multi30k-en-de" for folder in data_folders()]
    path = next(filter(has_pairs, folders), None) or obtain_pairs(folders[0])
    return read_pairs(path, source=source, target=target, vocabulary=vocabulary, longest=longest)
