"""Byte-pair encoding of text: learnt from sentences, kept as plain JSON, exact both ways.

Byte-level (GPT-2's): a text is its UTF-8 bytes, so that nothing is unknown and every text comes
back as it was. Pairs of tokens that stand together most often become tokens (Sennrich et al.,
arXiv 1508.07909). The tokens of begin and end have names that no text is cut into.

The file is in the layout of the library `tokenizers`. Only the tokens and merges of a file are
read, and what they mean is built here, so that no file names a pattern or a program.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from zoo.config.options import Within
from zoo.errors import ZooError, optional
from zoo.system.cache import cache_folder
from zoo.system.files import WriteError, write_whole

BEGIN, END = 0, 1
"""The tokens that a target begins and ends with."""

SPECIAL = ("<begin>", "<end>")
"""Their names: of no text, whose letters are those of bytes."""

BYTES = 256

LONGEST_TEXT = 2_000
"""Characters of a text that is learnt from, at most: what a word costs grows with its square.

Longer texts are left out; where these are more than half of all, each is cut to so many.
"""

LONGEST_FILE = 16 * 2**20
"""The largest file of a tokenizer that is read, in bytes."""

VocabularySize = Annotated[
    int, Within("from 258 to 1,000,000", ge=BYTES + len(SPECIAL), le=1_000_000)
]
"""How many tokens: at least every byte, begin and end."""

_FORMAT = 2
"""Of what is in the cache; another number whenever the same text is to give other tokens."""


class Tokenizer:
    """Text to tokens, and back.

    Args:
        text: the content of a `tokenizer.json`.

    Attributes:
        text: the same, as `tokenizers` writes it.

    Raises:
        ZooError: it is none of this kind.
    """

    def __init__(self, text: str):
        self._coder = _built(*_read(text))
        self.text = self._coder.to_str(pretty=False)

    @property
    def size(self) -> int:
        """How many tokens there are, begin and end included."""
        return self._coder.get_vocab_size()

    @property
    def sha256(self) -> str:
        """The checksum of its file."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text, without begin and end."""
        return [each.ids for each in self._coder.encode_batch(list(texts))]

    def decode(self, tokens: Iterable[Sequence[int]]) -> list[str]:
        """Return the text of each list of tokens, of which begin and end are left out.

        Bytes that are no UTF-8, as only a model writes them, become the sign U+FFFD.
        """
        kept = [[each for each in own if each not in (BEGIN, END)] for own in tokens]
        return self._coder.decode_batch(kept, skip_special_tokens=False)


def learnt(texts: Sequence[str], size: int) -> Tokenizer:
    """Learn a tokenizer of at most so many tokens; the same texts give the same.

    What has been learnt is kept in the cache, by the content of the texts.

    Raises:
        ZooError: the package `tokenizers` is missing.
    """
    version = _library().__version__
    key = hashlib.sha256(f"{_FORMAT} {size} {version}".encode())
    for each in texts:
        key.update(each.encode() + b"\n")
    path = cache_folder() / f"tokenizer-{key.hexdigest()[:32]}.json"
    try:
        return Tokenizer(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, ZooError):  # there is none, or it is damaged
        found = Tokenizer(_learnt(texts, size))
    with contextlib.suppress(WriteError):  # it is learnt again the next time
        write_whole(path, lambda draft: draft.write_text(found.text, encoding="utf-8"))
    return found


def _learnt(texts: Sequence[str], size: int) -> str:
    tokenizers = _library()
    coder = _built({}, [])
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    short = [each for each in texts if len(each) <= LONGEST_TEXT]
    if 2 * len(short) < len(texts):
        short = [each[:LONGEST_TEXT] for each in texts]
    coder.train_from_iterator(short, trainer)
    return coder.to_str()


def _built(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> Any:
    """Return the coder of the library; begin and end are in no list of texts to look for."""
    tokenizers = _library()
    try:
        coder = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    except Exception as error:  # the library raises its own kind
        raise _damaged(" ".join(str(error).split())[:120]) from None
    coder.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    coder.decoder = tokenizers.decoders.ByteLevel()
    return coder


def _read(text: str) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the tokens by name, and the merges, of the content of a file, checked."""
    if len(text) > LONGEST_FILE:
        raise _damaged("it is too long")
    try:
        content = json.loads(text)
        vocabulary, merges = content["model"]["vocab"], content["model"]["merges"]
        pairs = [tuple(each.split(" ") if isinstance(each, str) else each) for each in merges]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(f"{type(error).__name__}: {' '.join(str(error).split())[:80]}") from None
    plain = isinstance(vocabulary, dict) and all(type(each) is int for each in vocabulary.values())
    if not plain or sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise _damaged("its tokens are not numbered from 0")
    if any(len(each) != 2 or not all(isinstance(one, str) for one in each) for each in pairs):
        raise _damaged("a merge is not of two tokens")
    alphabet = _library().pre_tokenizers.ByteLevel.alphabet()
    if [vocabulary.get(each) for each in SPECIAL] != [BEGIN, END] or not vocabulary.keys() >= {
        *alphabet
    }:
        raise _damaged(f"it lacks {', '.join(SPECIAL)} or a byte")
    return vocabulary, pairs


def _damaged(cause: str) -> ZooError:
    return ZooError(
        f"this is no tokenizer of the zoo's ({cause}): copy `tokenizer.json` again, or train again."
    )


def _library() -> Any:
    return optional("tokenizers", "text", "text")
