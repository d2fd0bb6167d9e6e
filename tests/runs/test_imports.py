"""What a recipe imports is run by who trains with that recipe, and by nobody who looks at it."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from scripts import script

from zoo import DATASETS, MODELS, ZooError
from zoo.cli import doctor
from zoo.config.options import LOADED
from zoo.config.recipe import recipe_text
from zoo.runs import compare as comparing
from zoo.runs import earlier_runs
from zoo.runs.compare import candidates, compare
from zoo.runs.earlier_runs import find_finished, train_apart
from zoo.runs.resolve import load_recipe, resolve, write_out
from zoo.runs.run import resume_run, run_recipe

CODE = """\
from pathlib import Path
from zoo import DATASETS, Model, register_model
from zoo.data.generated import sbm
from torch import nn

with Path({log!r}).open("a") as file:
    file.write("ran ")


@register_model("stranger")
class Stranger(Model):
    def __init__(self, in_dim: int, out_dim: int, *, dim: int = 4):
        super().__init__()
        self.head = nn.Linear(in_dim, out_dim)

    def features(self, graph, x):
        return x


def ring(*, nodes: int = 60):
    return sbm(nodes=nodes, classes=3, dim=4)


DATASETS["ring"] = ring
"""

RECIPE = {
    "dataset": {"name": "sbm", "nodes": 60, "classes": 3, "dim": 4},
    "model": {"name": "stranger"},
    "train": {"epochs": 2},
    "seeds": [3, 4],
    "imports": ["code.py"],
}


@pytest.fixture
def ran(tmp_path):
    """Return how often the code beside `mine.yaml` has run since it was asked last."""
    log = tmp_path / "log"
    (tmp_path / "code.py").write_text(CODE.format(log=str(log)))
    (tmp_path / "mine.yaml").write_text(recipe_text(RECIPE))

    def forget():
        for name in [each for each in sys.modules if each.startswith("zoo_import ")]:
            del sys.modules[name]
        MODELS.pop("stranger", None)
        DATASETS.pop("ring", None)

    def times():
        found = log.read_text().count("ran") if log.exists() else 0
        log.unlink(missing_ok=True)
        forget()
        return found

    yield times
    forget()


@pytest.fixture
def run(ran, tmp_path):
    """A run of `mine.yaml` that was stopped in its second seed, as another process finds it."""

    def stop(seed, epoch):
        if seed == 4:
            raise KeyboardInterrupt

    folder = Path(run_recipe(tmp_path / "mine.yaml", runs=tmp_path / "runs", watch=stop)["folder"])
    assert ran() == 1
    (folder / "summary.json").unlink()
    return folder


def test_reading_a_recipe_runs_nothing(ran, tmp_path):
    recipe = load_recipe(tmp_path / "mine.yaml")
    plan = resolve(recipe)
    assert plan.code is None and plan.model == {"name": "stranger"}
    assert plan.dataset["noise"] == 1.0  # what is known has all its options
    assert write_out(recipe)["imports"] == [str(tmp_path / "code.py")]
    assert ran() == 0
    with pytest.raises(ZooError, match=r"imports code, .*code.py, which was not run"):
        run_recipe(plan, runs=tmp_path / "runs")
    assert ran() == 0


def test_a_model_is_known_by_what_is_imported_beside_it(ran, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["dataset=karate", "imports=[code.py]", "train.epochs=2"]
    with pytest.raises(ZooError, match="no recipe or model is called 'stranger'"):
        load_recipe("stranger", words)
    assert ran() == 0
    recipe = load_recipe("stranger", words, trust=True)
    assert recipe.name == "stranger" and len(recipe.imports) == 1 and ran() == 1
    found = candidates(["stranger", "gcn"], words, baselines=False)
    assert [each.plan.model["name"] for each in found] == ["stranger", "gcn"]


@pytest.mark.parametrize("older", [True, False])
def test_a_file_that_python_has_imported_is_that_module(older, ran, tmp_path, monkeypatch):
    """What its attention keeps would be empty otherwise; one that has changed since runs anew."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", older)
    (tmp_path / "of_mine.py").write_text((tmp_path / "code.py").read_text())
    if older:  # than the zoo in this process
        os.utime(tmp_path / "of_mine.py", (LOADED - 60, LOADED - 60))
    importlib.invalidate_caches()
    mine = importlib.import_module("of_mine")
    (tmp_path / "mine.yaml").write_text(recipe_text({**RECIPE, "imports": ["of_mine.py"]}))
    run_recipe(load_recipe(tmp_path / "mine.yaml"), runs=tmp_path / "runs")
    assert MODELS["stranger"] is mine.Stranger and ran() == 1
    (tmp_path / "of_mine.py").write_text((tmp_path / "code.py").read_text() + "# more\n")
    resolve(load_recipe(tmp_path / "mine.yaml"), trust=True)
    assert MODELS["stranger"] is not mine.Stranger and ran() == 1
    del sys.modules["of_mine"]


def test_training_runs_it_once_and_checks_its_words_then(ran, tmp_path):
    recipe = load_recipe(tmp_path / "mine.yaml", ["model.dimm=3"])
    with pytest.raises(ZooError, match=r"model.dimm: .*did you mean 'dim'"):
        run_recipe(recipe, runs=tmp_path / "runs")
    assert ran() == 1
    run_recipe(load_recipe(tmp_path / "mine.yaml"), runs=tmp_path / "runs")
    assert ran() == 1
    with pytest.raises(ZooError, match=r"override 'model.dimm=3'"):
        load_recipe(tmp_path / "mine.yaml", ["model.dimm=3"], trust=True)
    assert ran() == 1


def test_the_commands_that_look_run_nothing(ran, command, tmp_path):
    code, out, err = command("show", "mine.yaml", "train.lr=0.5")
    assert code == 0 and "model: {name: stranger}" in out and "lr: 0.5" in out
    assert "imports were not run (code.py)" in err and "--trust" in err and ran() == 0
    code, out, err = command("estimate", "mine.yaml")
    assert code == 2 and not out and "--trust" in err and err.count("\n") == 1 and ran() == 0
    (tmp_path / "recipes" / "gcn").mkdir(parents=True)
    (tmp_path / "recipes" / "gcn" / "mine.yaml").write_text(recipe_text(RECIPE))
    (tmp_path / "recipes" / "gcn" / "code.py").write_text((tmp_path / "code.py").read_text())
    assert script("pages").write_pages(tmp_path / "recipes") and ran() == 0
    code, out, err = command("show", "mine.yaml", "--trust")
    assert code == 0 and "dim: 4}" in out and not err and ran() == 1


def test_weights_name_the_code_that_they_need_or_that_has_changed(ran, command, tmp_path, caplog):
    folder = run_recipe(tmp_path / "mine.yaml", runs=tmp_path / "runs")["folder"]
    assert ran() == 1
    tuning = ("finetune", folder, "--data", "{name: sbm, nodes: 90, dim: 4}", "--quiet")
    for words in (("evaluate", folder), tuning):
        code, _, err = command(*words)
        assert code == 2 and "import that first, `--import code.py`." in err and ran() == 0
        code, _, err = command(*words, "--import", "code.py")
        assert code == 0 and "has changed" not in caplog.text and ran() == 1, err
    code, _, err = command(*tuning, "train.epoch=1", "--import", "code.py")
    assert code == 2 and "epochs" in err and "import that first" not in err and ran() == 1
    (tmp_path / "code.py").write_text((tmp_path / "code.py").read_text() + "# another line\n")
    for words in (("evaluate", folder), tuning):
        caplog.clear()
        code, _, err = command(*words, "--import", "code.py")
        assert code == 0 and caplog.text.count("code.py has changed since") == 1 and ran() == 1, err


def test_finished_runs_are_found_and_read_without_running_them(ran, tmp_path, monkeypatch):
    mine, runs = str(tmp_path / "mine.yaml"), tmp_path / "runs"
    folder = Path(run_recipe(mine, runs=runs)["folder"])
    trained = []
    monkeypatch.setattr(comparing, "train_apart", lambda plan, *_, **__: trained.append(plan))
    monkeypatch.setattr("zoo.runs.compare.BASELINES", ())
    assert ran() == 1
    [row] = compare(candidates([str(folder)]), runs=runs)
    assert row["read"] and not trained and ran() == 0
    # Nor if there is nothing to read in it.
    summary = (folder / "summary.json").read_text()
    (folder / "summary.json").write_text("{")
    with pytest.raises(ZooError, match="summary.json cannot be read"):
        candidates([str(folder)])
    with pytest.raises(ZooError, match="imports code"):
        train_apart(resolve(load_recipe(folder / "recipe.yaml")), "cpu", runs)
    assert ran() == 0 and not trained
    (folder / "summary.json").write_text(summary)
    # A stranger's folder that is called like a recipe of mine.
    own = load_recipe({"dataset": RECIPE["dataset"], "model": "gcn"}).model_copy(
        update={"name": "mine"}
    )
    assert find_finished(resolve(own), runs) is None and ran() == 0
    # The recipe itself is named to be trained: its code runs, and its run is found.
    plan = candidates([mine])[0].plan
    assert find_finished(plan, runs)["folder"] == str(folder) and ran() == 1
    (tmp_path / "code.py").write_text("# changed\n" + (tmp_path / "code.py").read_text())
    assert find_finished(candidates([mine])[0].plan, runs) is None


def test_a_strangers_run_that_is_looked_at_runs_none_of_its_code(ran, command, tmp_path):
    folder = Path(run_recipe(tmp_path / "mine.yaml", runs=tmp_path / "theirs")["folder"])
    assert ran() == 1
    for words in (
        ("show", folder / "recipe.yaml"),
        ("report", folder),
        ("compare", folder),
        ("list", "models"),
        ("list", "recipes"),
        ("schema",),
    ):
        code, _, err = command(*words)
        assert code == 0 and ran() == 0, err
    (folder / "summary.json").unlink()  # as one that was killed before it
    assert command("report", folder)[0] == 0 and ran() == 0
    assert command("compare", folder)[0] == 2 and ran() == 0


def test_going_on_with_a_run_says_which_code_it_runs(run, ran, command, tmp_path):
    code, _, err = command("train", "--resume", run)
    assert code == 0 and ran() == 1
    assert f"the recipe imports code, which is run: {tmp_path / 'code.py'}" in err
    assert "has changed" not in err
    code, _, err = command("train", tmp_path / "mine.yaml")
    assert code == 0 and ran() == 1 and "the recipe imports code, which is run" in err


def test_going_on_with_other_code_says_that_it_has_changed(run, ran, command, tmp_path):
    with (tmp_path / "code.py").open("a") as file:
        file.write("# and more\n")
    code, _, err = command("train", "--resume", run)
    assert code == 0 and ran() == 1
    assert f"{tmp_path / 'code.py'} has changed since the run began" in " ".join(err.split())


def test_what_a_run_of_before_has_imported_is_read_in_its_signature(run, ran, tmp_path):
    path = run / "environment.json"
    known = json.loads(path.read_text())
    imports = known.pop("imports")
    assert [*imports] == [str(tmp_path / "code.py")]
    path.write_text(json.dumps(known))
    (run / "signature.json").write_text(json.dumps({"recipe": "", "imports": imports}))
    said = []
    resume_run(run, tell=said.append)
    assert not said
    (run / "signature.json").write_text(json.dumps({"imports": {str(tmp_path / "code.py"): "0"}}))
    (run / "summary.json").unlink()
    resume_run(run, tell=said.append)
    assert len(said) == 1 and "code.py has changed since the run began" in said[0]


@pytest.mark.parametrize("package", [False, True])
def test_a_module_is_its_code_as_a_file_is(ran, tmp_path, monkeypatch, package):
    """A run of another version is not read as finished; going on with it says that it changed."""
    code = (tmp_path / "code.py").read_text()
    place = tmp_path / "lib" / ("ours/part.py" if package else "ours.py")
    place.parent.mkdir(parents=True)
    place.write_text(code)
    if package:
        (place.parent / "__init__.py").write_text("from ours import part\n")
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    (tmp_path / "mine.yaml").write_text(recipe_text({**RECIPE, "imports": ["ours"]}))

    def forget():
        for name in ("ours", "ours.part"):
            sys.modules.pop(name, None)
        ran()

    def anew():
        forget()
        return resolve(load_recipe(tmp_path / "mine.yaml"), trust=True)

    done, runs = run_recipe(anew(), runs=tmp_path / "modules"), tmp_path / "modules"
    assert find_finished(anew(), runs)["folder"] == done["folder"]
    (Path(done["folder"]) / "summary.json").unlink()
    assert resume_run(Path(done["folder"]))["folder"] == done["folder"]
    place.write_text(code + "# changed\n")
    assert find_finished(anew(), runs) is None
    (Path(done["folder"]) / "summary.json").unlink()
    forget()
    said = []
    resume_run(Path(done["folder"]), tell=said.append)
    assert len(said) == 1 and "ours" in said[0] and "has changed since the run began" in said[0]


def test_runs_by_other_code_of_the_zoo_are_not_read(tmp_path, monkeypatch, caplog):
    recipe = {"dataset": RECIPE["dataset"], "model": "mlp", "train": {"epochs": 1}, "seeds": [0]}
    plan = resolve(load_recipe(recipe))
    done = run_recipe(plan, runs=tmp_path)
    assert find_finished(plan, tmp_path)["folder"] == done["folder"]
    monkeypatch.setattr(earlier_runs, "code_sha256", lambda: "0" * 16)
    assert find_finished(plan, tmp_path) is None and "by other code of the zoo" in caplog.text
    assert find_finished(plan, tmp_path, any_code=True)["folder"] == done["folder"]


def test_baselines_learn_from_data_that_a_recipe_imports(ran, tmp_path):
    ring = {**RECIPE, "dataset": "ring"}
    (tmp_path / "mine.yaml").write_text(recipe_text(ring))
    entries = candidates([str(tmp_path / "mine.yaml")])
    assert [each.plan.imports for each in entries] == 3 * [[str(tmp_path / "code.py")]]
    folder = Path(run_recipe(tmp_path / "mine.yaml", runs=tmp_path / "runs")["folder"])
    ran()
    with pytest.raises(ZooError, match=r"imports code, .*code.py, which is not run to read a run"):
        candidates([str(folder)])
    assert ran() == 0


def test_runs_on_data_by_a_path_are_called_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "graphs" / "mine").mkdir(parents=True)
    rows = "".join(f"{i},{i % 5},{'ab'[i % 2]}\n" for i in range(12))
    (tmp_path / "graphs" / "mine" / "nodes.csv").write_text("id,age,label\n" + rows)
    (tmp_path / "graphs" / "mine" / "edges.csv").write_text("source,target\n0,1\n2,3\n")
    monkeypatch.chdir(tmp_path / "graphs")
    for path in ("../graphs/mine", str(tmp_path / "graphs" / "mine")):
        recipe = {"dataset": path, "model": "sage", "train": {"epochs": 1}}
        (tmp_path / "one[1].yaml").write_text(recipe_text(recipe))
        entries = candidates([str(tmp_path / "one[1].yaml")])
        assert [each.plan.recipe.name for each in entries] == [
            "one[1]",
            "gcn-mine",
            "mlp-mine",
            "boosting-mine",
        ]
    summary = run_recipe(entries[0].plan, runs=tmp_path / "runs")
    assert Path(summary["folder"]).name.startswith("one[1]-")
    assert find_finished(entries[0].plan, tmp_path / "runs") == summary


@pytest.mark.parametrize(
    "code,said",
    [
        ("x = 1\n1 / 0\n", "own.py:2 has raised ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)\n", "own.py:2 has raised SystemExit: 3"),
        ("def f(:\n", "SyntaxError: .*line 1"),
    ],
)
def test_what_is_wrong_with_imported_code_names_the_line(tmp_path, code, said):
    (tmp_path / "own.py").write_text(code)
    (tmp_path / "r.yaml").write_text("imports: [own.py]\ndataset: karate\nmodel: mlp\n")
    with pytest.raises(ZooError, match=said):
        load_recipe(tmp_path / "r.yaml", trust=True)
    (tmp_path / "own.py").write_text("import json\njson.loads('x')\n")
    with pytest.raises(ZooError, match="own.py:2 has raised JSONDecodeError"):
        load_recipe(tmp_path / "r.yaml", trust=True)
    (tmp_path / "r.yaml").write_text("imports: [no_such]\ndataset: karate\nmodel: mlp\n")
    with pytest.raises(ZooError, match="No module named 'no_such'; correct it"):
        load_recipe(tmp_path / "r.yaml", trust=True)


def test_old_bytecode_beside_a_file_is_not_run(ran, tmp_path):
    import py_compile

    good, at = (tmp_path / "code.py").read_text(), (10**9, 10**9)
    (tmp_path / "code.py").write_text("raise SystemExit('bytecode')".ljust(len(good)))
    os.utime(tmp_path / "code.py", at)
    py_compile.compile(tmp_path / "code.py")
    (tmp_path / "code.py").write_text(good)
    os.utime(tmp_path / "code.py", at)
    assert load_recipe(tmp_path / "mine.yaml", trust=True) and ran() == 1


def test_modules_in_the_current_folder_are_not_taken_for_others(ran, tmp_path, monkeypatch):
    """What the zoo starts as `python -m zoo` does not look for modules in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("json", "yaml", "torch", "typing", "runpy", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'log')!r}, 'a').write('ran ')")
    (tmp_path / "evil-1.dist-info").mkdir()
    (tmp_path / "evil-1.dist-info" / "entry_points.txt").write_text(
        "[graph_transformer_zoo.models]\nevil = json\n"
    )
    call = subprocess.run

    def only_help(command, environment):
        done = call([*command[:4], "--help"], env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and "compare" in done.stdout
        return subprocess.CompletedProcess(command, 0, json.dumps({"done": True}))

    plan = resolve(load_recipe({"dataset": "karate", "model": "gcn"}))
    with monkeypatch.context() as here:
        here.setattr(earlier_runs, "_run", only_help)
        assert train_apart(plan, "cpu", tmp_path) == {"done": True}
    assert doctor._import("yaml") == (True, [yaml.__version__])
    root = Path(comparing.__file__).parents[1]
    called = re.findall(
        r"\[sys.executable, ([^,]*)", "".join(map(Path.read_text, root.rglob("*.py")))
    )
    assert len(called) >= 3 and set(called) == {'"-P"', "*sys.orig_argv[1:]]"}  # itself, again
    assert ran() == 0


def test_a_file_of_code_imports_what_lies_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "beside_it.py").write_text("NODES = 40\n")
    (tmp_path / "mine.py").write_text(
        "import beside_it\n"
        "from zoo import DATASETS\n"
        "from zoo.data.generated import sbm\n"
        'DATASETS["of-mine"] = lambda: sbm(nodes=beside_it.NODES, classes=2, dim=4)\n'
    )
    monkeypatch.chdir(tmp_path)  # what is typed is of this folder, not that of the recipe
    own = load_recipe("gcn-cora", ["imports=mine.py", "dataset=of-mine"], trust=True)
    assert own.imports == [str(tmp_path / "mine.py")]
    assert len(DATASETS["of-mine"]().y) == 40
