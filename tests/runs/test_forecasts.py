"""Forecasts from recipe to roll-out, by the commands, on series of one's own."""

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from quick import every

import zoo
from zoo.config.recipe import divide
from zoo.data.load import load_data
from zoo.data.splits import split_of
from zoo.errors import ZooError
from zoo.inference.forecast import (
    evaluate_forecasts,
    forecast,
    last_value,
    match_series,
    ridge_on_lags,
    roll_out,
    seasonal_value,
)
from zoo.inference.training_data import as_trained, read_as_trained
from zoo.runs.compare import candidates, compare
from zoo.runs.prepare import prepare
from zoo.runs.resolve import load_recipe, resolve
from zoo.runs.run import resume_run, run_recipe
from zoo.training.batches import SnapshotBatches
from zoo.weights.create import list_models
from zoo.weights.save_and_load import load

DAYS = np.arange("2026-01-01", "2026-03-22", dtype="datetime64[D]")
WEEK = [0, 3, 1, 5, 2, 8, 6]


def write_sales(path, days=DAYS, unknown=()):
    """Three stores of different size that sell by the day of the week."""
    random = np.random.default_rng(0)
    with path.open("w") as file:
        file.write("date,store,sales,price\n")
        for number, day in enumerate(days):
            for store, size in (("north", 10), ("south", 100), ("west", 1)):
                sold = size * (20 + WEEK[number % 7] + random.normal(0, 0.2))
                told = "" if (number, store) in unknown else f"{sold:.3f}"
                file.write(f"{day},{store},{told},{number % 2}\n")
    return path


@pytest.fixture
def place(tmp_path):
    write_sales(tmp_path / "sales.csv")
    (tmp_path / "roads.csv").write_text("source,target\nnorth,south\nsouth,west\n")
    return tmp_path


def recipe(place, model="gru", **changes):
    given = {
        "dataset": {
            "name": str(place / "sales.csv"),
            "time": "date",
            "id": "store",
            "target": "sales",
            "lags": 7,
            "horizon": 2,
            "edges": str(place / "roads.csv"),
            "scale": "standard",
        },
        "model": {"dim": 16, **(model if isinstance(model, dict) else {"name": model})},
        "train": {"epochs": 30, "lr": 0.02, "batching": {"name": "snapshots", "size": 16}},
        "seeds": [0],
    }
    return {**given, **changes}


def test_snapshots_are_taken_where_a_recipe_says_no_batching(place):
    given = recipe(place)
    del given["train"]["batching"]
    written = resolve(load_recipe(given)).plain()
    assert written["train"]["batching"]["name"] == "snapshots"
    assert prepare(resolve(load_recipe(written))).plan.plain()["train"] == written["train"]


def rows_of(text):
    return list(csv.DictReader(text.splitlines()))


def test_from_a_table_to_a_forecast(command, place):
    (place / "own.yaml").write_text(json.dumps(recipe(place)))
    words = [f"{key}={value}" for key, value in recipe(place)["dataset"].items() if key != "name"]
    code, said, failed = command("data", "check", "sales.csv", *words)
    assert code == 0 and "3 nodes at 80 times, 2026-01-01 to 2026-03-21" in said, failed
    code, said, told = command("train", "own.yaml", "--json")
    summary = json.loads(said.splitlines()[-1])
    assert code == 0 and summary["metric"] == "mse", told
    code, said, failed = command("evaluate", summary["folder"], "--json")
    found = json.loads(said.splitlines()[-1])
    assert code == 0, failed
    least = min(found["baselines"], key=lambda name: found["baselines"][name]["mse"])
    better = found["baselines"][least]["mse"] <= found["score"]
    assert (f"{least} alone has mse" in told) == better, told
    assert found["score"] == pytest.approx(summary["test"]["mean"], rel=1e-6)
    assert (found["part"], found["unit"], found["nodes"]) == ("test", "snapshots", 15)
    assert not found["seen"]
    again = ("evaluate", summary["folder"], "--data", "sales.csv", "--part", "test", "--json")
    found_anew = json.loads(command(*again, "split=time-20-20-60")[1].splitlines()[-1])
    assert found_anew["nodes"] > 40 and found_anew["seen"], "some of them were trained on"
    assert not json.loads(command(*again)[1].splitlines()[-1])["seen"]
    assert set(found["baselines"]) == {"last value", "seasonal value, 7", "ridge on lags"}
    assert found["score"] < found["baselines"]["last value"]["mse"], "it has learnt the week"
    said = command("evaluate", summary["folder"])[1]
    assert "this model" in said and "ridge on lags" in said and "mae" in said
    code, said, failed = command("predict", summary["folder"], "--steps", 5)
    rows = rows_of(said)
    assert code == 0 and len(rows) == 15, failed
    assert [row["time"] for row in rows[::3]] == [f"2026-03-{day}" for day in range(22, 27)]
    assert [row["id"] for row in rows[:3]] == ["north", "south", "west"]
    for row in rows:
        size = {"north": 10, "south": 100, "west": 1}[row["id"]]
        assert 15 * size < float(row["value"]) < 35 * size
    assert len(rows_of(command("predict", summary["folder"])[1])) == 6  # its horizon
    code, _, failed = command("predict", summary["folder"], "--out", "next.csv")
    assert code == 0 and "2 times of 3 nodes are in next.csv" in failed
    code, _, failed = command("predict", summary["folder"], "--out", "next.csv")
    assert code == 2 and "exists" in failed


def test_later_data_are_read_as_those_of_training(command, place):
    """The same columns and the same scale: a longer table needs nothing but its name."""
    summary = run_recipe(recipe(place), runs=place / "runs")
    later = np.arange("2026-01-01", "2026-04-11", dtype="datetime64[D]")
    write_sales(place / "later.csv", later)
    code, said, failed = command("predict", summary["folder"], "--data", "later.csv")
    assert code == 0 and rows_of(said)[0]["time"] == "2026-04-11", failed
    code, said, failed = command("evaluate", summary["folder"], "--data", "later.csv", "--json")
    found = json.loads(said.splitlines()[-1])
    assert code == 0 and found["part"] == "all" and "ridge on lags" not in found["baselines"]
    model = load(f"{summary['folder']}/seed-0")
    spec = {**recipe(place)["dataset"], "name": str(place / "later.csv")}
    assert model.about.scaling["south"][0][0] > 1000
    data = match_series(model, load_data(spec))
    own = prepare(resolve(load_recipe(recipe(place)))).data
    assert torch.equal(data.shift, own.shift) and torch.equal(data.x[:80], own.x)
    write_sales(place / "other.csv")
    text = (place / "other.csv").read_text().replace("west", "east")
    (place / "other.csv").write_text(text)
    (place / "more.csv").write_text("source,target\nnorth,south\n")
    spec = {**spec, "name": str(place / "other.csv"), "edges": str(place / "more.csv")}
    with pytest.raises(ZooError, match="not trained on, such as 'east'"):
        forecast(model, load_data(spec))
    with pytest.raises(ZooError, match="write `horizon: 2`"):
        forecast(model, load_data({**spec, "horizon": 3}))


def slow_roll_out(model, data, last, steps):
    """Cut the table at a time and write each prediction into it, block after block."""
    values = data.x[: last + 1].clone()
    graph, found = data.graphs.graphs[0], []
    while len(found) < steps:
        x = torch.cat([values[len(values) - data.lags + lag] for lag in range(data.lags)], dim=1)
        with torch.no_grad():
            block = model(graph, x).logits
        for step in range(block.shape[1]):
            row = torch.cat([block[:, step : step + 1], values[-1][:, 1:]], dim=1)
            values = torch.cat([values, row[None]])
            found.append(block[:, step] * data.spread[:, 0] + data.shift[:, 0])
    return torch.stack(found[:steps])


@pytest.mark.parametrize("steps", [1, 2, 5, 12])
def test_a_roll_out_reads_what_it_has_said(place, steps):
    data = prepare(resolve(load_recipe(recipe(place)))).data
    model = zoo.create_model("gcn-gru", data.inputs, data.horizon, dim=8).eval()
    for last in (40, len(data.x) - 1):
        found = roll_out(model, data, last, steps)
        torch.testing.assert_close(found, slow_roll_out(model, data, last, steps))
    changed = data.x.clone()
    changed[41:, :, 0] = 99.0  # later than what is known
    other = data.__class__(**{**vars(data), "x": changed})
    torch.testing.assert_close(roll_out(model, data, 40, steps), roll_out(model, other, 40, steps))


def test_what_is_written_of_later_columns_is_read(place):
    """Rows of days to come with prices and no sales: the forecast is of these days."""
    table = (place / "sales.csv").read_text()
    for price in (0, 5):
        more = "".join(f"2026-03-{day},{store},,{price}\n" for day in (22, 23, 24)
                       for store in ("north", "south", "west"))  # fmt: skip
        (place / f"price{price}.csv").write_text(table + more)
    spec = {**recipe(place)["dataset"], "columns": ["price"], "horizon": 1, "scale": "none"}
    model = zoo.create_model("mlp", 14, 1, dim=8, dropout=0.0).eval()
    found = []
    for price in (0, 5):
        data = load_data({**spec, "name": str(place / f"price{price}.csv")})
        found.append(forecast(model, data, 3))
        assert found[-1].times == ["2026-03-22", "2026-03-23", "2026-03-24"]
    one, two = (each.values for each in found)
    assert torch.equal(one[0], two[0]) and not torch.equal(one[1], two[1])


def test_baselines_are_their_formulas(place):
    data = load_data(divide(recipe(place)["dataset"], ("split",))[0])
    values, chosen = data.series.values[:, :, 0], torch.tensor([0, 5, 40])
    for name, found, back in (
        ("last", last_value(data, chosen), lambda step: 0),
        ("week", seasonal_value(data, chosen, 7), lambda step: 7 - step),
        ("day", seasonal_value(data, chosen, 1), lambda step: 0),
        ("long", seasonal_value(data, chosen, 12), lambda step: 12 - step),
    ):
        for row, sample in enumerate(chosen.tolist()):
            last = sample + data.lags - 1
            for node in range(3):
                for step in (1, 2):
                    ago = back(step) if back(step) <= last else 0
                    wanted = values[last - ago, node]
                    assert found[row, 2 * node + step - 1] == pytest.approx(wanted), name
    train = torch.arange(30)
    found = ridge_on_lags(data, train, chosen)
    inputs = data.batch(train)[1].double().numpy()
    targets = data.y[train].reshape(-1, 2).double().numpy()
    middle, mean = inputs.mean(axis=0), targets.mean(axis=0)
    centred = inputs - middle
    weights = np.linalg.solve(centred.T @ centred + np.eye(7), centred.T @ (targets - mean))
    wanted = (data.batch(chosen)[1].double().numpy() - middle) @ weights + mean
    np.testing.assert_allclose(found.reshape(-1, 2), wanted, rtol=1e-3)


def test_ridge_is_fitted_where_each_step_is_known(command, place):
    """Closed on a day of each week, so that no horizon of a week is known as a whole."""
    days = [(number, store) for number in range(0, 80, 7) for store in ("north", "south", "west")]
    write_sales(place / "sales.csv", unknown=set(days))
    given = recipe(place)
    split = {"name": "time", "train": 50, "val": 25, "test": 25}
    given["dataset"] |= {"horizon": 7, "split": split}
    given["train"]["epochs"] = 1
    summary = run_recipe(given, runs=place / "runs")
    code, said, failed = command("evaluate", summary["folder"], "--json")
    assert code == 0, failed
    found = json.loads(said.splitlines()[-1])["baselines"]
    assert 0 < found["ridge on lags"]["mse"] < found["last value"]["mse"]
    data = prepare(resolve(load_recipe(given))).data
    never = torch.where(torch.arange(21) % 7 == 3, torch.nan, data.y)  # a step of each node
    data = dataclasses.replace(data, y=never)
    assert ridge_on_lags(data, torch.arange(30), torch.arange(5)) is None


def test_further_columns_are_read_by_a_gru_at_their_times(place):
    given = recipe(place)
    given["dataset"]["columns"] = ["price"]
    given["train"]["epochs"] = 1
    summary = run_recipe(given, runs=place / "runs")
    model = load(f"{summary['folder']}/seed-0")
    assert model.columns == model.config["columns"] == 2 and model.config["in_dim"] == 14
    assert len(forecast(model, load_data(given["dataset"])).ids) == 3
    with pytest.raises(ZooError, match="9 features .*An encoding is none of them; leave it out"):
        run_recipe(recipe(place, encoding={"name": "laplacian", "k": 2}), runs=place / "runs")


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("scale", ["none", "standard"])
def test_a_model_reads_the_columns_of_its_training(tmp_path, scale, older):
    """Weights from before they told their columns have those of their recipe."""
    rows = pandas.DataFrame({"t": np.arange(40), "y": np.arange(40) % 7})
    rows = rows.assign(price=rows["t"] * 3.0, ads=1000.0 - rows["t"], wind=rows["t"] % 2)
    rows.to_csv(tmp_path / "me.csv", index=False)
    spec = {"name": str(tmp_path / "me.csv"), "time": "t", "target": "y", "lags": 2, "horizon": 1}
    own = {**spec, "columns": ["price", "ads"], "scale": scale}
    prepared = prepare(resolve(load_recipe({"dataset": own, "model": "mlp"})))
    assert prepared.about.series == ["y", "price", "ads"] and prepared.about.lags == 2
    model = zoo.create_model("mlp", 6, 1, dim=8, dropout=0.0).eval()
    model.about = prepared.about.model_copy(update=dict.fromkeys(("series", "lags")) if older
                                            else {})  # fmt: skip
    wanted = match_series(model, load_data(own))
    found = match_series(model, load_data({**own, "columns": ["ads", "price"]}))
    assert torch.equal(found.x, wanted.x) and found.series.names == ("y", "price", "ads")
    assert torch.equal(found.values_of(torch.ones(1, 1)), wanted.values_of(torch.ones(1, 1)))
    np.testing.assert_array_equal(found.series.values, wanted.series.values)
    for other, said in (
        ({"target": "price", "columns": ["y", "ads"]}, "trained to predict 'y'; write `target: y`"),
        ({"lags": 3, "columns": ["price"]}, "read with 3 lags, and the model reads 2; .*`lags: 2`"),
        ({"lags": 6, "columns": []}, "read with 6 lags, and the model reads 2"),
        ({"columns": ["price", "wind"]}, r"reads ads too, .* write `columns: \[price, ads\]`"),
        ({"columns": ["price", "ads", "wind"]}, "not trained on wind of me; write `columns"),
    ):
        with pytest.raises(ZooError, match=said):
            forecast(model, load_data({**own, **other}))


def test_weights_without_further_columns_refuse_some(place):
    model = zoo.create_model("mlp", 7, 2, dim=8).eval()
    model.about = prepare(resolve(load_recipe(recipe(place, "mlp")))).about
    with pytest.raises(ZooError, match="not trained on price of sales; leave `columns` out"):
        forecast(model, load_data({**recipe(place)["dataset"], "columns": ["price"]}))


def test_recent_rows_are_enough_where_edges_change_in_time(place):
    days = [DAYS[0], DAYS[20], DAYS[20], DAYS[50]]
    ends = ["north,south", "south,north", "south,west", "north,west"]
    rows = [f"{day},{both}" for day, both in zip(days, ends, strict=True)]
    (place / "roads.csv").write_text("\n".join(["date,source,target", *rows]))
    sales = pandas.read_csv(place / "sales.csv")
    spec = {**recipe(place)["dataset"], "scale": "none"}
    model = zoo.create_model("gcn", 7, 2, dim=8, dropout=0.0).eval()
    for last in (30, 50, 79):
        for name, first in (("whole", 0), ("recent", last - 6)):
            chosen = sales["date"].isin(DAYS[first : last + 1].astype(str))
            sales[chosen].to_csv(place / f"{name}.csv", index=False)
        whole, recent = (
            forecast(model, load_data({**spec, "name": str(place / f"{name}.csv")}))
            for name in ("whole", "recent")
        )
        torch.testing.assert_close(recent.values, whole.values)
        assert recent.times == whole.times


def test_times_to_come_have_the_fraction_of_a_second_of_their_steps(tmp_path):
    times = pandas.date_range("2026-01-01", periods=2, freq="3s")
    pandas.DataFrame({"t": times, "y": 1.0}).to_csv(tmp_path / "one.csv", index=False)
    told = {"time": "t", "target": "y", "lags": 2, "horizon": 1, "step": "1500ms"}
    data = load_data({"name": str(tmp_path / "one.csv"), "missing": "unknown", **told})
    model = zoo.create_model("mlp", 2, 1, dim=8).eval()
    found = forecast(model, data, 2).times
    assert found == ["2026-01-01T00:00:04.500", "2026-01-01T00:00:06.000"]


def test_steps_are_taken_for_each_snapshot_or_for_all(place):
    prepared = prepare(resolve(load_recipe(recipe(place))))
    data, train = prepared.data, prepared.splits[0].train
    each = list(SnapshotBatches(data, train, "cpu").batches(0))
    assert [part.last for part in each] == [True] * len(train)
    assert torch.equal(torch.cat([part.y for part in each]), data.scaled_targets(train)), "in order"
    once = list(SnapshotBatches(data, train, "cpu", size=10, accumulate=True).batches(0))
    assert [part.last for part in once] == [False] * (len(once) - 1) + [True]
    assert sum(part.weight for part in once) == pytest.approx(1) and len(once) == -(
        -len(train) // 10
    )
    mixed = SnapshotBatches(data, train, "cpu", shuffle=True)
    orders = [torch.cat([part.y for part in mixed.batches(epoch)]) for epoch in (0, 0, 1)]
    assert torch.equal(orders[0], orders[1]) and not torch.equal(orders[0], orders[2])
    assert torch.equal(orders[0].sort(dim=0).values, data.scaled_targets(train).sort(dim=0).values)


@pytest.mark.parametrize("gaps", [False, True])
def test_accumulated_gradients_are_those_of_one_batch(place, gaps):
    if gaps:  # more of them in the first half, so that batches know more and less
        sales = pandas.read_csv(place / "sales.csv")
        rows = np.arange(len(sales))
        sales.loc[(rows % 3 > 0) & (rows < 120) | (rows % 7 == 0), "sales"] = None
        sales.to_csv(place / "sales.csv", index=False)
    prepared = prepare(resolve(load_recipe(recipe(place))))
    data, train, task = prepared.data, prepared.splits[0].train, prepared.task
    model = zoo.create_model("gcn-gru", data.inputs, data.horizon, dim=8)
    found = []
    for options in ({"size": 1, "accumulate": True}, {"size": 999}):
        model.zero_grad()
        for part in SnapshotBatches(data, train, "cpu", **options).batches(0):
            logits = part.read(model, model(part.graph, part.x).logits)
            (part.weight * task.loss(logits, part.y)).backward()
        found.append([each.grad.clone() for each in model.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_recent_rows_are_enough_to_predict_in_the_steps_of_training(place):
    summary = run_recipe(recipe(place), runs=place / "runs")
    model, folder = zoo.load(summary["folder"]), Path(summary["folder"]) / "seed-0"
    sales = pandas.read_csv(place / "sales.csv")
    days = sorted(sales["date"].unique())
    sales[sales["date"].isin(days[-7:])].to_csv(place / "recent.csv", index=False)
    recent, _ = read_as_trained(model, folder, str(place / "recent.csv"))
    whole, _ = read_as_trained(model, folder, str(place / "sales.csv"))
    torch.testing.assert_close(forecast(model, recent).values, forecast(model, whole).values)
    with pytest.raises(ZooError, match="no time whose next 2 are known after 7"):
        evaluate_forecasts(model, recent, "all", recent.split)
    with pytest.raises(ZooError, match="7 times, and 7 lags with a horizon of 2 need 11"):
        evaluate_forecasts(model, recent, "test", recent.split)
    known = {"name": str(place / "sales.csv"), "time": "date", "target": "sales"}
    about = model.about.model_copy(update={"step": "B"})
    found = as_trained(str(place / "recent.csv"), known, about)
    assert found == {**known, "name": str(place / "recent.csv"), "step": "B"}
    sales[sales["date"].isin(days[::2])].to_csv(place / "other.csv", index=False)
    other, _ = read_as_trained(model, folder, {"name": str(place / "other.csv"), "step": "2D"})
    with pytest.raises(ZooError, match="in steps of .*2D.*trained on steps of D"):
        forecast(model, other)


def test_the_best_epoch_has_the_least_error(place):
    losses = []
    given = recipe(place)
    given["train"]["lr"] = 0.1
    summary = run_recipe(given, runs=place / "runs", watch=lambda seed, epoch: losses.append(epoch))
    vals = [epoch.val for epoch in losses]
    [row] = summary["seeds"]
    assert row["val"] == min(vals) and row["epoch"] == int(np.argmin(vals))
    assert min(vals) < max(vals)
    given["train"] |= {"patience": 2, "epochs": 60}
    [row] = run_recipe(given, runs=place / "runs")["seeds"]
    assert row["epochs"] < 60


def test_the_best_seed_and_the_first_row_have_the_least_error(command, place):
    summary = run_recipe(recipe(place, seeds=[0, 1, 2]), runs=place / "runs")
    best = min(summary["seeds"], key=lambda row: row["val"])["seed"]
    _, _, failed = command("predict", summary["folder"])
    assert f"seed-{best}, best of 3 seeds" in failed
    given = recipe(place, seeds=[0, 1])
    given["train"]["lr"] = 1e-6
    worse = run_recipe(given, runs=place / "runs")
    found = candidates([worse["folder"], summary["folder"]])
    assert [each.plan.model["name"] for each in found] == ["gru", "gru", "gcn", "mlp"]
    assert all(each.plan.train["batching"]["name"] == "snapshots" for each in found)
    rows = compare(found[:2])
    assert [row["folder"] for row in rows] == [summary["folder"], worse["folder"]]
    assert rows[0]["test"]["mean"] < rows[1]["test"]["mean"]


def test_a_run_goes_on_to_the_same_numbers(place):
    given = recipe(place, "gcn-gru")
    given["train"]["epochs"] = 6
    given["train"]["batching"] |= {"shuffle": True}
    whole = run_recipe(given, runs=place / "runs")

    def stop(seed, epoch):
        if epoch.epoch == 2:
            raise SystemExit

    with pytest.raises(SystemExit):
        run_recipe(given, runs=place / "ended", watch=stop, checkpoint=0)
    [folder] = (place / "ended").iterdir()
    resumed = resume_run(folder, checkpoint=0)
    assert (resumed["val"], resumed["test"]) == (whole["val"], whole["test"])


@pytest.mark.parametrize("model", every(list_models(task="node-forecasting"), 3))
def test_every_model_of_nodes_is_trained_for_an_epoch(place, model):
    options = {"dim": 8} if model != "vit" else {}
    given = recipe(place, encoding="none" if "gru" in model else {"name": "laplacian", "k": 2})
    given["model"] = {"name": model, **options}
    given["train"]["epochs"] = 1
    summary = run_recipe(given, runs=place / "runs")
    assert 0 < summary["test"]["mean"] < 1e5
    assert len(forecast(load(f"{summary['folder']}/seed-0"), load_data(given["dataset"])).ids) == 3


def test_fine_tuning_on_later_sales(command, place):
    summary = run_recipe(recipe(place), runs=place / "runs")
    spec = json.dumps({**recipe(place)["dataset"], "scale": "none"})
    code, said, failed = command("finetune", summary["folder"], "--data", spec, "--json",
                                 "train.epochs=2")  # fmt: skip
    assert code == 0 and json.loads(said.splitlines()[-1])["metric"] == "mse", failed
    assert "loaded" in failed


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"train": {"batching": "full"}},
            "sales is not trained by `batching: full`.*batching=snapshots",
        ),
        ({"model": {"name": "vit", "dim": 16}}, "vit is no model of the task node-forecasting"),
        ({"train": {"batching": "snapshots", "evaluate": "layerwise"}}, "leave `evaluate` out"),
        ({"train": {"batching": {"name": "snapshots", "size": 0}}}, "size.*greater than or equal"),
        ({"model": {"name": "gru", "columns": 2}}, "7 features .* not 2 at each"),
        (
            {"model": "gru", "dataset": {"name": "karate"}, "train": {}},
            "gru is no model of the task",
        ),
    ],
)
def test_what_does_not_fit_is_said(place, changes, said):
    with pytest.raises(ZooError, match=said):
        run_recipe(recipe(place, **changes), runs=place / "runs")


def test_a_split_that_looks_ahead_is_refused(place):
    given = recipe(place)
    given["dataset"]["split"] = "ratio-60-20-20"
    with pytest.raises(ZooError, match="is none of snapshots.*time-70-10-20"):
        run_recipe(given, runs=place / "runs")


def test_what_is_for_one_graph_says_so(command, place):
    summary = run_recipe(recipe(place), runs=place / "runs")
    (place / "own.yaml").write_text(json.dumps(recipe(place)))
    code, _, failed = command("estimate", "own.yaml")
    assert code == 2 and "is estimated for one graph" in failed
    spec = json.dumps(recipe(place)["dataset"])
    code, _, failed = command("embed", summary["folder"], "--data", spec, "--out", "a.npy")
    assert code == 2 and "no row for each to embed" in failed
    code, _, failed = command("evaluate", summary["folder"], "--layerwise")
    assert code == 2 and "leave it out" in failed
    code, _, failed = command("predict", "gcn-digits", "--data", "digits", "--out", "a.csv",
                              "--steps", 3)  # fmt: skip
    assert code == 2 and "--steps is for models of forecasts" in failed
    code, _, failed = command("data", "check", "sales.csv", "time=date", "id=store", "target=sales",
                              "--plot", "a.png")  # fmt: skip
    assert code == 2 and "leave it out" in failed
    with pytest.raises(ZooError, match="steps: 0 is no number of times"):
        forecast(load(f"{summary['folder']}/seed-0"), load_data(recipe(place)["dataset"]), 0)


def test_unknown_values_count_in_no_loss_and_no_score(place):
    write_sales(place / "gaps.csv", unknown={(70, "south"), (30, "west"), (79, "north")})
    given = recipe(place)
    given["dataset"]["name"] = str(place / "gaps.csv")
    summary = run_recipe(given, runs=place / "runs")
    assert 0 < summary["test"]["mean"] < 1e5
    data = load_data(given["dataset"])
    split = split_of(data, data.split, 0)
    found = last_value(data, split.test)
    known = ~data.y[split.test].isnan()
    assert 0 < (~known).sum() < 10 and found.isfinite().all()


def test_weights_hold_no_path_and_say_their_scale(place):
    summary = run_recipe(recipe(place), runs=place / "runs")
    text = (place / "runs").rglob("config.json").__next__().read_text()
    assert str(place) not in text and '"scaling"' in text
    card = (place / "runs").rglob("seed-0/README.md").__next__().read_text()
    assert "time-series-forecasting" in card and "| part | mse |" in card and "--steps" in card
    about = load(f"{summary['folder']}/seed-0").about
    assert (about.task, about.metric) == ("node-forecasting", "mse")
    assert set(about.files) == {"sales.csv", "roads.csv"}
