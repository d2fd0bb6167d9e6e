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
        self._coder = _load_coder(text)
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
        return [encoding.ids for encoding in self._coder.encode_batch(list(texts))]

    def decode(self, tokens: Iterable[Sequence[int]]) -> list[str]:
        """Return the text of each list of tokens, of which begin and end are left out.

        Bytes that are no UTF-8, as only a model writes them, become the sign U+FFFD.
        """
        plain = [[token for token in text if token not in (BEGIN, END)] for text in tokens]
        return self._coder.decode_batch(plain, skip_special_tokens=False)


def train_tokenizer(texts: Sequence[str], size: int) -> Tokenizer:
    """Return a tokenizer of at most `size` tokens, trained on texts; the same texts give the same.

    It is kept in the cache, by the content of the texts.

    Raises:
        ZooError: the package `tokenizers` is missing.
    """
    version = _library().__version__
    key = hashlib.sha256(f"{_FORMAT} {size} {version}".encode())
    for text in texts:
        key.update(text.encode() + b"\n")
    path = cache_folder() / f"tokenizer-{key.hexdigest()[:32]}.json"
    try:
        return Tokenizer(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, ZooError):  # there is none, or it is damaged
        tokenizer = Tokenizer(_train(texts, size))
    with contextlib.suppress(WriteError):  # it is trained again the next time
        write_whole(path, lambda draft: draft.write_text(tokenizer.text, encoding="utf-8"))
    return tokenizer


def _train(texts: Sequence[str], size: int) -> str:
    tokenizers = _library()
    coder = _build_coder({}, [])
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    short = [text for text in texts if len(text) <= LONGEST_TEXT]
    if 2 * len(short) < len(texts):
        short = [text[:LONGEST_TEXT] for text in texts]
    coder.train_from_iterator(short, trainer)
    return coder.to_str()


def _build_coder(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> Any:
    """Return the coder of the library; begin and end are in no list of texts to look for."""
    tokenizers = _library()
    coder = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    coder.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    coder.decoder = tokenizers.decoders.ByteLevel()
    return coder


def _load_coder(text: str) -> Any:
    """Return the coder of a `tokenizer.json`, of which only tokens and merges are read."""
    alphabet = _library().pre_tokenizers.ByteLevel.alphabet()
    try:
        model = json.loads(text)["model"]
        vocabulary, merges = model["vocab"], model["merges"]
        pairs = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in merges]
        coder = _build_coder(vocabulary, pairs)
    except Exception as error:  # the library raises its own kind
        cause = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        raise _damaged(cause) from None
    if sorted(vocabulary.values()) != [*range(len(vocabulary))]:
        raise _damaged("its tokens are not numbered from 0")
    special = [vocabulary.get(name) for name in SPECIAL]
    if special != [BEGIN, END] or not vocabulary.keys() >= {*alphabet}:
        raise _damaged(f"it lacks {', '.join(SPECIAL)} or a byte")
    return coder


def _damaged(cause: str) -> ZooError:
    return ZooError(
        f"this is no tokenizer of the zoo's ({cause}): copy `tokenizer.json` again, or train again."
    )


def _library() -> Any:
    return optional("tokenizers", "text", "text")
