"""Vectors of texts by a language model that lies in a folder, as Hugging Face writes them.

The mean of the last hidden states over the tokens of a text, divided by its length: Reimers and
Gurevych, Sentence-BERT (arXiv 1908.10084), section 3. Nothing is downloaded, unpickled or run but
the classes of `transformers`.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zoo.errors import ZooError
from zoo.system.cache import cache_folder
from zoo.system.files import user_path, write_whole

_BATCH = 64
_LONGEST = 512  # tokens of a text that are read, where the model does not say fewer


def sentence_vectors(texts: Sequence[str], folder: str) -> np.ndarray:
    """Return a vector of length 1 for each text, (N, D) fp32; 0 for an empty one.

    They are computed once for the same texts and model, and cached.

    Args:
        texts: of any length; what is beyond the longest that the model reads is cut off.
        folder: of the model: `config.json`, `model.safetensors` and the files of its tokenizer.

    Raises:
        ZooError: there is no such model, or no `transformers`.
    """
    path = user_path(folder)
    if not (path / "model.safetensors").is_file():
        raise ZooError(
            f"language_model: {folder} is no folder with a config.json and a model.safetensors; "
            "write that of a language model as Hugging Face publishes them."
        )
    cached = cache_folder() / "sentences" / f"{_digest(texts, path)}.npy"
    if cached.is_file():
        return np.load(cached, allow_pickle=False)
    vectors = _embed(texts, path)
    write_whole(cached, lambda draft: np.save(draft, vectors))
    return vectors


def _digest(texts: Sequence[str], folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(
        path for end in ("safetensors", "json", "txt") for path in folder.glob("*." + end)
    ):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    return digest.hexdigest()


def _embed(texts: Sequence[str], folder: Path) -> np.ndarray:
    from tqdm import tqdm

    tokenizer, model = _load(folder)
    positions = getattr(model.config, "max_position_embeddings", _LONGEST)
    longest = min(_LONGEST, tokenizer.model_max_length, positions)
    vectors = np.zeros((len(texts), model.config.hidden_size), np.float32)
    order = sorted((n for n, text in enumerate(texts) if text), key=lambda n: len(texts[n]))
    for start in tqdm(range(0, len(order), _BATCH), "sentences", disable=None, leave=False):
        rows = order[start : start + _BATCH]
        tokens = tokenizer(
            [texts[n] for n in rows], padding=True, truncation=True, max_length=longest,
            return_tensors="pt",
        )  # fmt: skip
        with torch.no_grad():
            states = model(**tokens).last_hidden_state.float()  # (B, T, D)
        mask = tokens["attention_mask"].unsqueeze(-1)
        mean = (states * mask).sum(1) / mask.sum(1)
        vectors[rows] = torch.nn.functional.normalize(mean, dim=1).numpy()
    return vectors


def _load(folder: Path) -> tuple[Any, Any]:
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        raise ZooError(
            "language_model needs transformers: pip install 'graph-transformer-zoo[language]'."
        ) from None
    how = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), **how)
        return tokenizer, AutoModel.from_pretrained(str(folder), use_safetensors=True, **how).eval()
    except Exception as error:  # transformers raises what the files suggest
        cause = " ".join(str(error).split())[:160]
        raise ZooError(f"language_model: {folder} cannot be read ({cause}).") from None
