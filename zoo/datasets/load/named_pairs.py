"""The named pairs of sentences: what each is, and where it comes from."""

from pathlib import Path

from zoo.config.options import Count
from zoo.datasets.load.http import download
from zoo.datasets.pairs import Language, SentencePairs, has_pairs, read_pairs
from zoo.datasets.tokenizer import VocabularySize
from zoo.errors import ZooError
from zoo.system.files import data_folders, draft_folder

ADDRESS = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
"""Where Multi30k is published; a mirror is used by changing this line."""

_PUBLISHED = {"train": "train", "val": "val", "test": "test_2016_flickr"}


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


NAMED_PAIRS = {"multi30k-en-de": multi30k_en_de}
"""Word to builder `(*, options) -> SentencePairs`."""


def obtain_pairs(folder: Path) -> Path:
    """Download the files of Multi30k in English and German into a folder, whole or not at all.

    Where another process is at it, its folder is waited for.

    Returns:
        The folder.

    Raises:
        ZooError: they cannot be downloaded; says which files to put where instead.
    """
    files = {
        f"{part}.{language}.gz": f"{published}.{language}.gz"
        for part, published in _PUBLISHED.items()
        for language in ("en", "de")
    }
    try:
        with draft_folder(folder, wait=True) as draft:
            if not has_pairs(folder):
                for file, published in files.items():
                    download(f"{ADDRESS}/{published}", draft / file)
                draft.rename(folder)
    except ZooError as error:
        folders = ", ".join(map(str, data_folders()))
        raise ZooError(
            f"{folder.name} is not in {folders}, and {str(error).rstrip('.')}. Put "
            f"{', '.join(files)} into {folder}, as they are at {ADDRESS} (test is "
            f"{files['test.en.gz']} there), or name the folder that has {folder.name} in ZOO_DATA."
        ) from None
    return folder
