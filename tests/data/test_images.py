"""Images as grids of patches: which pixel is where, and what a file of them may hold."""

import numpy as np
import pytest
import torch

from zoo.data.load import dataset_problems, default_split, load_data, own_files
from zoo.data.load.check import check
from zoo.data.load.images import patches
from zoo.data.splits import make_split
from zoo.errors import ZooError
from zoo.graphs.sequences import grid_graph


def slow_patches(pixels, size):
    count, height, width = pixels.shape[:3]
    return [
        [
            [
                pixels[image, row + i, column + j].reshape(-1).tolist()
                for i in range(size)
                for j in range(size)
            ]
            for row in range(0, height, size)
            for column in range(0, width, size)
        ]
        for image in range(count)
    ]


@pytest.mark.parametrize("shape", [(2, 4, 6), (3, 6, 2, 3)])
def test_patches_are_cut_row_by_row(shape):
    pixels = np.arange(np.prod(shape)).reshape(shape)
    wanted = np.array(slow_patches(pixels, 2)).reshape(shape[0], shape[1] * shape[2] // 4, -1)
    assert (patches(pixels, 2) == wanted).all()


@pytest.fixture
def written(tmp_path):
    """Write a file of images; return the spec that reads it."""

    def write(**arrays):
        given = {
            "images": np.arange(6 * 4 * 4, dtype=np.uint8).reshape(6, 4, 4),
            "labels": np.array([0, 1, 2, 0, 1, -1]),
        }
        np.savez(tmp_path / "own.npz", **{**given, **arrays})
        return {"name": "images", "path": str(tmp_path / "own.npz"), "patch": 2}

    return write


def test_a_file_of_ones_own(written):
    data = load_data(written())
    assert data.name == "own" and data.inputs == 4 and data.classes == 3
    assert data.y.tolist() == [0, 1, 2, 0, 1, -1] and data.labels is None
    graph, x = data.batch(torch.tensor([1]))
    wanted = grid_graph(2, 2)
    assert torch.equal(graph.adj_tensors("csc")[1], wanted.adj_tensors("csc")[1])
    torch.testing.assert_close(x[1], torch.tensor([18, 19, 22, 23]) / 255)
    named = load_data(written(labels=np.array(["a", "b", "a", "", "b", "a"])))
    assert named.labels == ("a", "b") and named.y.tolist() == [0, 1, 0, -1, 1, 0]
    [file] = own_files(written())
    assert file.name == "own.npz"


def test_a_split_of_ones_own(written):
    parts = {f"{part}_masks": np.arange(6)[None] // 2 == row
             for row, part in enumerate(("train", "val", "test"))}  # fmt: skip
    data = load_data(written(**parts))
    split = make_split(data.split, data.y, data.masks, seed=3)
    assert data.split == "benchmark" and split.train.tolist() == [0, 1]
    assert split.val.tolist() == [2, 3] and split.test.tolist() == [4]  # 5 has no label
    with pytest.raises(ZooError, match=r"own\.npz: .*masks overlap"):
        load_data(written(**parts | {"test_masks": parts["train_masks"]}))


def test_a_class_token_is_the_last_node_and_has_a_column_of_its_own(written):
    plain = load_data(written())
    data = load_data({**written(), "readout": "class-token"})
    assert data.inputs == 5 and data.graphs.sizes.tolist() == [5] * 6
    graph, x = data.batch(torch.tensor([2, 0]))
    x = x.unflatten(0, (2, 5))
    torch.testing.assert_close(x[:, :4, :4].flatten(0, 1), plain.batch(torch.tensor([2, 0]))[1])
    assert x[:, :4, 4].eq(0).all() and x[:, 4].tolist() == [[0, 0, 0, 0, 1]] * 2
    assert graph.in_degrees().tolist() == [5] * 10
    rows = torch.randn(10, 3)
    assert torch.equal(data.pool(torch.tensor([2, 0]), rows), rows[[4, 9]])


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"images": np.zeros((6, 4, 4))}, "float64.*uint8"),
        ({"images": np.zeros((6, 16), np.uint8)}, r"shape \(6, 16\)"),
        ({"images": np.zeros((0, 4, 4), np.uint8), "labels": np.zeros(0, int)}, r"shape \(0, 4"),
        ({"images": np.zeros((6, 3, 4), np.uint8)}, "2 x 2 pixels do not divide images of 3 x 4"),
        ({"labels": np.zeros(5, int)}, r"shape \(5,\).*6 images"),
        ({"labels": np.zeros(6)}, "float64.*int64: classes"),
        ({"labels": np.arange(6) - 3}, "-3.*number the classes"),
        ({"labels": np.array([{}] * 6)}, "never unpickled"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(written, arrays, said):
    with pytest.raises(ZooError, match=said) as caught:
        load_data(written(**arrays))
    assert "own" in str(caught.value) and "\n" not in str(caught.value)


def test_missing_files_and_wrong_options_are_said(tmp_path, monkeypatch, written):
    with pytest.raises(ZooError, match="there is no such file"):
        load_data({"name": "images", "path": str(tmp_path / "none.npz")})
    np.savez(tmp_path / "graph.npz", edges=np.zeros((1, 2)))
    with pytest.raises(ZooError, match="key `images` is missing"):
        load_data({"name": "images", "path": str(tmp_path / "graph.npz")})
    assert "needs the option 'path'" in str(dataset_problems("images", ())[0])
    wrong = {"name": "mnist10k", "readout": "sum", "window": -1, "patch": 0}
    assert len(dataset_problems(wrong, ())) == 3
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    with pytest.raises(ZooError, match="mnist10k.npz is in none of.*ZOO_DATA"):
        load_data("mnist10k")


def test_digits():
    data = load_data("digits-images")
    assert data.inputs == 4 and len(data.y) == 1797 and data.classes == 10
    assert data.graphs.sizes.eq(16).all() and data.x.min() >= 0 and data.x.max() == 1


def test_images_and_drawn_graphs_are_checked():
    found = {each.name: each for each in check(load_data("digits-images", patch=2))}
    assert {each.verdict for each in found.values()} == {"good"}
    assert found["size"].values == {"samples": 1797, "nodes": 16 * 1797}
    assert "ratio-70-10-20 deals the labelled samples" in found["split"].found
    found = {each.name: each for each in check(load_data("digits"))}
    assert found["size"].values == {"nodes": 1797, "edges": 6309, "rows": 6309}


def test_mnist(real_graph):
    data = real_graph("mnist10k")
    assert data.x.shape == (490_000, 16) and data.x.max() == 1
    assert torch.bincount(data.y).tolist()[:3] == [980, 1135, 1032]
    split = make_split(data.split, data.y, data.masks, seed=0)
    assert [len(getattr(split, part)) for part in ("train", "val", "test")] == [7000, 1000, 2000]


def test_features_of_an_encoder(real_graph):
    data = real_graph("mnist10k-features")
    assert (
        data.x.shape == (10_000, 128) and data.x.isfinite().all() and data.split == "per-class-50"
    )
    pixels = real_graph("mnist10k-pixels")
    assert pixels.x.shape == (10_000, 784) and torch.equal(pixels.y, data.y)
    near = data.with_graph({"name": "knn", "k": 1}).graph
    src, dst = near.edges()
    assert (data.y[src] == data.y[dst])[src != dst].float().mean() > 0.9


def test_features_that_one_brings(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    for name in ("cifar10-features", "stl10-features"):
        with pytest.raises(ZooError, match=rf"{name}.npz is in none of .*`x` \(N, F\)"):
            load_data(name)
        np.savez(tmp_path / f"{name}.npz", x=np.eye(3), y=np.array([0, 1, 1]))
        assert load_data(name).x.tolist() == np.eye(3).tolist() and default_split(name)
