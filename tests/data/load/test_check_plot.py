"""What the picture of `zoo data check --plot` says of a graph."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from zoo.data import GraphArrays
from zoo.data.load.check import draw

NAN = float("nan")


@pytest.fixture
def said(monkeypatch, tmp_path):
    """Draw labels on a path of nodes; return the texts of the picture."""

    def draw_labels(labels, **given):
        texts = []
        save = Figure.savefig

        def keep(figure, *args, **options):
            save(figure, *args, **options)
            texts.append(figure.get_suptitle())
            for axes in figure.axes:
                texts.extend([axes.get_title(), *(each.get_text() for each in axes.texts)])
                texts.extend(each.get_text() for each in axes.get_yticklabels())
                legend = axes.get_legend()
                texts.extend(each.get_text() for each in (legend.texts if legend else ()))

        monkeypatch.setattr(Figure, "savefig", keep)
        labels = np.asarray(labels)
        nodes = len(labels)
        edges = np.stack([np.arange(nodes - 1), np.arange(1, nodes)], axis=1)
        draw("mine", GraphArrays(edges, labels, np.zeros((nodes, 3)), **given), tmp_path / "a.png")
        return texts

    return draw_labels


def test_it_names_the_graph_and_counts_degrees_classes_and_unlabelled_nodes(said):
    texts = said([0, 0, 0, 1, -1, -1, 1, 0], label_names=("cat", "dog"))
    assert texts[0] == "mine: 8 nodes, 7 edges, 3 features"
    assert "edges of a node: median 2, most 2" in texts
    assert {"cat", "dog", "(unlabelled)", "4 (50.0%)"} <= set(texts)
    assert texts.count("2 (25.0%)") == 2  # of dogs, and of nodes without a label
    assert {"0", "2", "6"} <= set(texts)  # nodes without an edge, with one, with two or three


def test_all_labelled_nodes_have_no_bar_for_the_others(said):
    assert "(unlabelled)" not in said([0, 1, 0, 1])


def test_targets_tell_their_range_and_how_many_are_unknown(said):
    texts = said([[1.0], [2.0], [3.0], [NAN]], task="node-regression")
    assert "targets; 1 nodes (25.0%) unlabelled" in texts
    assert "target 0: 1 to 3, median 2" in texts


def test_nodes_with_several_targets_are_counted_by_target(said):
    texts = said([[1.0, 0.0], [1.0, 1.0], [NAN, NAN], [0.0, 0.0]], label_names=("a", "b"))
    assert {"2 (50.0%)", "1 (25.0%)", "(unlabelled)"} <= set(texts)
