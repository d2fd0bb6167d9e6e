"""The energy of DIFFormer: slow twins, the theorem where it holds, and where it has to fail."""

import math

import difformer_energy as energy
import diffusion
import energy_theorem
import pytest
import torch
from diffusion import DIFFUSIVITIES, Bound, diffuse, energy_of, normalised
from energy_theorem import Falls, on_sphere
from study import write_study

from zoo import ZooError, create_model, load_data
from zoo.nn import gcn

KINDS = list(DIFFUSIVITIES)

SLOW = {  # delta and f as they are in the paper's terms, of one distance
    "DIFFormer-s": (lambda d: 2 * d - d**2 / 4, lambda d: 2 - d / 2),
    "DIFFormer-a": (
        lambda d: d - 2 * math.log((1 + math.exp(d / 2 - 1)) / (1 + math.exp(-1))),
        lambda d: 1 / (1 + math.exp(d / 2 - 1)),
    ),
}


@pytest.fixture(scope="module")
def graph():
    return load_data("karate").graph


def in_the_ball(nodes, scale=1.0):
    return scale * torch.rand(nodes, 1, dtype=torch.double) * on_sphere(nodes)


def agrees(study):
    return [row.name for row in study.rows if not row.agrees] == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("linked", [False, True])
def test_the_energy_is_that_of_a_slow_loop(kind, linked):
    states, before = in_the_ball(7), in_the_ball(7)
    adjacency = torch.triu(torch.rand(7, 7, dtype=torch.double).round())
    adjacency = (adjacency + adjacency.T + torch.eye(7)).clamp(max=1)
    potential, slope = SLOW[kind]

    def d(i, j):
        return sum(
            (a - b) ** 2 for a, b in zip(states[i].tolist(), states[j].tolist(), strict=True)
        )

    pairs = [(i, j) for i in range(7) for j in range(7)]
    mass = sum(slope(d(i, j)) for i, j in pairs) / 7
    strength = 0.7 / mass
    link = mass / (adjacency.sum().item() / 7) if linked else 0.0
    total = sum(
        (a - b) ** 2
        for a, b in zip(states.flatten().tolist(), before.flatten().tolist(), strict=True)
    )
    for i, j in pairs:
        total += strength * (potential(d(i, j)) + link * adjacency[i, j].item() * d(i, j))
    found = energy_of(states, DIFFUSIVITIES[kind], 0.7, adjacency if linked else None)
    assert abs(found(states, before) - total) < 1e-10 * total


@pytest.mark.parametrize("kind", KINDS)
def test_diffusivities_are_the_derivatives_of_concave_potentials(kind):
    of = DIFFUSIVITIES[kind]
    d = torch.linspace(0, 4, 401, dtype=torch.double, requires_grad=True)
    (slope,) = torch.autograd.grad(of.potential(d).sum(), d)
    torch.testing.assert_close(slope, of.slope(d).detach(), rtol=1e-12, atol=1e-12)
    assert (slope >= 0).all() and (slope.diff() <= 0).all()
    small = torch.tensor([1e-14], dtype=torch.double)
    torch.testing.assert_close(of.potential(small), small * of.slope(small), rtol=1e-10, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_that_of_a_slow_loop(kind):
    z, tau = in_the_ball(6), 0.3
    f = SLOW[kind][1]
    weights = [[f((a - b).square().sum().item()) for b in z] for a in z]
    expected = []
    for i in range(6):
        s = [each / sum(weights[i]) for each in weights[i]]
        expected.append((1 - tau * sum(s)) * z[i] + tau * sum(s[j] * z[j] for j in range(6)))
    found = energy_of(z, DIFFUSIVITIES[kind], 1.0)
    torch.testing.assert_close(
        diffuse(z, normalised(found.weights(z)), tau), torch.stack(expected), rtol=1e-10, atol=1e-12
    )


def test_lifted_states_have_products_that_are_distances():
    z = in_the_ball(9, scale=3.0)
    q, k = diffusion.lift(z)
    torch.testing.assert_close(q @ k.T, 1 - diffusion.squared_distances(z) / 2)


def test_the_energy_falls_where_the_theorem_says_so(graph):
    study = energy_theorem.theorem(graph, steps=(0.1, 0.5, 1.0), seeds=3, layers=6)
    assert agrees(study)
    assert [row["falls at"] for row in study.table] == ["all"] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_steps_beyond_what_is_allowed_raise_it(graph, kind):
    near = 1e-3 * on_sphere(34) + 0.2
    found = energy_of(near, DIFFUSIVITIES[kind], 1.0)
    weights = found.weights(near)
    largest, s = Bound.of(found, weights).largest, normalised(weights)
    for factor, rises in ((0.99, False), (1.01, True)):
        after = diffuse(near, s, factor * largest)
        assert (found(after, near) > found(near, near)) == rises
    far = energy_theorem.theorem(graph, steps=(0.5, 2.4), seeds=2, layers=3)
    assert [row["falls at"] for row in far.table] == ["0.5"] * 4


def test_a_lambda_can_be_too_small_for_a_step_below_one():
    states = on_sphere(20)
    for strength, rises in ((0.02, True), (2.0, False)):
        found = energy_of(states, DIFFUSIVITIES["DIFFormer-s"], strength)
        after = diffuse(states, normalised(found.weights(states)), 0.9)
        assert (found(after, states) > found(states, states)) == rises


def test_a_potential_that_is_not_concave_breaks_the_promise(graph, monkeypatch):
    """Weights that grow with the distance: its tangents are below the potential."""
    convex = DIFFUSIVITIES["DIFFormer-s"]._replace(
        potential=lambda d: d**3 / 3, slope=lambda d: d.square()
    )
    monkeypatch.setitem(DIFFUSIVITIES, "DIFFormer-s", convex)
    assert not agrees(energy_theorem.theorem(graph, steps=(0.5, 0.9), seeds=3, layers=2))


def test_the_largest_steps_are_those_that_are_predicted(graph):
    assert agrees(energy_theorem.limits(graph, strengths=(0.2, 2.0), seeds=3))


def test_layers_are_diffusion_steps(graph):
    wrong = [row for row in diffusion.unified_view(graph) if not row.agrees]
    assert not wrong


def test_layers_of_another_graph_are_not(graph, monkeypatch):
    monkeypatch.setattr(
        diffusion, "adjacency_of", lambda graph: torch.ones(34, 34, dtype=torch.double)
    )
    wrong = [row.name for row in diffusion.unified_view(graph) if not row.agrees]
    assert len(wrong) == 3 and not any("DIFFormer" in name for name in wrong)


def test_gcn_is_no_step_on_its_own_states(graph):
    """The difference is what the rows of its matrix lack to a sum of one."""
    x = torch.randn(34, 5, dtype=torch.double)
    adjacency = diffusion.adjacency_of(graph)
    scale = adjacency.sum(1).rsqrt()
    s = scale[:, None] * adjacency * scale
    apart = diffuse(x, s, 1.0) - gcn(graph, x)
    torch.testing.assert_close(apart, (1 - s.sum(1, keepdim=True)) * x)
    assert apart.abs().max() > 0.1


def test_the_published_norm_makes_the_attention_nearly_the_mean(monkeypatch):
    data = load_data("karate")
    assert energy.nearly_the_mean(data).agrees
    monkeypatch.setattr(
        energy, "create_model", lambda *sizes, **own: create_model(*sizes, **{**own, "alpha": 0.9})
    )
    assert not energy.nearly_the_mean(data).agrees  # a tenth of the way is missing


def test_what_a_model_adds_raises_the_energy():
    study = energy.additions(load_data("karate"), alphas=[0.5], seeds=2, layers=4)
    falls = {(row["setting"], row["diffusivity"]): row["falls at"] for row in study.table}
    for kind in KINDS:
        assert falls["maps of q and k", kind] == "all"
        assert falls["layer norm", kind] == falls["graph added", kind] == "none"


def test_layers_that_rise_and_step_sizes_that_fall():
    found = Falls("a", "b", {0.1: [[0.9, 0.8], [0.9]], 0.5: [[0.9, 1.1], [1.2]], 1.0: [[2.0]] * 2})
    assert found.rising(0.5) == [1, 2] and found.rising(0.1) == []
    assert found.worst(0.5) == [1.1, 1.2]
    assert found.line()["falls at"] == "0.1" and found.line()["rises at 0.5"] == "1, 2"


def test_levels_stop_at_consensus():
    assert energy_theorem.growth([2.0, 1.0, 4.0, 1e-30, 5.0]) == [0.5, 4.0, 2.5e-31]


def test_a_graph_of_too_many_pairs_is_refused(monkeypatch):
    monkeypatch.setattr(energy, "LARGEST", 1000)
    with pytest.raises(ZooError, match="digits has 1,797 nodes.*at most 1,000 nodes"):
        energy.difformer_energy(dataset="digits")


def test_pairs_of_sentences_are_no_graph(monkeypatch):
    monkeypatch.setattr(energy, "load_data", lambda name: object())
    with pytest.raises(ZooError, match="multi30k-en-de is not one graph"):
        energy.difformer_energy(dataset="multi30k-en-de")


@pytest.mark.slow
def test_the_whole_study(tmp_path):
    study = energy.difformer_energy(quick=True, layers=4)
    assert agrees(study) and len(study.plots) == 6
    assert {row["setting"] for row in study.table} >= set(energy.PARTS) | {"theorem"}
    written = write_study(study, tmp_path)
    assert len(written) == 4
    lines = (tmp_path / "difformer-energy-lines.csv").read_text().splitlines()
    assert lines[0] == "plot,x is,line,x,y,margin" and len(lines[1].split(",")) >= 6
