"""Encodings are what dense algebra says they are, on any graph, and are computed only once."""

import time
from pathlib import Path

import numpy as np
import pytest
import torch
from preloaded import run_preloaded
from threadpoolctl import threadpool_info, threadpool_limits

import zoo
from zoo.config.options import pick
from zoo.data.load import load_graph
from zoo.dgl import dgl
from zoo.encodings import (
    ENCODINGS,
    Encoder,
    block_lanczos,
    chebyshev,
    flip_signs,
    laplacian,
    laplacian_report,
    laplacian_solvers,
    positional,
    random_walk,
    signnet,
)
from zoo.encodings.chebyshev import Component, Filter
from zoo.encodings.laplacian_solvers import first_pairs
from zoo.errors import ZooError
from zoo.system.cache import cache_folder, data_folders
from zoo.system.environment import using_threads
from zoo.testing import encoding_promises

FOLDERS = [folder.resolve() for folder in data_folders()]  # before the tests hide them


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))


@pytest.fixture
def all_sparse(monkeypatch):
    """Send components that are small enough for dense algebra to the sparse solvers."""
    monkeypatch.setattr(positional, "_DENSE", 2)


def make(edges, count):
    """A canonical graph: both directions, one self-loop per node."""
    edges = torch.as_tensor(np.asarray(edges, dtype=np.int64)).reshape(-1, 2)
    edges = edges[edges[:, 0] != edges[:, 1]]
    ends = torch.cat([edges, edges.flip(1)]).T
    graph = dgl.graph((ends[0], ends[1]), num_nodes=count)
    return dgl.add_self_loop(dgl.to_simple(graph, return_counts=None))


def path(count):
    return make([(i, i + 1) for i in range(count - 1)], count)


def cycle(count):
    return make([(i, (i + 1) % count) for i in range(count)], count)


def star(count):
    return make([(0, i) for i in range(1, count)], count)


def complete(count):
    return make([(i, j) for i in range(count) for j in range(i)], count)


def grid(side):
    place = np.arange(side * side).reshape(side, side)
    down = np.stack([place[1:].ravel(), place[:-1].ravel()], axis=1)
    right = np.stack([place[:, 1:].ravel(), place[:, :-1].ravel()], axis=1)
    return make(np.concatenate([down, right]), side * side)


def scattered(count, edges, seed=0):
    """A random graph: one large component, some small ones, some isolated nodes."""
    return make(np.random.default_rng(seed).integers(count, size=(edges, 2)), count)


def power_law(count, links, seed=0):
    """A graph by preferential attachment (Barabasi and Albert)."""
    generator = np.random.default_rng(seed)
    ends = list(range(links))
    edges = []
    for node in range(links, count):
        chosen = {ends[i] for i in generator.integers(len(ends), size=links)}
        edges += [(node, other) for other in chosen]
        ends += [*chosen, *[node] * len(chosen)]
    return make(edges, count)


def many():
    """Components of many kinds: paths, triangles, a star, a cycle, isolated nodes."""
    parts = [path(4), complete(3), path(4), star(6), cycle(8), make([], 3), complete(3), path(2)]
    return dgl.batch(parts)


SMALL = {
    "path": path(30),
    "cycle": cycle(24),
    "star": star(25),
    "complete": complete(22),
    "grid": grid(6),
    "random": scattered(60, 200),
    "disconnected": scattered(80, 60),
    "many": many(),
    "isolated": make([], 5),
    "one": make([], 1),
    "two": path(2),
    "two apart": make([], 2),
    "three": path(3),
}


def dense_adjacency(graph):
    matrix = np.zeros((graph.num_nodes(),) * 2)
    source, target = (each.numpy() for each in graph.edges())
    matrix[source, target] = matrix[target, source] = 1
    np.fill_diagonal(matrix, 0)
    return matrix


def dense_laplacian(graph):
    """I - D^-1/2 A D^-1/2, and 0 on isolated nodes."""
    matrix = dense_adjacency(graph)
    degrees = matrix.sum(0)
    scale = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    return np.diag((degrees > 0).astype(float)) - scale[:, None] * matrix * scale


def check_against_dense(graph, k):
    """Compare with eigh: eigenvalues, residuals, and projectors on each whole eigenspace."""
    count, matrix = graph.num_nodes(), dense_laplacian(graph)
    values, vectors = np.linalg.eigh(matrix)
    zeros = int((values < 1e-9).sum())
    expected = values[zeros : zeros + k]
    report = laplacian_report(graph, k=k)
    encoding = laplacian(graph, k=k)
    assert encoding.shape == (count, k) and encoding.dtype == torch.float32
    x, found = encoding.double().numpy(), len(expected)
    assert report["components"] == zeros
    np.testing.assert_allclose(report["eigenvalues"], expected, atol=1e-8)
    assert not x[:, found:].any()
    x = x[:, :found]
    residual = np.linalg.norm(matrix @ x - x * expected, axis=0)
    assert residual.max(initial=0) < 1e-5
    assert np.abs(x.T @ x - np.eye(found)).max(initial=0) < 1e-5
    assert np.abs(vectors[:, :zeros].T @ x).max(initial=0) < 1e-5
    for value in np.unique(expected.round(7)):
        space = np.abs(values - value) < 1e-6
        if space.sum() == (np.abs(expected - value) < 1e-6).sum():  # not cut off at the k-th
            mine = x[:, np.abs(expected - value) < 1e-6]
            theirs = vectors[:, space]
            np.testing.assert_allclose(mine @ mine.T, theirs @ theirs.T, atol=2e-5)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("k", [1, 5, 16, 100])
def test_laplacian_is_that_of_dense_algebra(name, k):
    check_against_dense(SMALL[name], k)


@pytest.mark.parametrize("solver", laplacian_solvers._SOLVERS)
@pytest.mark.parametrize(
    "graph",
    [path(90), cycle(90), star(90), complete(90), grid(12), scattered(400, 900), power_law(300, 3)],
    ids=["path", "cycle", "star", "complete", "grid", "random", "power law"],
)
def test_every_sparse_solver_is_right_by_itself(graph, solver, all_sparse, monkeypatch):
    monkeypatch.setattr(laplacian_solvers, "_SOLVERS", {solver: laplacian_solvers._SOLVERS[solver]})
    if solver == "krylov":
        monkeypatch.setattr(chebyshev, "LARGE", 50)
    check_against_dense(graph, 7)
    assert solver in laplacian_report(graph, k=7)["solvers"]


def component_of(graph, threads=1):
    pattern = positional._pattern(graph)
    degrees = pattern.sum(axis=1)
    return Component(positional._normalised(pattern), np.sqrt(degrees / degrees.sum()), threads)


def test_the_filter_in_single_precision_is_that_in_double():
    component = component_of(power_law(400, 3))
    x = torch.randn(400, 5, dtype=torch.double)
    x -= component.trivial @ (component.trivial.T @ x)
    for degree in (1, 2, 3, 9, 30):
        right = Filter(component, 0.3, degree)(x, component.trivial)
        single = Filter(component, 0.3, degree, single=True)(x.float(), component.trivial)
        limits = {"rtol": 1e-3, "atol": 1e-4 * right.abs().max()}
        torch.testing.assert_close(single.double(), right, **limits)


@pytest.mark.parametrize("degree", [1, 4, 11])
def test_the_filter_is_a_chebyshev_polynomial_whose_eigenvalues_are_known(degree):
    component, cut = component_of(power_law(300, 3)), 0.2
    values, vectors = np.linalg.eigh(component.matrix.toarray())
    kept = (values > cut + 1e-3) & (values < 1 - 1e-9) if degree > 1 else values < 1 - 1e-9
    values, vectors = torch.from_numpy(values[kept]), torch.from_numpy(vectors[:, kept])
    mapped = (2 * values - cut + 1) / (cut + 1)
    of = Filter(component, cut, degree)
    found = of(vectors)
    expected = mapped if degree == 1 else (degree * mapped.acosh()).cosh()
    torch.testing.assert_close(found, vectors * expected)
    back, slope = of.eigenvalues(expected)
    torch.testing.assert_close(back, values)
    further = of.eigenvalues(expected + 1e-6)[0]
    torch.testing.assert_close((further - back) / 1e-6, slope, rtol=1e-3, atol=1e-6)
    if degree > 1:
        assert of.eigenvalues(torch.tensor([0.5, -3]).double())[1].isinf().all()
    else:
        shift = torch.linspace(0, 0.1, len(values)).double()
        torch.testing.assert_close(of.residual(vectors, values + shift), shift)


def test_a_large_component_is_solved_in_single_precision_with_any_number_of_threads():
    from scipy.sparse.linalg import eigsh

    component = component_of(power_law(5200, 3))
    assert component.large and not component.factored_first
    trivial = component.trivial[:, 0].numpy()
    found = [first_pairs(component.matrix, trivial, 4, threads) for threads in (1, 2, 3, 4)]
    solver, growth, values, vectors = found[0]
    assert solver == "krylov" and growth < 2
    assert all(np.array_equal(vectors, each[3]) for each in found)
    expected = 1 - eigsh(component.matrix, 5, which="LA", return_eigenvectors=False)
    np.testing.assert_allclose(values, np.sort(expected)[1:], atol=1e-8)


def test_a_mesh_is_factored_and_its_eigenvalues_are_counted(monkeypatch):
    component = component_of(grid(80))
    trivial = component.trivial[:, 0].numpy()
    solver, growth, values, _ = first_pairs(component.matrix, trivial, 8)
    assert solver == "shift_invert" and growth == 0
    small = component_of(grid(16)).matrix
    every = np.linalg.eigvalsh(np.eye(256) - small.toarray())
    for below in (1e-4, 0.03, 0.3, 1.7):
        assert laplacian_solvers._count_below(small, below) == (every < below).sum()
    right = laplacian_solvers._SOLVERS["shift_invert"]

    def careless(component, k):
        return np.delete(right(component, k + 1), 2, axis=1)

    monkeypatch.setattr(laplacian_solvers, "_SOLVERS", {"careless": careless})
    with pytest.raises(ZooError, match="careless: growth is inf"):
        first_pairs(component.matrix, trivial, 8)


def test_one_eigenvalue_with_more_copies_than_the_block_has_columns():
    triangles = 400  # all share node 0: eigenvalue 1/2 has 399 copies
    edges = [(0, i) for i in range(1, 2 * triangles + 1)]
    edges += [(2 * i + 1, 2 * i + 2) for i in range(triangles)]
    report = laplacian_report(make(edges, 2 * triangles + 1), k=16)
    assert report["solvers"] == ["chebyshev"]
    np.testing.assert_allclose(report["eigenvalues"], 0.5, atol=1e-9)


@pytest.mark.parametrize(
    "k, graph",
    [(16, "triangles"), pytest.param(64, "power law", marks=pytest.mark.slow)],
)
def test_krylov_finds_every_copy_on_large_graphs(k, graph):
    from scipy.sparse.linalg import eigsh

    if graph == "triangles":  # all share node 0: eigenvalue 1/2 has 2999 copies
        count = 6001
        edges = [(0, i) for i in range(1, count)] + [(i, i + 1) for i in range(1, count, 2)]
        made, expected = make(edges, count), np.full(k, 0.5)
    else:
        made = power_law(6000, 3)
        matrix = component_of(made).matrix
        expected = 1 - np.sort(eigsh(matrix, k + 1, which="LA", return_eigenvectors=False))[-2::-1]
    report = laplacian_report(made, k=k)
    assert report["solvers"] == ["krylov"]
    np.testing.assert_allclose(report["eigenvalues"], expected, atol=1e-8)
    assert report["residual"] < 1e-5 and report["missed"] < 2


def test_what_krylov_passes_over_is_noticed():
    place = np.arange(2**13)  # a cube of 13 dimensions: 2/13 has 13 copies, a block 8 columns
    edges = np.concatenate([np.stack([place, place ^ 2**i], 1) for i in range(13)])
    report = laplacian_report(make(edges, 2**13), k=12)
    np.testing.assert_allclose(report["eigenvalues"], np.full(12, 2 / 13), atol=1e-8)
    assert report["missed"] < 2


def test_products_of_rows_do_not_depend_on_threads():
    for count in (5200, 8192, 70_001):  # one thread is given to what is smaller
        x, y = torch.randn(8, count), torch.randn(41, count)
        found = []
        for threads in (1, 2, 3, 4):
            with using_threads(threads):
                found.append(block_lanczos._products(x, y))
        torch.testing.assert_close(found[0], x @ y.T, rtol=1e-4, atol=1e-3)
        assert all(torch.equal(found[0], each) for each in found)


@pytest.mark.parametrize("apart", [1.0, 1e-2, 1e-4, 0.0])
def test_rows_are_made_orthonormal(apart):
    torch.manual_seed(0)
    rows = torch.randn(1, 5000) + apart * torch.randn(8, 5000)
    rows *= torch.logspace(-6, 6, 8)[:, None]  # of lengths that differ
    q, triangle = block_lanczos._orthonormal(rows)
    torch.testing.assert_close(q @ q.T, torch.eye(8), atol=1e-2 if apart else 1e-5, rtol=0)
    torch.testing.assert_close(triangle, triangle.triu())
    again, _ = block_lanczos._orthonormal(q)
    products = again.double() @ again.double().T  # the check itself is not to round
    torch.testing.assert_close(products.float(), torch.eye(8), atol=2e-6, rtol=0)
    lengths = rows.norm(dim=1, keepdim=True)
    torch.testing.assert_close(triangle.float().T @ q / lengths, rows / lengths, atol=1e-5, rtol=0)


def test_neighbours_of_a_hub_are_not_ordered_to_see_that_they_are_many():
    component = component_of(star(2000))
    assert not component.factored_first
    assert "band" not in vars(component) and component.band >= 1000


def test_a_basis_is_orthonormal_and_knows_the_map_also_after_a_restart():
    component = component_of(power_law(6000, 3))
    look = Filter(component, 0.5, 6, single=True)
    basis = block_lanczos._KrylovBasis(component, 80, torch.randn(6000, 8))
    for _ in range(14):
        if basis.full:
            basis.keep(basis.ritz()[1][:, :16])
        basis.grow(look)
        count, known = basis.count, basis.rows[: basis.count + 8]
        torch.testing.assert_close(known @ known.T, torch.eye(len(known)), atol=1e-5, rtol=0)
        image = look(known[1:count].T.contiguous()).T  # (count - 1, N)
        expected = basis.inner[1:count, 1:count].float() @ known[1:count]
        expected[-8:] += basis.edge.T.float() @ known[count:]
        image -= (image @ known[0])[:, None] * known[0]  # the trivial vector is left out
        torch.testing.assert_close(image, expected, atol=1e-4 * image.norm(dim=1).max(), rtol=0)


@pytest.mark.parametrize("missed", [0, 4])
def test_what_was_passed_over_on_a_large_graph_grows(missed):
    component = component_of(power_law(6000, 3))
    vectors = laplacian_solvers._krylov(component, 17)
    values = laplacian_solvers.quality(component.matrix, component.trivial[:, 0].numpy(), vectors)[
        0
    ]
    assert laplacian_solvers._growth(component, values, vectors) < 2
    assert values[missed] < 0.98 * values[-1]
    values, vectors = np.delete(values, missed), np.delete(vectors, missed, axis=1)
    assert laplacian_solvers._growth(component, values, vectors) > 100


def test_a_basis_grows_where_nothing_is_left_to_grow_to():
    component = component_of(complete(60))
    start = torch.randn(60, 4)
    basis = block_lanczos._KrylovBasis(component, 40, start)
    for _ in range(6):  # S is a multiple of the identity on all but the trivial vector
        basis.grow(Filter(component, 0.0, 1, single=True))
    known = basis.rows[: basis.count + 4]
    torch.testing.assert_close(known @ known.T, torch.eye(len(known)), atol=1e-5, rtol=0)
    values, turn, residual = basis.ritz()
    torch.testing.assert_close(values, torch.full_like(values, 1 - 2 / 59), atol=1e-5, rtol=0)
    basis.keep(turn[:, :8])
    known = basis.rows[: basis.count + 4]
    torch.testing.assert_close(known @ known.T, torch.eye(len(known)), atol=1e-5, rtol=0)


def test_no_copy_of_a_multiple_eigenvalue_is_missed_on_a_large_torus():
    side, k = 60, 30
    place = np.arange(side * side).reshape(side, side)
    edges = [np.stack([place.ravel(), np.roll(place, 1, axis).ravel()], 1) for axis in (0, 1)]
    cosine = np.cos(2 * np.pi * np.arange(side) / side)
    expected = np.sort((1 - (cosine[:, None] + cosine) / 2).ravel())[1 : k + 1]
    report = laplacian_report(make(np.concatenate(edges), side * side), k=k)
    np.testing.assert_allclose(report["eigenvalues"], expected, atol=1e-9)


def test_no_copy_of_a_multiple_eigenvalue_is_missed_on_a_grid():
    from scipy.sparse import eye_array
    from scipy.sparse.linalg import eigsh

    graph = grid(100)
    begin = time.perf_counter()
    report = laplacian_report(graph, k=16)
    assert time.perf_counter() - begin < 10
    matrix = positional._normalised(positional._pattern(graph))
    start = np.random.default_rng(5).standard_normal(10_000)
    inverted = eigsh(
        (eye_array(10_000) - matrix).tocsc(), 30, sigma=-0.01, v0=start, return_eigenvectors=False
    )
    np.testing.assert_allclose(report["eigenvalues"], np.sort(inverted)[1:17], atol=1e-8)
    assert report["residual"] < 1e-6 and report["orthogonality"] < 1e-6 and report["missed"] < 2
    # The grid looks the same from both sides, hence pairs; this one a single vector overlooks.
    assert np.sum(np.abs(1 - np.array(report["eigenvalues"]) - 0.99600) < 5e-5) >= 2


def test_a_missed_copy_is_noticed(all_sparse, monkeypatch):
    graph = grid(30)
    right = laplacian_solvers._SOLVERS["chebyshev"]

    def careless(component, k):
        return np.delete(right(component, k + 1), 0, axis=1)

    monkeypatch.setattr(laplacian_solvers, "_SOLVERS", {"careless": careless, "chebyshev": right})
    assert laplacian_report(graph, k=8)["solvers"] == ["chebyshev"]
    monkeypatch.setattr(laplacian_solvers, "_SOLVERS", {"careless": careless})
    with pytest.raises(ZooError, match="careless: .*growth"):
        laplacian(graph, k=9)


def test_minesweeper_takes_seconds():
    files = [each / "minesweeper.npz" for each in FOLDERS if (each / "minesweeper.npz").is_file()]
    if not files:
        pytest.skip("minesweeper.npz is in none of the folders of ZOO_DATA")
    with np.load(files[0], allow_pickle=False) as stored:
        graph = make(stored["edges"], 10_000)
    begin = time.perf_counter()
    report = laplacian_report(graph, k=16)
    assert time.perf_counter() - begin < 5
    assert report["residual"] < 1e-5 and report["orthogonality"] < 1e-5 and report["missed"] < 2
    begin = time.perf_counter()
    laplacian(graph, k=16)
    assert time.perf_counter() - begin < 0.1


@pytest.mark.slow
def test_a_power_law_graph_of_20_000_nodes_takes_seconds():
    graph = power_law(20_000, 4)
    begin = time.perf_counter()
    report = laplacian_report(graph, k=16)
    assert time.perf_counter() - begin < 20
    assert report["residual"] < 1e-5 and report["missed"] < 2


@pytest.mark.slow
def test_a_path_too_long_for_the_first_solver():
    count = 50_000
    report = laplacian_report(path(count), k=16)
    expected = 1 - np.cos(np.pi * np.arange(1, 17) / (count - 1))
    np.testing.assert_allclose(report["eigenvalues"], expected, rtol=1e-4)


def test_many_small_components_are_pooled():
    count = 30_000
    graph = make([(i, i + 1) for i in range(count - 1) if i % 3 != 2], count)
    begin = time.perf_counter()
    report = laplacian_report(graph, k=4)
    assert time.perf_counter() - begin < 5
    assert report["components"] == count // 3
    x = laplacian(graph, k=4).numpy()
    for column in range(4):  # equal eigenvalues: the first components come first
        assert list(np.flatnonzero(np.abs(x[:, column]) > 1e-6)) == [3 * column, 3 * column + 2]


def test_large_and_small_components_together():
    graph = dgl.batch([grid(26), path(9), make([], 4), scattered(700, 2100), complete(4)])
    check_against_dense(graph, 24)
    assert laplacian_report(graph, k=24)["solvers"] == ["chebyshev"] * 2


def test_self_loops_duplicates_and_directions_do_not_matter():
    edges = torch.tensor([(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (4, 5)])
    plain = dgl.graph((edges[:, 0], edges[:, 1]))
    untidy = dgl.graph(
        (
            torch.cat([edges[:, 1], edges[:, 0], torch.tensor([2, 2, 0])]),
            torch.cat([edges[:, 0], edges[:, 1], torch.tensor([2, 3, 1])]),
        )
    )
    for encode in (laplacian, random_walk):
        assert torch.equal(encode(plain), encode(untidy))
    assert len(list(cache_folder().iterdir())) == 2  # they share their files


def test_renaming_nodes_renames_the_encodings():
    graph = power_law(700, 3)
    order = torch.from_numpy(np.random.default_rng(3).permutation(700))
    source, target = graph.edges()
    renamed = dgl.graph((order[source], order[target]), num_nodes=700)
    values = np.array(laplacian_report(graph, k=9)["eigenvalues"])
    assert np.diff(values).min() > 1e-4  # simple, or the basis would be free
    one, other = laplacian(graph, k=8), laplacian(renamed, k=8)
    torch.testing.assert_close(other[order], one, atol=1e-4, rtol=0)
    one, other = random_walk(graph), random_walk(renamed)
    torch.testing.assert_close(other[order], one)


@pytest.mark.parametrize("name", ["path", "cycle", "grid", "random", "many"])
def test_signs_are_canonical(name):
    for column in laplacian(SMALL[name], k=8).T:
        if column.any():
            assert column[column.abs() >= (1 - 0.99e-4) * column.abs().max()][0] > 0


@pytest.mark.slow
def test_another_process_computes_the_same_bytes(tmp_path):
    graph, program = dgl.batch([grid(26), power_law(600, 3), cycle(9)]), tmp_path / "program.py"
    np.save(tmp_path / "edges.npy", torch.stack(graph.edges()))
    program.write_text(
        "import numpy, torch; from zoo.dgl import dgl;"
        "from zoo.encodings import laplacian, random_walk;"
        f"edges = torch.from_numpy(numpy.load({str(tmp_path / 'edges.npy')!r}));"
        f"graph = dgl.graph((edges[0], edges[1]), num_nodes={graph.num_nodes()});"
        "print(*(each(graph).numpy().tobytes().hex() for each in (laplacian, random_walk)))"
    )
    done = run_preloaded([str(program)], tmp_path, ZOO_DATA=str(tmp_path / "other"))
    here = b"".join(encode(graph).numpy().tobytes() for encode in (laplacian, random_walk))
    assert bytes.fromhex(done.stdout) == here


def test_linear_algebra_uses_one_thread_whatever_it_may_use_elsewhere(monkeypatch):
    def counts():
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    def first_pairs(*arguments):
        seen.extend(counts())
        return solve(*arguments)

    seen, before, solve = [], counts(), positional.first_pairs
    monkeypatch.setattr(positional, "first_pairs", first_pairs)
    with threadpool_limits(2, user_api="blas"):
        laplacian(grid(26))
        assert set(counts()) == {2}
    assert seen and set(seen) == {1}
    assert counts() == before


def test_the_graph_and_the_global_generators_are_left_alone():
    graph = grid(26)
    torch.manual_seed(0), np.random.seed(0)
    expected = torch.rand(3), np.random.rand(3)
    torch.manual_seed(0), np.random.seed(0)
    threads = torch.get_num_threads()
    laplacian(graph), random_walk(graph, steps=3)
    assert torch.equal(torch.rand(3), expected[0])
    assert np.array_equal(np.random.rand(3), expected[1])
    assert torch.get_num_threads() == threads
    assert not graph.ndata and not graph.edata
    assert graph.num_edges() == grid(26).num_edges()


# The cache


@pytest.fixture
def counted(monkeypatch):
    """The list grows by one word each time that an encoding is computed."""
    calls = []
    for name in ("_solve", "_return_probabilities"):
        compute = getattr(positional, name)
        monkeypatch.setattr(
            positional, name, lambda *a, f=compute, n=name: (calls.append(n), f(*a))[1]
        )
    return calls


@pytest.mark.parametrize("encode, option", [(laplacian, "k"), (random_walk, "steps")])
def test_the_second_call_reads_and_anything_else_computes(encode, option, counted):
    first = encode(path(20), **{option: 3})
    assert torch.equal(encode(path(20), **{option: 3}), first) and len(counted) == 1
    encode(path(20), **{option: 4})
    assert len(counted) == 2
    encode(cycle(20), **{option: 3})
    assert len(counted) == 3
    encode(make([(i, i + 1) for i in range(19)], 21), **{option: 3})  # an isolated node more
    assert len(counted) == 4


def test_the_second_call_does_no_eigensolve(monkeypatch):
    graph = grid(30)
    first = laplacian(graph)

    def refuse(*_):
        raise AssertionError("an eigensolve")

    monkeypatch.setattr(laplacian_solvers, "_SOLVERS", {"refuse": refuse})
    assert torch.equal(laplacian(graph), first)
    assert laplacian_report(graph)["solvers"] == ["chebyshev"]


def _truncate(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _flip_a_bit(file):
    content = bytearray(file.read_bytes())
    content[400] ^= 4  # within the numbers of the first array
    file.write_bytes(content)


def _empty(file):
    file.write_bytes(b"")


def _other_shape(file):
    np.savez(file, encoding=np.zeros((3, 3), np.float32))


def _not_a_number(file):
    np.savez(file, encoding=np.full((20, 5), np.nan, np.float32))


def _pickled(file):
    np.savez(file, encoding=np.array([[{}] * 5] * 20))


@pytest.mark.parametrize(
    "damage", [_truncate, _flip_a_bit, _empty, _other_shape, _not_a_number, _pickled]
)
@pytest.mark.parametrize("encode", [laplacian, random_walk])
def test_a_damaged_file_is_replaced(encode, damage, counted):
    option = {"k": 5} if encode is laplacian else {"steps": 5}
    first = encode(path(20), **option)
    (file,) = cache_folder().iterdir()
    damage(file)
    assert torch.equal(encode(path(20), **option), first) and len(counted) == 2
    assert torch.equal(encode(path(20), **option), first) and len(counted) == 2
    assert list(cache_folder().iterdir()) == [file]


def test_no_half_written_file_is_left(monkeypatch):
    def half(draft, **_):
        Path(draft).write_bytes(b"half")
        raise OSError("the disk is full")

    monkeypatch.setattr(np, "savez", half)
    laplacian(path(5))
    assert list(cache_folder().iterdir()) == []


def test_a_folder_that_cannot_be_written_is_a_warning(monkeypatch, tmp_path, caplog):
    (tmp_path / "file").write_text("where a folder should be")
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "file"))
    assert laplacian(path(5), k=2).shape == (5, 2)
    assert "not kept" in caplog.text


# Failing solvers


def test_the_next_solver_takes_over(all_sparse, monkeypatch, caplog):
    for forced, expected in [
        ({"chebyshev"}, "shift_invert"),
        ({"chebyshev", "shift_invert"}, "lanczos"),
    ]:

        def fail(*_):
            raise RuntimeError("forced")

        solvers = {n: fail if n in forced else f for n, f in laplacian_solvers._SOLVERS.items()}
        with monkeypatch.context() as patch:
            patch.setattr(laplacian_solvers, "_SOLVERS", solvers)
            patch.setattr(positional, "VERSION", expected)
            check_against_dense(grid(10), 6)
            assert laplacian_report(grid(10), k=6)["solvers"] == [expected]
    assert "chebyshev: forced" in caplog.text


def _rough(vectors):
    return vectors + 1e-4 * np.cos(np.arange(vectors.size)).reshape(vectors.shape)


def _skewed(vectors):
    return np.column_stack([vectors[:, 0], vectors[:, :-1]])


def _undefined(vectors):
    return vectors * np.nan


@pytest.mark.parametrize(
    "spoil, word",
    [(_rough, "residual"), (_skewed, "orthogonality"), (_undefined, "not finite")],
)
def test_a_bad_result_is_not_accepted(spoil, word, all_sparse, monkeypatch, caplog):
    right = laplacian_solvers._chebyshev
    monkeypatch.setattr(
        laplacian_solvers, "_SOLVERS", {"spoilt": lambda *a: spoil(right(*a)), "chebyshev": right}
    )
    assert laplacian_report(power_law(90, 3), k=4)["solvers"] == ["chebyshev"]
    assert "spoilt: " in caplog.text and word in caplog.text


def test_the_error_names_the_graph_and_every_solver(all_sparse, monkeypatch):
    monkeypatch.setattr(laplacian_solvers, "STEPS", 3)
    monkeypatch.setattr(laplacian_solvers, "_BAND", 3)

    def lanczos(*_):
        raise MemoryError("no memory")

    monkeypatch.setitem(laplacian_solvers._SOLVERS, "lanczos", lanczos)
    with pytest.raises(ZooError) as error:
        laplacian(grid(10), k=6)
    for word in (
        "100 nodes",
        "180 edges",
        "k=6",
        "chebyshev: ",
        "shift_invert: ",
        "lanczos: no mem",
    ):
        assert word in str(error.value)
    assert "smaller k" in str(error.value)


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "4"])
def test_options_are_whole_numbers_from_one(value):
    with pytest.raises(ZooError, match="k: "):
        laplacian(path(4), k=value)
    with pytest.raises(ZooError, match="steps: "):
        random_walk(path(4), steps=value)


# The random walk, the table and the signs


@pytest.mark.parametrize("width", ["sparse", 1, 7, 64])
@pytest.mark.parametrize("steps", [1, 2, 5, 16])
@pytest.mark.parametrize("name", SMALL)
def test_random_walk_is_the_dense_formula(name, steps, width, monkeypatch):
    if width == "sparse":
        monkeypatch.setattr(positional, "_ROWS", 5)
        monkeypatch.setattr(positional, "_FULL", (1, 4096))
    else:
        monkeypatch.setattr(positional, "_WIDTH", width)
        monkeypatch.setattr(positional, "_FULL", (0, 0))
    matrix = dense_adjacency(SMALL[name])
    walk = matrix / np.maximum(matrix.sum(0), 1)
    power, expected = np.eye(len(walk)), []
    for _ in range(steps):
        power = power @ walk
        expected.append(np.diag(power))
    found = random_walk(SMALL[name], steps=steps)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), np.stack(expected, 1), atol=1e-6, rtol=1e-5)


def test_random_walk_stays_sparse_where_rows_do(monkeypatch):
    monkeypatch.delattr(positional, "_from_dense_columns")
    x = random_walk(cycle(3000), steps=4)
    torch.testing.assert_close(x, torch.tensor([[0, 0.5, 0, 0.375]]).expand(3000, 4))


def test_random_walk_does_not_run_into_a_hub(monkeypatch):
    monkeypatch.setattr(positional, "_PATHS", 1000)
    monkeypatch.setattr(positional, "_FULL", (1, 4096))
    graph, largest, product = star(600), [], positional.sparse.csr_array.__matmul__

    def noted(x, y):
        largest.append((out := product(x, y)).nnz)
        return out

    monkeypatch.setattr(positional.sparse.csr_array, "__matmul__", noted)
    x = random_walk(graph, steps=4)
    assert max(largest, default=0) <= 1200  # and not 600 x 600
    torch.testing.assert_close(x[0], torch.tensor([0.0, 1, 0, 1]))


def test_random_walk_stores_no_square_matrix(monkeypatch):
    monkeypatch.setattr(positional, "_FULL", (0, 0))
    graph, largest, zeros = cycle(3000), [], torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *s: (largest.append(np.prod(s)), zeros(*s))[1])
    random_walk(graph, steps=6)
    assert 100 < max(largest) < 100 * 200  # a block of columns, and only the rows in its reach


def test_recipes_pick_encodings_by_word():
    graph = path(6)
    assert pick(ENCODINGS, "none", graph).shape == (6, 0)
    assert pick(ENCODINGS, "laplacian", graph).shape == (6, 16)
    assert pick(ENCODINGS, {"name": "laplacian", "k": 3}, graph).shape == (6, 3)
    assert pick(ENCODINGS, {"name": "random_walk", "steps": 2}, graph).shape == (6, 2)
    with pytest.raises(ZooError, match="steps"):
        pick(ENCODINGS, {"name": "laplacian", "steps": 2}, graph)


def test_empty_graph():
    graph = dgl.graph(([], []), num_nodes=0)
    for word, columns in {"none": 0, "laplacian": 16, "random_walk": 16}.items():
        assert pick(ENCODINGS, word, graph).shape == (0, columns)


SET = [path(5), scattered(9, 6), make([], 3), cycle(4), complete(6), path(5), star(70), grid(4)]


@pytest.mark.parametrize("graph", [grid(4), star(30), scattered(60, 90), make([(0, 1)], 3)])
def test_eigenpairs_are_eigenvectors_times_the_root_of_the_size_and_their_eigenvalues(graph):
    pairs, report = signnet(graph, k=5), laplacian_report(graph, k=5)
    count, known = graph.num_nodes(), len(report["eigenvalues"])
    scaled = laplacian(graph, k=5) * count**0.5
    torch.testing.assert_close(pairs[:, :5], scaled)
    assert (pairs[:, 5:] == pairs[:1, 5:]).all() and not pairs[:, 5 + known :].any()
    expected = torch.tensor(report["eigenvalues"], dtype=torch.float32)
    torch.testing.assert_close(pairs[0, 5 : 5 + known], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["signnet", "spe"])
def test_eigenpairs_of_many_graphs_are_those_of_each(name):
    encode = Encoder({"name": name, "k": 5})
    torch.testing.assert_close(encode.of_each(SET), torch.cat([*map(encode, SET)]), rtol=0, atol=0)


def test_degrees_count_neighbours_without_the_node_itself():
    graph = dgl.add_self_loop(dgl.graph(([0, 0, 1], [1, 2, 2]), num_nodes=4))
    into, out = [0, 1, 2, 0], [2, 1, 0, 0]
    expected = torch.tensor([into, out]).T.float().add(1).log()
    torch.testing.assert_close(positional.degree(graph), expected)
    one_hot = positional.degree(graph, one_hot=1)
    rows = [[i == 0, i > 0, o == 0, o > 0] for i, o in zip(into, out, strict=True)]
    assert torch.equal(one_hot, torch.tensor(rows).float())
    with pytest.raises(ZooError, match="one_hot"):
        positional.degree(graph, one_hot=0)


def test_flip_signs_flips_only_the_last_columns_and_uses_both_signs():
    x = torch.rand(5, 7) + 1
    kept, seen = x.clone(), set()
    for _ in range(200):
        y = flip_signs(x, 3)
        assert torch.equal(y[:, :4], x[:, :4]) and torch.equal(y.abs(), x)
        signs = y[:, 4:].sign()
        assert (signs == signs[0]).all()  # one draw per column
        seen.add(tuple(signs[0].tolist()))
    assert len(seen) == 8
    assert torch.equal(x, kept)
    assert torch.equal(flip_signs(x, 0), x)
    torch.manual_seed(1)
    first = flip_signs(x, 3)
    torch.manual_seed(1)
    assert torch.equal(flip_signs(x, 3), first)


@zoo.testing.promises(each for word in ENCODINGS for each in encoding_promises(word))
def test_encoding(promise):
    promise()


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_data_set_stands_for_its_graph(name):
    data = load_graph({"name": "sbm", "nodes": 40, "classes": 2})
    encode = ENCODINGS[name]
    assert torch.equal(encode(data), encode(data.graph))


@pytest.mark.parametrize("spec", [{"name": "laplacian", "k": 5}, {"name": "laplacian", "k": 40}])
def test_eigenvectors_of_many_graphs_are_those_of_each(spec):
    encode = Encoder(spec)
    torch.testing.assert_close(encode.of_each(SET), torch.cat([*map(encode, SET)]), rtol=0, atol=0)


@pytest.mark.parametrize("steps", [1, 7, 16])
def test_walks_on_many_graphs_are_those_on_each(steps):
    encode = Encoder({"name": "random_walk", "steps": steps})
    torch.testing.assert_close(
        encode.of_each(SET), torch.cat([*map(encode, SET)]), rtol=1e-5, atol=1e-7
    )


def test_sparse_solvers_take_each_component_of_many_graphs(all_sparse):
    encode = Encoder({"name": "laplacian", "k": 3})
    graphs = [scattered(60, 90), grid(8), scattered(60, 90, seed=1)]
    assert torch.equal(encode.of_each(graphs), torch.cat([*map(encode, graphs)]))


def test_many_graphs_are_one_file_and_cut_elsewhere_another(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    encode = Encoder({"name": "laplacian", "k": 2})
    apart = encode.of_each([path(4), path(3)])
    together = encode.of_each([make([(0, 1), (1, 2), (2, 3), (4, 5), (5, 6)], 7), path(1)])
    assert len([*(tmp_path / "cache").iterdir()]) == 2 and not torch.equal(apart, together[:-1])
    monkeypatch.setattr(positional, "_solve_each", None)  # read from there
    assert torch.equal(encode.of_each([path(4), path(3)]), apart)


def test_an_encoding_of_ones_own_is_computed_of_each_graph():
    encode = Encoder("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENCODINGS, "own", lambda graph: graph.in_degrees().float().unsqueeze(1))
        graphs = [path(3), star(4)]
        degrees = torch.cat([graph.in_degrees() for graph in graphs])
        assert torch.equal(encode.of_each(graphs).squeeze(1), degrees.float())
    with pytest.raises(ZooError, match="own"):
        encode.of_each([path(3), star(4)])
