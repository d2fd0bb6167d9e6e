"""Closed forms beside their naive twins, and what they may look at."""

import pytest
import torch
from sklearn.kernel_ridge import KernelRidge

from zoo.graphs.examples import batch, preferential_attachment, short_path, tiny_graph
from zoo.graphs.sampling import induced
from zoo.nn import closed_form, naive
from zoo.nn.closed_form import Labels, kernel_ridge, labels_of, neighbour_mean, ridge
from zoo.nn.propagation import gcn

NODES = 60
HIGH = (1.0, -1.0), (1.0, -2.0, 1.0)


@pytest.fixture
def graph():
    return preferential_attachment(NODES, 2)


def some(nodes: int = NODES, labelled: int = 14, classes: int = 3) -> Labels:
    context = torch.full((nodes,), -1)
    context[torch.randperm(nodes)[:labelled]] = torch.randint(classes, (labelled,))
    return labels_of(context, classes)


@pytest.mark.parametrize("columns", [5, 40])  # fewer and more than labelled nodes
@pytest.mark.parametrize("propagate", [gcn, neighbour_mean])
@pytest.mark.parametrize("filters", [closed_form.POWERS, HIGH])
def test_ridge_is_its_naive_twin(graph, columns, propagate, filters):
    """Values and what is said without each node, by either Gram matrix."""
    x, labels = torch.randn(NODES, columns), some()
    fits = ridge(graph, x, labels, propagate=propagate, filters=filters, penalty=0.3)
    for number, coefficients in enumerate(filters):
        values, held_out = naive.ridge(propagate, graph, x, *labels, coefficients, 0.3)
        torch.testing.assert_close(fits.values[number], values.float(), rtol=1e-3, atol=1e-4)
        left_out = fits.held_out[number][labels.known]
        torch.testing.assert_close(left_out, held_out.float(), rtol=1e-3, atol=1e-4)
    assert not fits.held_out[:, ~labels.known].any()


def kernel(z, centres, spread):
    """The mean of Gaussian kernels of all pairs, one after the other."""
    distances = [[((a - b) ** 2).sum() / spread for b in centres] for a in z]
    squares = torch.tensor(distances, dtype=torch.double)
    return sum(torch.exp(-rate * squares) for rate in closed_form.RATES) / len(closed_form.RATES)


@pytest.mark.parametrize("sizes", [(NODES,), (40, 20)])
def test_kernel_ridge_is_that_of_scikit_learn(sizes, monkeypatch):
    """Values, some nodes at a time, and what is said without each: by a fit without it."""
    monkeypatch.setattr(closed_form, "AT_ONCE", 50)
    z, labels = torch.randn(NODES, 4), some(labelled=20)
    fits = kernel_ridge(batch([preferential_attachment(n, 2) for n in sizes]), z, labels)
    parts = (
        x.split(sizes) for x in (z, labels.targets, labels.known, *fits.values, *fits.held_out)
    )
    for rows, y, known, values, held_out in zip(*parts, strict=True):
        spread = 2 * rows.var(0, correction=0).sum()
        k, middle = kernel(rows, rows, spread), y[known].mean(0)

        def answers(given, k=k, y=y, middle=middle):
            peer = KernelRidge(alpha=closed_form.KERNEL_PENALTY, kernel="precomputed")
            peer.fit(k[given][:, given].numpy(), (y[given] - middle).double().numpy())
            return torch.from_numpy(peer.predict(k[:, given].numpy())) + middle

        torch.testing.assert_close(values, answers(known).float(), rtol=1e-3, atol=1e-4)
        for node in known.nonzero().squeeze(1).tolist():
            others = known.clone()
            others[node] = False
            said = answers(others)[node].float()
            torch.testing.assert_close(held_out[node], said, rtol=1e-3, atol=1e-4)
        assert not held_out[~known].any()


def test_of_many_labels_a_kernel_has_some_as_centres(monkeypatch):
    monkeypatch.setattr(closed_form, "CENTRES", 8)
    z, labels = torch.randn(NODES, 4), some(labelled=20)
    fits = kernel_ridge(preferential_attachment(NODES, 2), z, labels)
    apart = (fits.values[0] != fits.held_out[0]).any(1) & labels.known
    assert apart.sum() == 8  # the others are answered by these alone


def test_a_tiny_penalty_is_the_pseudo_inverse(graph):
    """More columns than labels: the fit of least norm, without centre or scale."""
    x, labels = torch.randn(NODES, 40), some()
    fits = ridge(graph, x, labels, propagate=gcn, penalty=1e-6, unit_rows=False, centred=False)
    rows = gcn(graph, x)
    weights = torch.linalg.pinv(rows[labels.known]) @ labels.targets[labels.known]
    torch.testing.assert_close(fits.values[1], rows @ weights, rtol=1e-3, atol=1e-3)


def test_leave_one_out_takes_the_penalty_with_the_least_error(graph):
    """Each graph its own."""
    x, labels = torch.randn(NODES, 8), some(labelled=20)
    fit = ridge(graph, x, labels, propagate=gcn, penalty=None)
    errors = {}
    for penalty in closed_form.PENALTIES:
        tried = ridge(graph, x, labels, propagate=gcn, penalty=penalty)
        errors[penalty] = (tried.held_out - labels.targets)[:, labels.known].square().sum((1, 2))
    for number in range(3):
        best = min(errors, key=lambda penalty: errors[penalty][number])
        same = ridge(graph, x, labels, propagate=gcn, penalty=best)
        torch.testing.assert_close(fit.values[number], same.values[number])


def test_the_mean_of_neighbours_leaves_out_oneself(graph):
    """Of a node without neighbours it is 0; weights of edges count."""
    x = torch.randn(NODES, 3)
    u, v = graph.edges()
    other = u != v
    matrix = torch.zeros(NODES, NODES)
    matrix[v[other], u[other]] = 1.0
    wanted = matrix @ x / matrix.sum(1, keepdim=True)
    torch.testing.assert_close(neighbour_mean(graph, x), wanted, rtol=1e-4, atol=1e-5)
    alone = induced(graph.formats("csc"), torch.tensor([NODES - 1]))
    assert not neighbour_mean(alone, x[-1:]).any()


def test_graphs_of_a_batch_are_fitted_apart():
    """One graph without a label among them: it is answered 0."""
    graphs = [tiny_graph(), short_path(), tiny_graph()]
    x, y = torch.randn(12, 4), torch.randn(3, 4)
    first, second = some(12, 5), some(12, 7)
    none = Labels(torch.zeros(3, 3), torch.zeros(3, dtype=torch.bool))
    both = Labels(*map(torch.cat, zip(first, none, second, strict=True)))
    fits = ridge(batch(graphs), torch.cat([x, y, x]), both, propagate=gcn)
    for rows, graph, features, labels in (
        (slice(0, 12), graphs[0], x, first), (slice(15, 27), graphs[2], x, second)
    ):  # fmt: skip
        alone = ridge(graph, features, labels, propagate=gcn)
        torch.testing.assert_close(fits.values[:, rows], alone.values, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(fits.held_out[:, rows], alone.held_out, rtol=1e-4, atol=1e-5)
    assert not fits.values[:, 12:15].any()


def test_rows_that_are_kept_are_those_of_the_features_as_they_are(graph):
    """Other labels, a change in place, and another graph of the same features."""
    x = torch.randn(NODES, 8)
    ridge(graph, x, some(), propagate=gcn)
    more = some(labelled=30)

    def fresh():
        return ridge(graph, x.clone(), more, propagate=gcn).values

    torch.testing.assert_close(ridge(graph, x, more, propagate=gcn).values, fresh())
    x.mul_(torch.rand(NODES, 8))
    torch.testing.assert_close(ridge(graph, x, more, propagate=gcn).values, fresh())
    other = preferential_attachment(NODES, 3)
    wanted = ridge(other, x.clone(), more, propagate=gcn).values
    torch.testing.assert_close(ridge(other, x, more, propagate=gcn).values, wanted)


def test_memory_is_bounded(graph, monkeypatch):
    """Nothing kept, and a few columns at a time, of features or of nodes: the same."""
    x, labels, more = torch.randn(NODES, 50), some(), some(labelled=55)
    wanted = [ridge(graph, x.clone(), each, propagate=gcn).values for each in (labels, more)]
    monkeypatch.setattr(closed_form, "AT_ONCE", 3 * NODES)
    monkeypatch.setattr(closed_form, "KEPT", 0)
    for each, values in zip((labels, more), wanted, strict=True):
        found = ridge(graph, x, each, propagate=gcn).values
        torch.testing.assert_close(found, values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kept", [0, 2**26])
def test_zeros_of_features_are_left_out(graph, monkeypatch, kept):
    """Bags of words: the same as of features that are not looked through for zeros."""
    monkeypatch.setattr(closed_form, "KEPT", kept)
    x, labels = torch.rand(NODES, 400) * (torch.rand(NODES, 400) < 0.05), some()
    assert closed_form.sparse_form(x) is not None
    found = ridge(graph, x, labels, propagate=gcn)
    monkeypatch.setattr(closed_form, "sparse_form", lambda x: None)
    wanted = ridge(graph, x.clone(), labels, propagate=gcn)
    torch.testing.assert_close(found.values, wanted.values, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.held_out, wanted.held_out, rtol=1e-4, atol=1e-5)
