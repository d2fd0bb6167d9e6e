"""Batches of links: what is predicted, what is seen meanwhile, and what is measured."""

import dataclasses
import itertools
from pathlib import Path

import pytest
import torch
from quick import every
from sklearn.metrics import average_precision_score, roc_auc_score
from typer.testing import CliRunner

import zoo
from zoo.canonical_form import WEIGHT
from zoo.cli import result_tables
from zoo.cli.app import app
from zoo.config.options import pick
from zoo.config.recipe import word
from zoo.config.yaml_lines import read_value
from zoo.data import Dataset
from zoo.data.links import LinkData
from zoo.data.load import load_data
from zoo.data.load.on_disk import prepare_on_disk
from zoo.data.splits import split_of
from zoo.errors import ZooError
from zoo.graphs.link_heuristics import HEURISTICS
from zoo.runs.compare import candidates, compare
from zoo.runs.prepare import _warn, build, prepare
from zoo.runs.resolve import load_recipe, resolve
from zoo.runs.run import run_recipe
from zoo.tasks import TASKS
from zoo.tasks.task import with_loss
from zoo.training.batches import BATCHING, TrainingData
from zoo.training.links import check_tables, heuristic_scores
from zoo.training.trainer import Trainer

MLP, TASK = "hadamard-mlp", "task=link-prediction"

RECIPE = {
    "dataset": "karate",
    "task": {"name": "link-prediction", "dim": 8},
    "model": {"name": "gcn", "dim": 8, "layers": 2, "dropout": 0.0},
    "train": {"epochs": 3, "lr": 0.01},
}


def batches(**options):
    task = pick(TASKS, "link-prediction")
    data = LinkData.of(load_data("karate"), task)
    split = split_of(data, data.split, 0)
    data = data.trained_on(split.train)
    torch.manual_seed(0)
    loader = pick(BATCHING, {"name": "links", **options}, data, split.train, "cpu")
    return loader, TrainingData(data, split, task)


def linked(graph):
    src, dst = graph.edges()
    return {
        (min(u, v), max(u, v)) for u, v in zip(src.tolist(), dst.tolist(), strict=True) if u != v
    }


def test_an_epoch_predicts_every_link_of_training_once():
    loader, on = batches(share=0.3)
    links = torch.cat([part.pairs[:, 0] for part in loader.batches(0)]).sort(dim=1).values
    assert {*map(tuple, links.tolist())} == {
        *map(tuple, on.data.links.pairs[on.split.train].tolist())
    }
    assert len(links) == len(on.split.train)
    again, later = ([*loader.batches(epoch)][0].pairs for epoch in (0, 1))
    assert torch.equal(again, [*loader.batches(0)][0].pairs)
    assert not torch.equal(again, later)


@pytest.mark.parametrize(("share", "steps"), [(0.2, 5), (0.25, 4), (0.3, 4), (0.5, 2), (1.0, 1)])
def test_a_share_of_a_fifth_is_five_steps(share, steps):
    loader, on = batches(share=share)
    assert len(on.split.train) == 66 and len([*loader.batches(0)]) == steps


def leaks(loader, on):
    """Return links that are to be predicted, and stand in the graph that is seen meanwhile."""
    pairs, split = on.data.links.pairs, on.split
    hidden = {*map(tuple, pairs[torch.cat([split.val, split.test])].tolist())}
    found = hidden & linked(loader.graph)
    for part in loader.batches(0):
        asked = {*map(tuple, part.pairs[:, 0].sort(dim=1).values.tolist())}
        found |= (asked | hidden) & linked(part.graph)
    return found


def test_no_answer_stands_in_the_graph_that_is_seen():
    assert leaks(*batches()) == set()
    assert leaks(*batches(size=7)) == set()


def test_a_leak_that_is_planted_is_found():
    loader, on = batches()
    loader.graph = on.data.whole
    assert leaks(loader, on)
    assert leaks(*batches(message="all"))  # which one has to ask for


def test_scores_are_those_of_scikit_learn():
    loader, on = batches()
    model = zoo.create_model("gcn", on.data.inputs, 64, dim=8, decoder="dot")
    measure = loader.scores(model, on, "fp32")
    auc, precision = measure("test", [on.task.metric, on.task.own["average-precision"]])
    pairs = loader.compared(on, "test")
    logits = model.eval()(on.data.graph, on.data.x).logits
    scores = (logits[pairs[..., 0]] * logits[pairs[..., 1]]).sum(-1).detach()
    truth = torch.tensor([[1, 0]] * len(pairs))
    assert auc == pytest.approx(roc_auc_score(truth.flatten(), scores.flatten()))
    assert precision == pytest.approx(average_precision_score(truth.flatten(), scores.flatten()))


DECODERS, OF_LINKS = (
    ["dot", "hadamard-mlp", "concat-mlp", "bilinear", "distance"],
    ["task", "cross-entropy", "margin", "focal"],
)


@pytest.mark.parametrize("of", every([*itertools.product(DECODERS, OF_LINKS)], 3), ids=str)
def test_every_decoder_and_loss_trains(of):
    decoder, loss = of
    """The loss of the same pairs is less after some steps, and every matrix has moved."""
    loader, on = batches()
    task = with_loss(pick(TASKS, {"name": "link-prediction", "decoder": decoder}), loss)
    torch.manual_seed(0)
    model = zoo.create_model("gcn", on.data.inputs, 64, dim=8, dropout=0.0, decoder=decoder)
    before = {key: weight.clone() for key, weight in model.state_dict().items()}
    steps = Trainer(model, on._replace(task=task), batching="links")

    def measured():
        batch = next(iter(loader.batches(0)))
        logits = model.eval()(batch.graph, batch.x).logits
        return task.loss(model.score_pairs(logits, batch.pairs), batch.y).item()

    start, optimiser = measured(), torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(15):
        steps.train(optimiser, epoch)
    assert measured() < start
    matrices = [key for key, weight in before.items() if weight.ndim == 2]
    assert not any(torch.equal(before[key], model.state_dict()[key]) for key in matrices)


def test_metrics_of_ranks_take_candidates(tmp_path):
    task = {"name": "link-prediction", "candidates": 20, "compared": "target"}
    train = {**RECIPE["train"], "metric": "mrr"}
    summary = run_recipe({**RECIPE, "task": task, "train": train}, runs=tmp_path)
    assert summary["metric"] == "mrr" and "hits@10" in summary["beside"]


def test_weights_are_saved_with_their_decoder(tmp_path):
    summary = run_recipe(RECIPE, runs=tmp_path)
    model = zoo.load(summary["folder"] if "folder" in summary else next(tmp_path.iterdir()))
    data = load_data("karate")
    logits = model(data.graph, data.x).logits
    assert model.score_pairs(logits, torch.tensor([[0, 1], [5, 9]])).shape == (2,)
    assert (
        model.config["decoder"]["name"] == "hadamard-mlp" and model.about.task == "link-prediction"
    )


def test_a_model_of_nodes_scores_no_pairs():
    model = zoo.create_model("gcn", 4, 3)
    with pytest.raises(ZooError, match="says nothing of pairs"):
        model.score_pairs(torch.zeros(2, 3), torch.tensor([[0, 1]]))


def test_other_words_are_those_of_the_data_set():
    with pytest.raises(ZooError, match="node-regression.*link-prediction"):
        load_recipe({**RECIPE, "task": "node-regression"})
    with pytest.raises(ZooError, match="did you mean 'link-prediction'"):
        load_recipe({**RECIPE, "task": "link-predicton"})


@pytest.mark.parametrize(
    "model", every(["sgformer", "polynormer", "graphgps", "mlp", "nodeformer"], 3)
)
def test_models_learn_communities(model):
    """Links within two groups: a model that is trained ranks them above those between them."""
    generator = torch.Generator().manual_seed(0)
    groups = torch.arange(120) % 2
    ends = torch.randint(120, (3000, 2), generator=generator)
    ends = ends[(groups[ends[:, 0]] == groups[ends[:, 1]]) & (ends[:, 0] != ends[:, 1])][:600]
    x = groups.unsqueeze(1) + 0.5 * torch.randn(120, 4, generator=generator)
    data = Dataset.from_arrays(ends.numpy(), x.numpy(), groups.numpy())
    links = LinkData.of(data, pick(TASKS, {"name": "link-prediction", "dim": 16}))
    split = split_of(links, links.split, 0)
    links = links.trained_on(split.train)
    torch.manual_seed(0)
    options = {} if model == "mlp" else {"dim": 16}
    network = zoo.create_model(model, 4, 16, decoder="hadamard-mlp", **options)
    steps = Trainer(network, TrainingData(links, split, links.how), batching="links")
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    for epoch in range(25):
        steps.train(optimiser, epoch)
    assert steps.evaluate()("test") > 0.65  # 0.75 is the most: half of the others are inside


def test_seeds_have_graphs_of_their_own():
    plan = resolve(load_recipe({**RECIPE, "seeds": [0, 1]}))
    prepared = prepare(plan)
    one, two = (prepared.fit_columns(split) for split in prepared.splits)
    assert linked(one.data.graph) != linked(two.data.graph)
    model, _ = build(one)
    assert model.head_decoder is not None


def test_heuristics_see_what_a_model_sees():
    _, on = batches()
    found = heuristic_scores(on)
    assert set(found) == set(HEURISTICS)
    assert all(0 <= scores["roc-auc"] <= 1 for scores in found.values())
    blind = on._replace(data=on.data.trained_on(on.split.train[:0]))
    assert heuristic_scores(blind)["adamic-adar"]["roc-auc"] == 0.5  # no link is seen


def test_a_process_without_links_of_a_step_adds_nothing(monkeypatch):
    monkeypatch.setattr("zoo.system.process_group.count", lambda: 2)
    monkeypatch.setattr("zoo.system.process_group.rank", lambda: 1)
    loader, on = batches(size=1)
    model = zoo.create_model("gcn", on.data.inputs, 64, dim=8, decoder="dot")
    batch = next(iter(loader.batches(0)))
    monkeypatch.undo()
    trainer = Trainer(model, on, batching="links")
    assert not len(batch.rows)
    loss = trainer._loss(batch)
    loss.backward()
    assert loss == 0 and all(not w.grad.any() for w in model.parameters() if w.grad is not None)


def test_metrics_of_the_task_choose_the_epoch_too(tmp_path):
    train = {**RECIPE["train"], "metric": "average-precision"}
    summary = run_recipe({**RECIPE, "train": train}, runs=tmp_path)
    assert summary["metric"] == "average-precision" and "roc-auc" in summary["beside"]
    with pytest.raises(ZooError, match="choose from roc-auc, average-precision, mrr"):
        run_recipe({**RECIPE, "train": {**train, "metric": "accuracy"}}, runs=tmp_path)


def test_weights_of_edges_that_a_model_ignores_are_told(caplog):
    data = load_data("karate")
    graph = data.graph.local_var()
    graph.edata[WEIGHT] = torch.ones(graph.num_edges())
    links = LinkData.of(dataclasses.replace(data, graph=graph), pick(TASKS, "link-prediction"))
    plan = resolve(load_recipe({**RECIPE, "model": {"name": "mlp"}}))
    _warn(plan, links)
    assert "mlp ignores the weights and directions of edges of karate" in caplog.text


def start(recipe, folder, **changes):
    """Return a new model of a recipe that starts from weights, and what became of each weight."""
    spec = {**recipe, **changes, "start_from": {"weights": str(folder)}}
    prepared = prepare(resolve(load_recipe(spec)))
    return build(prepared.fit_columns(prepared.splits[0]))


def test_weights_of_one_decoder_are_none_of_another(tmp_path):
    """Those of `dot` and of `distance` have one name and one shape."""
    dot, mlp = ({"name": "link-prediction", "dim": 8, "decoder": name} for name in ("dot", MLP))
    run_recipe({**RECIPE, "task": dot}, runs=tmp_path / "dot")
    folder = next((tmp_path / "dot").iterdir())
    model, how = start(RECIPE, folder, task={**dot, "decoder": "distance"})
    assert "head_decoder.bias" in how.fresh and "head_decoder.bias" in how.unused
    assert model.head_decoder.bias.item() == 1
    _, how = start(RECIPE, folder, task=dot)
    assert "head_decoder.bias" in how.loaded
    run_recipe({**RECIPE, "task": mlp}, runs=tmp_path / "mlp")
    folder = next((tmp_path / "mlp").iterdir())
    for other in ({"name": MLP, "layers": 3}, "concat-mlp"):  # of which some shapes agree
        _, how = start(RECIPE, folder, task={**mlp, "decoder": other})
        assert not any(name.startswith("head_decoder") for name in how.loaded)


def test_links_are_learnt_from_weights_of_nodes_and_back(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    nodes = {key: value for key, value in RECIPE.items() if key != "task"}
    usual = {"ratio-85-5-10": "links", "ratio-60-20-20": "nodes"}
    for name, recipe, override in (("nodes", nodes, TASK), ("links", RECIPE, "task=null")):
        run_recipe(recipe, runs=Path(name))
        folder = next(Path(name).iterdir())
        run = CliRunner().invoke(
            app, ["finetune", str(folder), "--data", "karate", override, "--runs", f"{name}-on"]
        )
        assert run.exit_code == 0, run.output
        written = read_value((next(Path(f"{name}-on").iterdir()) / "recipe.yaml").read_text())
        assert ("task" in written) == (override == TASK)
        assert usual[word(written["dataset"]["split"])] != name
    assert "with all of its links, those of validation and test among them" in caplog.text
    same = CliRunner().invoke(app, ["finetune", str(folder), "--data", "karate", "--runs", "same"])
    assert same.exit_code == 0, same.output
    written = read_value((next(Path("same").iterdir()) / "recipe.yaml").read_text())
    assert written["task"]["dim"] == 8


def test_links_are_compared_with_links_that_are_measured_alike(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "# t\ndataset: karate\ntask: {TASK}\nmodel: sgformer\ntrain: {epochs: 1, lr: 0.01}\n"
    for name, options in (("one", "decoder: dot"), ("two", "decoder: dot, candidates: 9")):
        spec = f"{{name: link-prediction, {options}}}"
        Path(f"{name}.yaml").write_text(text.replace("{TASK}", spec))
    Path("nodes.yaml").write_text(text.replace("task: {TASK}\n", ""))
    added = [entry.plan for entry in candidates(["one.yaml"], tuned=True)][1:]
    assert {plan.model["name"] for plan in added} == {"gcn", "mlp"}
    assert all(plan.task["decoder"] == "dot" and plan.split == LinkData.split for plan in added)
    every = candidates(["one.yaml", "two.yaml", "nodes.yaml"], baselines=False)
    assert [each.graph for each in every] == [
        "karate, candidates 1",
        "karate, candidates 9",
        "karate",
    ]


def test_links_are_compared_with_the_pairs_of_a_table(tmp_path):
    """As scikit-learn says of all its pairs, each once; a table may have some for each part."""
    data = load_data("karate")
    known = LinkData.of(data, pick(TASKS, "link-prediction")).known()
    free = torch.combinations(torch.arange(34))
    free = free[~known.has(free)][:100].tolist()
    table = tmp_path / "negatives.csv"
    rows = [f"{u},{v},{'test' if place < 60 else 'val'}" for place, (u, v) in enumerate(free)]
    table.write_text("\n".join(["source,target,split", *rows, ""]))
    task = pick(TASKS, {"name": "link-prediction", "decoder": "dot",
                        "compared": {"name": "file", "path": str(table)}})  # fmt: skip
    assert "mrr" not in task.also
    links = LinkData.of(data, task)
    split = split_of(links, links.split, 0)
    on = TrainingData(links.trained_on(split.train), split, task)
    loader = pick(BATCHING, "links", on.data, split.train, "cpu")
    torch.manual_seed(0)
    model = zoo.create_model("gcn", on.data.inputs, 64, dim=8, decoder="dot")
    auc, precision = loader.scores(model, on, "fp32")("test", [*task.own.values()])
    logits = model.eval()(on.data.graph, on.data.x).logits
    pairs = torch.cat([links.links.pairs[split.test], torch.tensor(free[:60])])
    scores = model.score_pairs(logits, pairs).detach()
    truth = torch.arange(len(pairs)) < len(split.test)
    assert auc == pytest.approx(roc_auc_score(truth, scores))
    assert precision == pytest.approx(average_precision_score(truth, scores))
    compared = loader.compared(on, "train")  # by those of val, which are fewer for each
    assert {tuple(pair) for pair in compared[:, 1:].flatten(0, 1).tolist()} - {(-1, -1)} == {
        *map(tuple, free[60:])
    }
    assert all(0 <= row["hits@10"] <= 1 for row in heuristic_scores(on).values())
    with table.open("a") as file:
        file.write("0,1,test\n")
    with pytest.raises(ZooError, match=r"0 and 1 are linked.*without a link \(1 such\)"):
        check_tables(on)


def test_each_link_has_pairs_of_its_own(tmp_path):
    links = LinkData.of(load_data("karate"), pick(TASKS, "link-prediction"))
    known, rows = links.known(), []
    for u, v in links.links.pairs.tolist():
        others = [w for w in range(34) if not known.has(torch.tensor([[u, w]]))[0]]
        rows += [f"{u},{v},{w}" for w in others[: 3 + u % 3]]
    table = tmp_path / "negatives.csv"
    table.write_text("\n".join(["source,target,other", *rows, ""]))
    given = {"name": "file-per-link", "path": str(table)}
    task = {"name": "link-prediction", "dim": 8, "compared": given, "negatives": given}
    train = {**RECIPE["train"], "metric": "mrr", "stop_on": "loss"}
    summary = run_recipe({**RECIPE, "task": task, "train": train}, runs=tmp_path / "runs")
    assert 0.2 < summary["test"]["mean"] <= 1
    shared = {"name": "file", "path": str(table)}
    with pytest.raises(ZooError, match="compared: file` has the same for all; write `file-per"):
        run_recipe({**RECIPE, "task": {**task, "compared": shared}, "train": train}, runs=tmp_path)
    with pytest.raises(ZooError, match="takes all pairs of its table; leave `candidates` out"):
        run_recipe({**RECIPE, "task": {**task, "candidates": 9}}, runs=tmp_path)
    table.write_text("\n".join(["source,target,other", *rows[:20], ""]))
    with pytest.raises(ZooError, match="has no row for .* links of (val|test); write some"):
        run_recipe({**RECIPE, "task": task}, runs=tmp_path)


def test_a_comparison_shows_heuristics_and_few_links_are_told(
    tmp_path, monkeypatch, capsys, caplog
):
    monkeypatch.chdir(tmp_path)
    summary = run_recipe(RECIPE, runs=Path("runs"))
    assert "validation has 3 links of karate, by which chance chooses" in caplog.text
    rows = compare(candidates([str(next(Path("runs").iterdir()))])[:1])
    result_tables.comparison(rows)
    shown = capsys.readouterr().out
    katz = summary["heuristics"]["katz"]["mean"]
    assert f"katz{' ' * 10}" in shown and f"{katz:.4f}" in shown and "learn nothing" in shown


@pytest.mark.parametrize("message", ["others", "all"])
def test_sampled_steps_of_all_neighbours_are_those_of_the_whole_graph(message):
    """Of two layers the neighbours of the neighbours of neighbours say all degrees that count."""
    whole, on = batches(size=7, message=message)
    sampled, _ = batches(size=7, message=message, fanouts=[-1, -1, -1])
    torch.manual_seed(0)
    model = zoo.create_model("gcn", on.data.inputs, 64, dim=8, decoder="hadamard-mlp").eval()
    for one, other in zip(whole.batches(3), sampled.batches(3), strict=True):
        scores = []
        for batch in (one, other):
            logits, _ = model(batch.graph, batch.x)
            scores.append(model.score_pairs(logits, batch.pairs))
        torch.testing.assert_close(*scores)
        grads = [torch.autograd.grad(score.sum(), [*model.parameters()]) for score in scores]
        for pair in zip(*grads, strict=True):
            torch.testing.assert_close(*pair, atol=1e-5, rtol=1e-4)
    for part in ("val", "test"):
        measured = [loader.scores(model, on, "fp32")(part, [on.task.metric])
                    for loader in (whole, sampled)]  # fmt: skip
        assert measured[0] == pytest.approx(measured[1])


def test_sampled_steps_see_no_answer_and_follow_from_the_seed():
    loader, on = batches(size=7, fanouts=[3, 2])
    for batch, again in zip(loader.batches(1), loader.batches(1), strict=True):
        asked = {*map(tuple, batch.pairs[:, 0].sort(dim=1).values.tolist())}
        assert not asked & linked(batch.graph) and batch.graph.num_nodes() == len(batch.x)
        assert linked(batch.graph) == linked(again.graph)
    planted, _ = batches(size=7, fanouts=[3, 2], message="all")
    assert any({*map(tuple, batch.pairs[:, 0].sort(dim=1).values.tolist())} & linked(batch.graph)
               for batch in planted.batches(1))  # fmt: skip


def test_links_of_a_graph_on_disk_are_learnt_in_batches(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare_on_disk("karate", tmp_path / "disk")
    batching = {"name": "links", "size": 20, "fanouts": [5, 5]}
    train = {**RECIPE["train"], "batching": batching}
    for evaluate in ("batches", "full"):
        spec = {
            **RECIPE,
            "dataset": str(tmp_path / "disk"),
            "train": {**train, "evaluate": evaluate},
        }
        summary = run_recipe(spec, runs=Path("runs") / evaluate)
        assert 0 < summary["test"]["mean"] <= 1 and summary["heuristics"]["katz"]["mean"] > 0
    folder = next((Path("runs") / "batches").iterdir())
    run = CliRunner().invoke(app, ["evaluate", str(folder)])
    assert run.exit_code == 0 and "test links of disk" in run.output, run.output
