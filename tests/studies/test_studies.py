"""The theory of random batches, with tolerances that follow from the number of draws."""

import csv
import math
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import batching
import difformer_energy as energy
import pytest
import rba_control
import rba_cost as cost
import rba_devices as devices
import rba_evaluation
import rba_theory as theory
import study
import torch
import transfer
from study import Row, Series, Study, write_study

from zoo import ZooError, load_data, run_recipe
from zoo.nn.attention import softmax

pytestmark = pytest.mark.usefixtures("preloaded_processes")


def assert_agrees(study):
    wrong = [f"{row.name}: {row.ratio:.3f}" for row in study.rows if not row.agrees]
    assert not wrong


def test_pairs_and_triples_meet_as_often_as_lemma_2_says():
    assert_agrees(theory.co_occurrence(nodes=12, size=4, draws=3000))


def test_the_variance_is_that_of_lemma_3():
    assert_agrees(theory.variance(256, sizes=(2, 8, 32), draws=60))


def test_the_error_falls_as_theorem_1_says():
    assert_agrees(theory.trajectories(nodes=96, sizes=(2, 3, 5, 9), draws=3))


def test_softmax_in_batches_has_a_bias_of_order_1_over_p():
    assert_agrees(theory.softmax_bias(nodes=256, sizes=(16, 32, 64), draws=400))


@pytest.mark.parametrize("order", [torch.arange(256), torch.randperm(256)], ids=["none", "one"])
def test_batches_that_are_not_random_are_found_out(monkeypatch, order):
    monkeypatch.setattr(
        "zoo.nn.random_batch_attention.random_order", lambda n, seed, device="cpu": order[:n]
    )
    study = theory.variance(256, sizes=(2, 8), draws=20)
    assert not all(row.agrees for row in study.rows)


def test_the_kernel_keeps_particles_on_the_sphere():
    system = theory._draw(20)
    force = theory._kernel(system.x, system, system.x, system.weights)
    assert (force * system.x.unsqueeze(1)).sum(-1).abs().max() < 1e-12
    assert force.diagonal(dim1=0, dim2=1).abs().max() < 1e-12


def test_the_force_of_one_batch_is_the_full_force():
    system = theory._draw(10)
    kernel = torch.zeros(10, 10, 3, dtype=torch.double)
    for i in range(10):
        for j in range(10):
            x, y = system.x[i], system.x[j]
            strength = torch.exp(x @ system.w_matrix.T @ y) * system.weights[j]
            kernel[i, j] = strength * (y - (y @ x) * x)
    expected = torch.stack([kernel[i, torch.arange(10) != i].mean(0) for i in range(10)])
    torch.testing.assert_close(theory._force(system, 10), expected, rtol=1e-9, atol=1e-12)


def test_the_plain_form_is_softmax():
    q, k, v = torch.randn(3, 30, 2, 4, dtype=torch.double)
    torch.testing.assert_close(cost.plain_softmax(q, k, v), softmax(q, k, v))


def test_exponents_are_those_of_the_larger_sizes():
    costs = {2**i: cost.Cost(max(1e-3, (2**i) ** 2 * 1e-9), 0) for i in range(8, 16)}
    assert abs(cost.exponent(costs) - 2) < 1e-9


def test_a_method_stops_before_it_takes_too_long():
    def measure(count):
        return 0, count * 1e-2

    counts = [2**i for i in range(8, 16)]
    assert max(cost._curve(measure, 1.0, 20.0, int, counts)) == 1024
    assert max(cost._curve(measure, 2.0, 20.0, int, counts)) == 512


@pytest.mark.slow
def test_the_costs_of_small_sizes(monkeypatch, tmp_path):
    monkeypatch.setitem(cost.LONGEST, "quick", 0.2)
    monkeypatch.setattr(cost, "LARGEST", 4 * 1024**2)
    study = cost.rba_cost(quick=True, heads=1, dim=4, largest=4096)
    assert [len(plot.lines) for plot in study.plots] == [6, 6, 5, 5, 2]
    assert max(study.plots[0].lines["softmax, N x N"][0]) == 1024
    assert {row.name for row in study.rows} >= {"exponent of the time in N: rba around linear"}
    for plot in study.plots[:4]:  # lines, and not dots alone
        assert len(plot.lines["linear"][0]) > 1 and "would take over 0.2 s" in plot.note
    write_study(study, tmp_path)


def test_what_was_not_measured_has_an_empty_cell():
    layers = {"softmax": {4096: cost.Cost(0.5, None)}, "linear": {4096: cost.Cost(0.1, 2**20)}}
    softmax_row, linear_row = cost._table(layers, {"linear": {4096: cost.Cost(0.2, None)}})
    assert softmax_row["MiB"] is None and softmax_row["ms of a step"] is None
    assert linear_row["MiB"] == 1 and linear_row["ms of a step"] == 200
    assert linear_row["MiB of a step"] is None


def test_it_is_written_down(tmp_path):
    drawn = {"measured": ([1.0, 2.0], [1.0, 4.0]), "predicted": ([1.0, 2.0], [1.0, 4.0])}
    plot = Series("A plot", "p", drawn, dashed=("predicted",))
    study = Study("small", [Row("a, b", 1.0, 2.0, 0.1)], [plot])
    table, lines, picture = write_study(study, tmp_path / "new" / "folder")
    row = next(csv.DictReader(table.open()))
    assert row["name"] == "a, b" and float(row["ratio"]) == 0.5 and row["agrees"] == "False"
    assert lines.read_text().splitlines()[1] == "A plot,p,measured,1.0,1.0"
    assert picture.read_bytes().startswith(b"\x89PNG")


SMALLEST = {
    "batching": ["--nodes", "20000", "--steps", "3", "--dim", "4"],
    "difformer_energy": ["--layers", "4"],
    "rba_clusters": ["--epochs", "1", "--dim", "4"],
    "rba_control": [],
    "rba_cost": ["--largest", "4096", "--heads", "1", "--dim", "4"],
    "rba_devices": ["--nodes", "4096", "--most", "2", "--dim", "4"],
    "rba_evaluation": ["--recipe", "small.yaml"],
    "rba_pairs": ["--largest", "1024"],
    "rba_theory": [],
    "transfer": ["--source", "karate", "--targets", "karate", "--epochs", "1"],
}
"""Each script of a study, and options with which it is quickest."""

SMALL = """
dataset: {name: sbm, nodes: 200, classes: 3, split: ratio-50-25-25}
model: {name: sgformer, dim: 8, attention: {name: rba, size: 8, inner: softmax}}
train: {epochs: 5}
"""

SCRIPTS = Path(study.__file__).parent


@pytest.mark.parametrize(
    "name",
    [
        name if name == "rba_theory" else pytest.param(name, marks=pytest.mark.slow)
        for name in SMALLEST
    ],
)
def test_each_script_writes_its_files(name, tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL)
    words = [SCRIPTS / f"{name}.py", "--quick", *SMALLEST[name], "--out", "here"]
    call = [sys.executable, "-W", "ignore", *map(str, words)]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    written = {each.name: each.stat().st_size for each in (tmp_path / "here").iterdir()}
    stem = name.replace("_", "-")
    assert {f"{stem}.csv", f"{stem}-table.csv"} & set(written) and all(written.values())
    assert "written: here/" in done.stdout


def test_every_study_is_run_by_make_and_by_its_test():
    runs = {path.stem for path in SCRIPTS.glob("*.py") if "\n    run(" in path.read_text()}
    makefile = (SCRIPTS.parents[1] / "Makefile").read_text()
    assert runs == set(SMALLEST) and set(makefile.partition("\nSTUDIES := ")[2].split()) >= runs


def test_what_disagrees_ends_with_1_and_what_is_told_alone_with_0(monkeypatch, tmp_path, capsys):
    def small(*, quick: bool = False, sizes: list[int] = [2, 4]) -> Study:  # noqa: B006
        tolerance = math.inf if quick else 0.1
        return Study("small", [Row("a time", sum(sizes), 3.0, tolerance)])

    for words, code, said in (([], 1, "NO"), (["--quick"], 0, "not judged"), 
                              (["--sizes", "1", "2"], 0, "yes")):  # fmt: skip
        monkeypatch.setattr("sys.argv", ["small.py", *words, "--out", str(tmp_path / "new")])
        with pytest.raises(SystemExit) as left:
            study.run(small)
        assert left.value.code == code and said in capsys.readouterr().out
    assert (tmp_path / "new" / "small.csv").is_file()


def test_a_quick_study_of_times_judges_none(monkeypatch):
    monkeypatch.setattr(cost, "_attention", lambda spec, nodes, **how: None)
    monkeypatch.setattr(cost, "_training", lambda spec, nodes, **how: None)
    monkeypatch.setattr(cost, "_seconds", lambda call, device: (0.01, 0.01))  # of a busy machine
    monkeypatch.setattr(cost, "_bytes", lambda call, device: (2**20, 0.01))
    quick, whole = (cost.rba_cost(quick=each, largest=2**12) for each in (True, False))
    assert quick.rows and all(row.agrees for row in quick.rows)
    assert not all(row.agrees for row in whole.rows)


def test_the_same_seed_gives_the_same_study():
    torch.manual_seed(0)
    first = theory.co_occurrence(nodes=12, size=4, draws=20)
    torch.manual_seed(0)
    assert theory.co_occurrence(nodes=12, size=4, draws=20) == first


def test_the_control_has_every_norm_with_and_without_batches():
    found = rba_control.variants("sgformer", [16, 64])
    assert list(found) == [
        ("native, frobenius", None),
        ("rba, frobenius", 16),
        ("rba, frobenius", 64),
        ("native, row", None),
        ("rba, row", 16),
        ("rba, row", 64),
        ("softmax", None),
    ]
    assert list(rba_control.variants("htgn", [16])) == [
        ("native", None),
        ("rba", 16),
        ("softmax", None),
    ]


def test_the_control_trains_every_variant(monkeypatch, tmp_path):
    monkeypatch.setattr(
        "zoo.runs.compare.train_apart",
        lambda recipe, device, runs, **_: run_recipe(recipe, device="cpu", runs=runs),
    )
    monkeypatch.setattr(rba_control, "QUICK", ["train.epochs=2", "seeds=[0]", "model.dim=8"])
    study = rba_control.rba_control(quick=True)
    assert [row["attention"] for row in study.table] == [
        "native, frobenius",
        "rba, frobenius",
        "native, row",
        "rba, row",
    ]
    assert all(0 < row["test"] <= 1 for row in study.table)
    write_study(study, tmp_path)
    assert (tmp_path / "rba-control-table.csv").is_file()


def test_a_model_without_attention_has_no_control():
    with pytest.raises(ZooError, match="model with an `attention` option is called 'gcn'"):
        rba_control.rba_control(model="gcn")


def test_the_spread_over_partitions_falls_as_they_are_averaged(tmp_path):
    recipe = tmp_path / "small.yaml"
    recipe.write_text(SMALL)
    study = rba_evaluation.rba_evaluation(recipe=str(recipe))
    assert_agrees(study)
    assert study.table[-1]["inference"] == "full" and study.table[-1]["std"] == 0


def test_a_recipe_without_rba_control_has_no_spread():
    with pytest.raises(ZooError, match="has no `attention: rba`"):
        rba_evaluation.rba_evaluation(recipe="gcn-cora")


def test_the_largest_graph_is_on_the_line_through_two():
    costs = {
        nodes: devices.Cost(0, step, 0, 0.0, 0.0)
        for nodes, step in ((1000, 3_000_000), (2000, 5_000_000))
    }
    assert devices._fitting(costs, 101_000_000) == 50_000


@pytest.mark.slow
def test_two_processes_hold_half_of_the_attention_each():
    nodes = 32_768  # enough for what a process holds beside its nodes to be small
    alone = devices._measure(["none"], 1, [nodes], 64)["none"][nodes]
    local = devices._measure(["local"], 2, [nodes], 64)["local"][nodes]
    assert local.attention < 0.6 * alone.attention
    assert alone.sent == 0 and local.sent > 0


@pytest.mark.slow
def test_a_gain_is_that_of_the_pairs():
    pair = transfer.Pair([0.5, 0.6, 0.7], [0.6, 0.72, 0.78])
    assert abs(pair.gain - 0.1) < 1e-12
    assert abs(pair.margin - 4.302653 * 0.02 / 3**0.5) < 1e-6  # t(2), 97.5 %
    assert transfer._wins(pair) and not transfer._wins(transfer.Pair(pair.tuned, pair.scratch))


@pytest.mark.slow
def test_weights_are_transferred_and_scratch_is_its_twin(tmp_path):
    study = transfer.transfer_study(quick=True, source="digits", targets=["digits"])
    assert [row["model"] for row in study.table] == ["gcn", "sgformer"]
    for row in study.table:  # the same graph: its weights are better than none
        assert float(row["gain"].split(" ")[0]) > 0.1
    write_study(study, tmp_path)


def ctrl_c(*rest, **options):
    """Train as `run_recipe` does; Ctrl-C comes in the second epoch."""

    def watch(seed, epoch):
        if epoch.epoch == 1:
            signal.raise_signal(signal.SIGINT)

    return run_recipe(*rest, watch=watch, **options)


def test_ctrl_c_ends_a_study_and_not_one_training_of_it(monkeypatch, tmp_path):
    monkeypatch.setattr(transfer, "run_recipe", ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        transfer.transfer_study(quick=True, source="karate", targets=["karate"])
    monkeypatch.setattr(energy, "run_recipe", ctrl_c)
    model = {"name": "difformer", "dim": 4, "layers": 1}
    with pytest.raises(KeyboardInterrupt):
        energy._trained({"dataset": "karate", "model": model}, load_data("karate"), [0, 1], 3)
    stopped = SimpleNamespace(interrupted=True)
    monkeypatch.setattr(rba_evaluation, "fit", lambda *rest, **options: stopped)
    recipe = tmp_path / "small.yaml"
    recipe.write_text(
        "dataset: karate\nmodel: {name: sgformer, dim: 4, attention: {name: rba, size: 8}}\n"
        "train: {epochs: 2}\n"
    )
    with pytest.raises(KeyboardInterrupt):
        rba_evaluation.rba_evaluation(recipe=str(recipe))


@pytest.mark.parametrize(
    ("of", "words", "said"),
    [
        (rba_control.rba_control, "--sizes 0", "sizes.0\n  Input should be greater than 0"),
        (rba_control.rba_control, "--model gcn", "option is called 'gcn'"),
        (rba_evaluation.rba_evaluation, "--recipe gcn-cora", "has no `attention: rba`"),
        (rba_evaluation.rba_evaluation, "--partitions 1", "partitions\n  Input should be"),
        (
            cost.rba_cost,
            "--largest 512",
            "largest\n  Input should be greater than or equal to 4096",
        ),
        (theory.rba_theory, "--seed -1", "seed\n  Input should be greater than or equal to 0"),
        (theory.rba_theory, "--sed 1", "unrecognized arguments: --sed"),
        (
            theory.rba_theory,
            "--particles 128",
            "particles\n  Input should be greater than or equal",
        ),
        (theory.rba_theory, "--particles 520", "Input should be a multiple of 128"),
        (
            devices.rba_devices,
            "--nodes 4",
            "nodes\n  Input should be greater than or equal to 4096",
        ),
        (batching.batching_study, "--nodes 100", "greater than or equal to 20000"),
        (
            energy.difformer_energy,
            "--seeds 1",
            "seeds\n  Input should be greater than or equal to 2",
        ),
    ],
)
def test_options_of_which_no_study_can_be_made_are_refused(
    of, words, said, monkeypatch, tmp_path, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["study.py", *words.split()])
    with pytest.raises(SystemExit) as left:
        study.run(of)
    assert left.value.code == 2 and said in capsys.readouterr().err


def test_the_smallest_cost_has_lines_and_not_dots(monkeypatch):
    monkeypatch.setattr(cost, "_attention", lambda spec, nodes, **how: None)
    monkeypatch.setattr(cost, "_training", lambda spec, nodes, **how: None)
    monkeypatch.setattr(cost, "_seconds", lambda call, device: (0.01, 0.01))
    monkeypatch.setattr(cost, "_bytes", lambda call, device: (2**20, 0.01))
    for quick in (True, False):
        study = cost.rba_cost(quick=quick, heads=1, dim=2, largest=2**12)
        assert [len(x) for x, _ in study.plots[2].lines.values()] == [2] * 5


def test_the_fewest_particles_are_enough():
    sizes = (2, theory.LARGEST)
    assert_agrees(theory.variance(4 * theory.LARGEST, sizes=sizes, draws=60))
