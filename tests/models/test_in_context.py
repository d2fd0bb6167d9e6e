"""Predictors without training, and AnyGraph on top of them, beside their equations."""

import math
from contextlib import nullcontext

import pytest
import torch
from pretended_cuda import pretended_cuda
from scipy import optimize
from sklearn import ensemble
from torch.nn import functional

import zoo
from zoo.graphs.examples import batch, preferential_attachment, renamed
from zoo.graphs.spmm import place
from zoo.models.graphany import FILTERS, distances
from zoo.nn import label_stem as tokens_of
from zoo.nn.closed_form import labels_of, neighbour_mean, ridge
from zoo.nn.label_stem import CHANNELS, TOKEN, _confident, label_tokens, summarised
from zoo.nn.propagation import gcn

NODES = 150
NAMES = zoo.list_models(context=True)


@pytest.fixture
def graph():
    return preferential_attachment(NODES, 3)


@pytest.fixture
def x():
    torch.manual_seed(3)
    return torch.randn(NODES, 7)


@pytest.fixture
def context(x):
    """Classes that the features tell, of a third of the nodes."""
    y = (x @ torch.randn(7, 3)).argmax(1)
    return torch.where(torch.rand(NODES) < 1 / 3, y, -1)


def model_of(name, outputs=3, **options):
    torch.manual_seed(5)
    return zoo.create_model(name, 7, outputs, **options).eval()


@pytest.mark.parametrize("most", [2**26, 4 * NODES])
def test_surroundings_do_not_depend_on_the_order_of_columns(most, graph, x, monkeypatch):
    """By their distances; of a large graph the first principal components are left."""
    monkeypatch.setattr(tokens_of, "KEPT", most)
    x = x * 3.0 ** -torch.arange(7)
    one, other = (tokens_of.surroundings(graph, each) for each in (x, x.flip(1)))
    assert one.shape[1] == 3 * min(7, most // NODES) + tokens_of.OF_DEGREES
    torch.testing.assert_close(functional.pdist(one), functional.pdist(other), rtol=0.01, atol=0.01)


def shipped(outputs):
    """AnyGraph with the weights that come with the zoo."""
    weights = zoo.load("anygraph")
    model = model_of(
        "anygraph", outputs, **{key: weights.config[key] for key in ("dim", "dropout")}
    )
    model.load_state_dict(weights.state_dict())
    return model


def trained(model):
    """A model whose weights are no longer those of its beginning."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model


@pytest.mark.parametrize("name", [each for each in NAMES if each != "boosting"])
def test_a_gpu_gives_the_answers_of_the_cpu(name):
    """Of more nodes and columns than are summarised, which takes random numbers."""
    torch.manual_seed(5)
    graph = preferential_attachment(tokens_of.COMPONENTS + 44, 3)
    x = torch.randn(graph.num_nodes(), tokens_of.COMPONENTS + 44)
    y = (x @ torch.randn(x.shape[1], 3)).argmax(1)
    context = torch.where(torch.rand(len(y)) < 1 / 3, y, -1)
    model = zoo.create_model(name, x.shape[1], 3).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
        expected = model(graph, x, context)[0]
        with nullcontext() if torch.cuda.is_available() else pretended_cuda():
            found = model.to("cuda")(place(graph, "cuda"), x.to("cuda"), context.to("cuda"))[0]
            found = found.cpu()
    # What is taken for a label next may turn on the last digit, which of a GPU is another.
    assert (found - expected).abs().quantile(0.95) < 1e-3


def test_those_that_are_given_labels_are_known():
    assert NAMES == ["anygraph", "boosting", "graphany", "label-propagation", "ridge"]
    assert all(zoo.MODELS[name].any_graph for name in NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "boosting"])  # which has ties
def test_the_order_of_columns_does_not_count(name, graph, x, context):
    model, order = trained(model_of(name)), torch.randperm(7)
    before, after = (model(graph, each, context).logits for each in (x, x[:, order]))
    torch.testing.assert_close(after, before, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_other_names_of_classes_are_other_places_of_the_same_logits(name, graph, x, context):
    model, order = trained(model_of(name)), torch.tensor([2, 0, 1])
    renamed_classes = torch.where(context >= 0, order[context.clamp(min=0)], -1)
    before = model(graph, x, context).logits
    after = model(graph, x, renamed_classes).logits[:, order]
    torch.testing.assert_close(after, before, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["ridge", "label-propagation", "anygraph", "boosting"])
def test_a_class_that_nobody_has_is_not_the_answer(name, graph, x, context):
    """One class more than there are labels of."""
    logits = model_of(name, 4)(graph, x, context).logits
    assert (logits.argmax(1) != 3).all()


@pytest.mark.parametrize("name", ["ridge", "label-propagation", "anygraph", "boosting"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_numbers_are_answered_in_their_place(name, outputs, graph, x):
    """Better than their mean, for one target and for two."""
    smooth = gcn(graph, gcn(graph, x @ torch.randn(7, outputs)))
    known = torch.rand(NODES, 1) < 0.5
    given = torch.where(known, smooth, torch.nan)
    answered = model_of(name, outputs)(graph, x, given).logits[~known[:, 0]]
    wanted = smooth[~known[:, 0]]
    assert (answered - wanted).square().mean() < (wanted - wanted.mean(0)).square().mean()


@pytest.mark.parametrize("outputs", [1, 3])
def test_untrained_it_is_the_mean_of_ridges(outputs, graph, x, context):
    given = context.clamp(max=1) if outputs == 1 else context
    one, other = (model_of(name, outputs)(graph, x, given).logits for name in ("anygraph", "ridge"))
    torch.testing.assert_close(one, other)


def test_with_one_label_of_each_class_the_mean_of_predictors_answers(graph, x, context):
    """Nothing says then what they are worth, and the network is not asked."""
    model, few = shipped(3), torch.full_like(context, -1)
    for number in range(3):
        few[(context == number).nonzero()[0]] = number
    said = label_tokens(graph, x, labels_of(few, 3), classes=True)
    answers = model(graph, x, few).logits.argmax(1)
    assert torch.equal(answers, said.mix.argmax(1))


def test_shipped_weights_answer_numbers_by_the_mean_of_predictors(graph, x):
    """They were trained on classes alone: what is learnt there is no answer here."""
    given = torch.where(torch.rand(NODES) < 0.5, gcn(graph, x)[:, 0], torch.nan)
    said = label_tokens(graph, x, labels_of(given, 1), classes=False)
    torch.testing.assert_close(shipped(1)(graph, x, given).logits, said.mix)


@pytest.mark.parametrize(
    "body",
    [
        {"name": "sgformer", "dim": 16},
        {"name": "graphgps", "dim": 16, "attention": {"name": "rba", "size": 32}},
        {"name": "gcn", "dim": 8},
    ],
    ids=lambda body: body["name"],
)
def test_any_model_may_be_its_body(body, graph, x, context, tmp_path):
    model = model_of("anygraph", body=body)
    torch.testing.assert_close(
        model(graph, x, context).logits, model_of("ridge")(graph, x, context).logits
    )
    output = trained(model).train()(graph, x, context)
    (output.logits.square().mean() + output.penalty).backward()
    assert all(weight.grad is not None for weight in model.parameters())
    zoo.save(model, tmp_path)
    again = zoo.load(tmp_path)
    torch.testing.assert_close(
        again(graph, x, context).logits, model.eval()(graph, x, context).logits
    )


def test_what_is_no_body_is_refused():
    for body in ("ridge", {"name": "gnc"}, {"name": "gcn", "width": 3}):
        with pytest.raises(zoo.ZooError):
            model_of("anygraph", body=body)


def test_skill_is_not_believed_of_chance(graph):
    """Labels that nothing tells: of no predictor is the skill far above 0, self-taught or not."""
    skills = []
    for seed in range(6):
        torch.manual_seed(seed)
        labels = labels_of(torch.randint(3, (NODES,)), 3)
        _, held_out = tokens_of._predictions(graph, torch.randn(NODES, 7), labels, True)
        skills.append(tokens_of._skills(graph, labels, held_out, True)[0])
    assert torch.stack(skills).mean(0).max() < 0.1


def test_a_held_out_answer_does_not_know_its_own_label(graph, x, context):
    """Another label of one node changes what is said of it without itself by no more than means."""
    labels = labels_of(context, 3)
    node = int(labels.known.nonzero()[0])
    other = context.clone()
    other[node] = (context[node] + 1) % 3
    before, after = (
        tokens_of._predictions(graph, x, labels_of(each, 3), True)[1][:, node]
        for each in (context, other)
    )
    own = int(context[node])
    gained = before[:, own] - after[:, own]
    assert gained.abs().max() < 0.2, gained  # a leak is near 1


@pytest.mark.parametrize("labels", [20, 2_000])
def test_predictors_are_stacked_by_the_best_weights(labels):
    """Beside a minimum without slopes; 20 labels teach next to nothing, 2,000 what is noise."""
    torch.manual_seed(0)
    truth = torch.randint(3, (labels,))
    noise = torch.randn(4, labels, 3)
    said = (
        noise + torch.tensor([2.0, 1, 0, 0])[:, None, None] * functional.one_hot(truth, 3)
    ).permute(1, 2, 0)
    first = torch.full((4,), 0.5)
    weights, shift = tokens_of._stack(said, truth, first)
    penalty = max(tokens_of.LEAST_PENALTY, tokens_of.STACK_PENALTY / labels) / 2

    def loss(both):
        own = torch.from_numpy(both)
        error = functional.cross_entropy(said.double() @ own[:4] + own[4:], truth, reduction="sum")
        return float(error + penalty * ((own[:4] - first).square().sum() + own[4:].square().sum()))

    least = optimize.minimize(loss, [0.5] * 4 + [0.0] * 3, options={"gtol": 1e-4}).x
    torch.testing.assert_close(
        torch.cat([weights, shift]), torch.tensor(least).float(), atol=1e-3, rtol=1e-2
    )
    assert abs(shift.sum()) < 1e-3
    if labels == 20:
        assert (weights - first).abs().max() < 0.1
    else:
        assert weights[0] > 1.5 and weights[2:].abs().max() < 0.2


def test_each_graph_of_a_batch_has_weights_of_its_own(graph, x, context):
    """The second, of which no class has two labels, keeps those of its skill."""
    few = torch.full_like(context, -1)
    few[:3] = torch.arange(3)
    both, labels = batch([graph, graph]), labels_of(torch.cat([context, few]), 3)
    _, held_out = tokens_of._predictions(both, torch.cat([x, x]), labels, True)
    judged, first = torch.arange(2 * NODES) < NODES, torch.full((2 * NODES, CHANNELS), 0.1)
    weights, shift = tokens_of._stacked(both, labels, held_out, first, judged)
    assert (weights[:NODES] == weights[0]).all() and (weights[0] - first[0]).abs().max() > 0.01
    assert torch.equal(weights[NODES:], first[NODES:]) and not shift[NODES:].any()


def test_tokens_have_their_parts(graph, x, context):
    found = label_tokens(graph, x, labels_of(context, 3), classes=True)
    assert found.tokens.shape == (NODES, 3, TOKEN) and TOKEN == 2 * CHANNELS + 3
    assert found.tokens.isfinite().all()


def test_the_most_confident_of_each_class_are_taken(graph):
    answers = torch.randn(NODES, 3)
    chosen = _confident(graph, answers, 0.25)
    sure, answer = answers.softmax(1).max(1)
    for number in range(3):
        own = (answer == number).nonzero().squeeze(1)
        best = own[sure[own].argsort(descending=True)][: math.ceil(0.25 * len(own))]
        assert set(best.tolist()) == set(chosen[:, number].nonzero().squeeze(1).tolist())
    assert (chosen.sum(1) <= 1).all()


def test_wide_features_are_summarised_by_their_principal_components(graph):
    """As many products of pairs as the best approximation of that rank has."""
    torch.manual_seed(0)
    wide = torch.randn(NODES, 20) @ torch.randn(20, 600) + 0.01 * torch.randn(NODES, 600)
    summary = summarised(graph, wide)
    assert summary is summarised(graph, wide)
    unit = wide / wide.norm(dim=1, keepdim=True)
    parts = tokens_of._components(wide)
    torch.testing.assert_close(parts @ parts.mT, unit @ unit.mT, rtol=1e-2, atol=1e-3)
    order = torch.randperm(NODES)
    again = summarised(renamed(graph, order), wide[order])
    torch.testing.assert_close(again @ again.mT, (summary @ summary.mT)[order][:, order],
                               rtol=1e-2, atol=1e-2)  # fmt: skip


def test_label_propagation_is_its_sum(graph, context):
    """Powers of A in full, and of no label near by the shares of all."""
    labels = labels_of(context, 3)
    matrix = gcn(graph, torch.eye(NODES))
    walked = (
        sum(0.1 * 0.9**k * torch.linalg.matrix_power(matrix, k) @ labels.targets for k in range(20))
        + 0.9**20 * torch.linalg.matrix_power(matrix, 20) @ labels.targets
    )
    model = model_of("label-propagation")
    found = model(graph, torch.randn(NODES, 7), context).logits.softmax(1)
    wanted = walked + 1e-3 * labels.targets[labels.known].mean(0)
    torch.testing.assert_close(found, wanted / wanted.sum(1, keepdim=True), rtol=1e-3, atol=1e-4)


def test_distances_of_graphany_have_their_entropy():
    answers = torch.randn(20, 5, 4)
    for bits in (0.5, 1.0, 1.5):
        shares = distances(answers, bits).view(20, 5, 4)
        torch.testing.assert_close(shares.sum(-1), torch.ones(20, 5))
        entropy = torch.special.entr(shares).sum(-1) / math.log(2)
        torch.testing.assert_close(entropy, torch.full((20, 5), bits), rtol=1e-3, atol=1e-3)
    alike = distances(torch.zeros(2, 5, 4), 1.0)
    assert alike.isfinite().all()


def test_graphany_mixes_least_squares_fits(graph, x, context):
    """sum_c a_c F_c F_c[L]^+ Y_L, a from distances, with pseudo-inverses in full."""
    model, labels = trained(model_of("graphany")), labels_of(context, 3)
    matrix = neighbour_mean(graph, torch.eye(NODES))
    answers = []
    for coefficients in FILTERS:
        powers = (torch.linalg.matrix_power(matrix, k) for k in range(len(coefficients)))
        rows = sum(c * power for c, power in zip(coefficients, powers, strict=True)) @ x
        answers.append(rows @ torch.linalg.pinv(rows[labels.known]) @ labels.targets[labels.known])
    answers = torch.stack(answers, 1)
    fits = ridge(graph, x, labels, propagate=neighbour_mean, filters=FILTERS, penalty=1e-4,
                 unit_rows=False, centred=False)  # fmt: skip
    torch.testing.assert_close(fits.values.transpose(0, 1), answers, rtol=1e-2, atol=2e-3)
    weights = (model.mix(distances(answers, 1.0)) / 5).softmax(1)
    wanted = torch.einsum("nk,nkc->nc", weights, answers[:, :3])
    found = model(graph, x, context).logits
    torch.testing.assert_close(found, wanted, rtol=1e-2, atol=1e-2)


def test_tokens_are_kept_for_the_very_labels_and_features(graph, x, context, monkeypatch):
    """Fine-tuning found the closed forms anew in every epoch: two seconds of 2.1 on Cora."""
    found, make = [], tokens_of._label_tokens
    monkeypatch.setattr(
        tokens_of, "_label_tokens", lambda *inputs: found.append(inputs) or make(*inputs)
    )

    def tokens(y):
        return label_tokens(graph, x, labels_of(y, 3), classes=True)

    first = tokens(context)
    assert tokens(context.clone()) is first and len(found) == 1
    other = context.clone()
    other[context.argmax()] = -1
    assert not torch.equal(tokens(other).mix, first.mix) and len(found) == 2
    with torch.inference_mode():
        tokens(torch.roll(context, 1))
    assert not tokens(torch.roll(context, 1)).tokens.is_inference() and len(found) == 3
    x.mul_(2).add_(1)
    assert not torch.equal(tokens(context).mix, first.mix) and len(found) == 4
    monkeypatch.setattr(tokens_of, "KEPT", 0)
    assert torch.equal(tokens(other).mix, tokens(other).mix) and len(found) == 6


@pytest.mark.parametrize("hops", [0, 2])
def test_boosting_is_that_of_scikit_learn_on_means_of_neighbours(graph, x, context, hops):
    source, target = graph.edges()
    near = [x]
    for _ in range(hops):
        rows = [near[-1][source[(target == node) & (source != node)]] for node in range(NODES)]
        near.append(torch.stack([row.mean(0) if len(row) else torch.zeros(7) for row in rows]))
    columns, known = torch.cat(near, 1).numpy(), context.numpy() >= 0
    how = {"max_iter": 9, "max_leaf_nodes": 31, "early_stopping": False, "random_state": 0,
           "min_samples_leaf": known.sum() // 20}  # fmt: skip
    trees = ensemble.HistGradientBoostingClassifier(**how).fit(columns[known], context[known])
    answers = model_of("boosting", trees=9, hops=hops)(graph, x, context).logits.softmax(1)
    expected = torch.from_numpy(trees.predict_proba(columns)).float()
    torch.testing.assert_close(answers, expected, rtol=1e-3, atol=1e-4)
    numbers = torch.where(torch.from_numpy(known), x[:, 0] ** 2, torch.nan)
    trees = ensemble.HistGradientBoostingRegressor(**how).fit(columns[known], numbers[known])
    answers = model_of("boosting", 1, trees=9, hops=hops)(graph, x, numbers).logits[:, 0]
    torch.testing.assert_close(answers, torch.from_numpy(trees.predict(columns)).float())
    graph.edata["weight"] = torch.rand(graph.num_edges())
    weighted = model_of("boosting", 1, trees=9, hops=hops)(graph, x, numbers).logits[:, 0]
    assert torch.equal(weighted, answers) == (hops == 0)
    none = model_of("boosting")(graph, x, torch.full((NODES,), -1)).logits
    assert none.isfinite().all() and (none == none[0, 0]).all()
