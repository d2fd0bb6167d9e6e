"""Images: as grids of patches, each a graph with one label; or as nodes of their pixels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

from zoo.config.options import Count, Number, Spec
from zoo.data.dataset import Dataset, make_dataset
from zoo.data.features import FEATURES
from zoo.data.files.graph_arrays import NO_EDGES, GraphArrays, check_masks, check_room
from zoo.data.files.prepared import read_images, read_unchecked
from zoo.data.samples import Pooling, Samples
from zoo.errors import ZooError, named_in_errors, reading
from zoo.graphs.graph_sets import StoredGraphs
from zoo.graphs.sequences import grid_graph
from zoo.system.cache import data_file
from zoo.system.files import user_path
from zoo.tasks.labels import ACCURACY, CLASSIFICATION, GRAPHS, check_labels, encode_text

SPLIT = "ratio-70-10-20"
"""The default split: no benchmark fixes one for these images."""

NODES_SPLIT = "per-class-50"
"""That of images as nodes."""

ENCODER = Path(__file__).with_name("image_encoder.safetensors")
"""Weights of `encoder`."""

Masks = dict[str, np.ndarray] | None

_KEYS = "`images` (S, H, W) or (S, H, W, C), uint8, and `labels` (S,)"


OF_PATCHES = ("patch", "window", "skip", "readout")
"""Options of images as graphs of patches that weights are read with."""


def images(
    *,
    path: str,
    patch: Count = 4,
    window: Number = 1,
    skip: Number = 0,
    readout: Pooling = "mean",
) -> Samples:
    """Images of an .npz file of one's own, `images` (S, H, W[, C]) uint8 and `labels` (S,).

    `train_masks`, `val_masks` and `test_masks`, (splits, S) bool, are its splits where given.

    Args:
        path: of the file.
        patch: rows and columns of pixels in a patch, which is a node.
        window: a patch is linked with those at most so many rows and columns away.
        skip: patches whose row and column are multiples of it are linked; 0 for none.
        readout: what is read of an image: the `mean` over its patches, or a `class-token`.
    """
    file = user_path(path)
    *arrays, masks = _read(file)
    data = _graphs(file.stem, *arrays, 255, patch, window, skip, readout)
    if masks is None:
        return data
    tensors = {part: torch.from_numpy(mask) for part, mask in masks.items()}
    return dataclasses.replace(data, masks=tensors, split="benchmark")


def mnist10k(
    *, patch: Count = 4, window: Number = 1, skip: Number = 0, readout: Pooling = "mean"
) -> Samples:
    """10,000 images of handwritten digits, MNIST's test images: 28 x 28 pixels, 10 classes.

    Args:
        patch: rows and columns of pixels in a patch, which is a node.
        window: a patch is linked with those at most so many rows and columns away.
        skip: patches whose row and column are multiples of it are linked; 0 for none.
        readout: what is read of an image: the `mean` over its patches, or a `class-token`.
    """
    return _graphs("mnist10k", *_read(_mnist())[:3], 255, patch, window, skip, readout)


def mnist10k_pixels(*, features: Annotated[Spec, FEATURES] = "raw") -> Dataset:
    """The 10,000 images of `mnist10k` as nodes without edges: 784 pixels from 0 to 1, 10 classes.

    Args:
        features: what is done to the pixels first.
    """
    pixels, labels, *_ = _read(_mnist())
    arrays = GraphArrays(NO_EDGES, labels, pixels.reshape(len(pixels), -1).astype(np.float32) / 255)
    name, split = "mnist10k-pixels", NODES_SPLIT
    return make_dataset(name, arrays, task=CLASSIFICATION, split=split, features=features)


def mnist10k_features(*, features: Annotated[Spec, FEATURES] = "raw") -> Dataset:
    """The images of `mnist10k` as nodes without edges: 128 features of a self-supervised encoder.

    The encoder has seen the images, and no label (SimCLR, arXiv 2002.05709); its weights come with
    the zoo, by `benchmarks/pretrain_images.py`.

    Args:
        features: what is done to the 128 features first.
    """
    pixels, labels, *_ = _read(_mnist())
    network = encoder()
    network.load_state_dict(load_file(ENCODER))
    with torch.inference_mode():
        x = torch.from_numpy(pixels)[:, None].float() / 255
        x = torch.cat([network(batch) for batch in x.split(1000)]).numpy()
    name, arrays = "mnist10k-features", GraphArrays(NO_EDGES, labels, x)
    return make_dataset(name, arrays, task=CLASSIFICATION, split=NODES_SPLIT, features=features)


def encoder() -> nn.Sequential:
    """Return three convolutions that halve images (N, 1, 28, 28), and a map to (N, 128)."""
    layers = [
        layer
        for into, out in ((1, 32), (32, 64), (64, 64))
        for layer in (nn.Conv2d(into, out, 3, stride=2, padding=1), nn.GroupNorm(8, out), nn.ReLU())
    ]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 4 * 64, 128))


def _encoded(name: str, what: str) -> Callable[..., Dataset]:
    def build(*, features: Annotated[Spec, FEATURES] = "raw") -> Dataset:
        path = data_file(f"{name}.npz", f"features `x` (N, F) and classes `y` (N,) of {what}")
        with reading(path, "a prepared graph"):
            arrays = read_unchecked(path)
            return make_dataset(
                name, arrays, task=CLASSIFICATION, split=NODES_SPLIT, features=features
            )

    build.__name__ = build.__qualname__ = name
    build.__doc__ = (
        f"Features of {what}, as nodes without edges: `{name}.npz`, `x` and `y`.\n\n"
        "Args:\n    features: what is done to the features first."
    )
    return build


def digits_images(
    *, patch: Count = 2, window: Number = 1, skip: Number = 0, readout: Pooling = "mean"
) -> Samples:
    """1,797 images of handwritten digits, of scikit-learn: 8 x 8 pixels, 10 classes.

    Args:
        patch: rows and columns of pixels in a patch, which is a node.
        window: a patch is linked with those at most so many rows and columns away.
        skip: patches whose row and column are multiples of it are linked; 0 for none.
        readout: what is read of an image: the `mean` over its patches, or a `class-token`.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    arrays = digits.images, digits.target.astype(np.int64), None
    return _graphs("digits-images", *arrays, 16, patch, window, skip, readout)


IMAGES: dict[str, Callable[..., Samples | Dataset]] = {
    "cifar10-features": _encoded("cifar10-features", "1,500 images of each class of CIFAR-10"),
    "digits-images": digits_images,
    "images": images,
    "mnist10k": mnist10k,
    "mnist10k-features": mnist10k_features,
    "mnist10k-pixels": mnist10k_pixels,
    "stl10-features": _encoded("stl10-features", "the 13,000 labelled images of STL-10"),
}
"""Word to builder `(*, options) -> Samples` of patches, or `Dataset` of nodes."""

NODES = tuple(name for name in IMAGES if name.endswith(("-pixels", "-features")))
"""Those of nodes."""

SPLITS = {**dict.fromkeys(IMAGES, SPLIT), **dict.fromkeys(NODES, NODES_SPLIT)}
"""The split of each word where a recipe names none."""


def patches(pixels: np.ndarray, size: int) -> np.ndarray:
    """Return the patches of images (S, H, W[, C]), (S, H / size * W / size, size * size * C).

    They come row by row, as `grid_graph` numbers them, and so do the pixels of each.

    Raises:
        ZooError: the size divides not both height and width.
    """
    count, height, width = pixels.shape[:3]
    if height % size or width % size:
        sizes = [
            size for size in range(2, min(height, width) + 1) if not (height % size or width % size)
        ]
        raise ZooError(
            f"patches of {size} x {size} pixels do not divide images of {height} x {width}; write "
            f"`patch: {sizes[0] if sizes else 1}`"
            f"{' or ' + ', '.join(map(str, sizes[1:])) if sizes[1:] else ''}."
        )
    rows, columns = height // size, width // size
    cut = pixels.reshape(count, rows, size, columns, size, -1).swapaxes(2, 3)
    return cut.reshape(count, rows * columns, -1)


def _mnist() -> Path:
    return data_file("mnist10k.npz", f"MNIST's 10,000 test images, {_KEYS},")


def _graphs(name, pixels, labels, names, brightest, patch, window, skip, readout) -> Samples:
    """Return images (S, H, W[, C]) with labels (S,) as graphs of their patches."""
    with named_in_errors(name):
        rows = patches(pixels, patch)
    grid = [pixel // patch for pixel in pixels.shape[1:3]]
    token = readout == "class-token"
    graph = grid_graph(*grid, window=window, skip=skip, class_token=token)
    check_room((rows.shape[0] * (rows.shape[1] + 1), rows.shape[2] + 1))
    x = torch.from_numpy(rows.astype(np.float32) / brightest)
    if token:  # a column of its own tells it from dark patches: its weights are the token
        x = torch.nn.functional.pad(x, (0, 1, 0, 1))
        x[:, -1, -1] = 1
    return Samples(
        name=name,
        graphs=StoredGraphs([graph], torch.zeros(len(x), dtype=torch.long)),
        x=x.flatten(0, 1),
        y=torch.from_numpy(labels),
        task=GRAPHS,
        metric=ACCURACY,
        split=SPLIT,
        masks=None,
        classes=len(names or ()) or int(labels.max()) + 1,
        readout=readout,
        labels=names,
    )


def _read(path: Path) -> tuple[np.ndarray, np.ndarray, tuple[str, ...] | None, Masks]:
    """Return the images (S, H, W[, C]), their classes (S,), names of these and masks, if any.

    Raises:
        ZooError: there is no such file, or it holds something else.
    """
    with reading(path, f"a file of images ({_KEYS})"):
        pixels, labels, masks = read_images(path)
        if pixels.dtype != np.uint8:
            raise ZooError(
                f"`images` is of type {pixels.dtype}, and brightness is written as uint8, 0 to "
                "255: `(255 * images).round().astype('uint8')` where it is from 0 to 1."
            )
        if pixels.ndim not in (3, 4) or 0 in pixels.shape:
            raise ZooError(f"`images` has the shape {pixels.shape}, and {_KEYS} are read.")
        labels = np.full(len(pixels), -1) if labels is None else labels
        if labels.shape != (len(pixels),):
            raise ZooError(
                f"`labels` has the shape {labels.shape} and there are {len(pixels):,} images."
            )
        names = None
        if labels.dtype.kind == "U":
            labels, names = encode_text(labels)
        return pixels, check_labels(labels), names, check_masks(masks, len(pixels))
