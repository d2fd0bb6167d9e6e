"""What a recipe imports is run by who trains with that recipe, and by nobody who looks at it."""

import hashlib
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
from zoo.config import own_key
from zoo.config.recipe import recipe_text
from zoo.experiments import compare as comparing
from zoo.experiments import imports as imports_of
from zoo.experiments import launch
from zoo.experiments.compare import compare
from zoo.experiments.contestants import contestants
from zoo.experiments.launch import finished, train_apart
from zoo.experiments.resolve import load_recipe, resolve, write_out
from zoo.experiments.run import resume_run, run_recipe, unfinished
from zoo.training.checkpoint import sealed_json, sealed_text, unsealed_json

CODE = """\
from pathlib import Path
from zoo import DATASETS, Model, register_model
from zoo.datasets.generated import sbm
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


def change(folder, **new):
    """Write a run's recipe anew, and all checksums of it."""
    text = recipe_text({**load_recipe(folder / "recipe.yaml").plain(), **new})
    (folder / "recipe.yaml").write_text(sealed_text(text))
    for path in (folder / "environment.json", *folder.glob("seed-*/result.json")):
        told = unsealed_json(path.read_bytes())
        told["recipe_sha256"] = hashlib.sha256(text.encode()).hexdigest()
        path.write_text(sealed_json(told))


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
    monkeypatch.setattr("zoo.experiments.contestants.BASELINES", ())
    assert ran() == 1
    [row] = compare(contestants([str(folder)]), runs=runs)
    assert row["read"] and not trained and ran() == 0
    # Nor if there is nothing to read in it.
    summary = (folder / "summary.json").read_text()
    (folder / "summary.json").write_text("{}")
    with pytest.raises(ZooError, match="summary.json is damaged"):
        contestants([str(folder)])
    with pytest.raises(ZooError, match="imports code"):
        train_apart(resolve(load_recipe(folder / "recipe.yaml")), "cpu", runs)
    assert ran() == 0 and not trained
    (folder / "summary.json").write_text(summary)
    # A stranger's folder that is called like a recipe of mine.
    own = load_recipe({"dataset": RECIPE["dataset"], "model": "gcn"}).model_copy(
        update={"name": "mine"}
    )
    assert finished(resolve(own), runs) is None and ran() == 0
    # The recipe itself is named to be trained: its code runs, and its run is found.
    plan = contestants([mine])[0].plan
    assert finished(plan, runs)["folder"] == str(folder) and ran() == 1
    (tmp_path / "code.py").write_text("# changed\n" + (tmp_path / "code.py").read_text())
    assert finished(contestants([mine])[0].plan, runs) is None


@pytest.mark.parametrize("package", [False, True])
def test_a_module_is_its_code_as_a_file_is(ran, tmp_path, monkeypatch, package):
    """A run of another version is neither read as finished nor gone on with unasked."""
    code = (tmp_path / "code.py").read_text()
    place = tmp_path / "lib" / ("ours/part.py" if package else "ours.py")
    place.parent.mkdir(parents=True)
    place.write_text(code)
    if package:
        (place.parent / "__init__.py").write_text("from ours import part\n")
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    (tmp_path / "mine.yaml").write_text(recipe_text({**RECIPE, "imports": ["ours"]}))

    def anew():
        for name in ("ours", "ours.part"):
            sys.modules.pop(name, None)
        ran()
        return resolve(load_recipe(tmp_path / "mine.yaml"), trust=True)

    done, runs = run_recipe(anew(), runs=tmp_path / "modules"), tmp_path / "modules"
    assert finished(anew(), runs)["folder"] == done["folder"]
    (Path(done["folder"]) / "summary.json").unlink()
    assert resume_run(Path(done["folder"]))["folder"] == done["folder"]
    place.write_text(code + "# changed\n")
    assert finished(anew(), runs) is None
    (Path(done["folder"]) / "summary.json").unlink()
    MODELS.pop("stranger")
    with pytest.raises(ZooError, match=r"ours.* has changed since you began this run"):
        resume_run(Path(done["folder"]))


def test_a_module_from_elsewhere_is_not_run(ran, tmp_path, monkeypatch):
    """Neither one of the same name, nor the package that a module is in, of which all runs."""
    for folder in ("lib", "other"):
        for path, text in (("theirs/__init__.py", ""), ("theirs/part.py", "code.py")):
            (tmp_path / folder / path).parent.mkdir(parents=True, exist_ok=True)
            text = text and (tmp_path / text).read_text()
            (tmp_path / folder / path).write_text(text)
    (tmp_path / "mine.yaml").write_text(recipe_text({**RECIPE, "imports": ["theirs.part"]}))
    with monkeypatch.context() as here:
        here.syspath_prepend(str(tmp_path / "lib"))
        folder = Path(run_recipe(tmp_path / "mine.yaml", runs=tmp_path / "modules")["folder"])
    (folder / "summary.json").unlink()
    ran()
    for name in ("theirs", "theirs.part"):
        sys.modules.pop(name, None)
    (tmp_path / "other/theirs/__init__.py").write_text((tmp_path / "code.py").read_text())
    monkeypatch.syspath_prepend(str(tmp_path / "other"))
    with pytest.raises(ZooError, match=r"other/theirs has changed .*or is another"):
        resume_run(folder)
    assert ran() == 0


def test_runs_by_other_code_of_the_zoo_are_not_read(tmp_path, monkeypatch, caplog):
    recipe = {"dataset": RECIPE["dataset"], "model": "mlp", "train": {"epochs": 1}, "seeds": [0]}
    plan = resolve(load_recipe(recipe))
    done = run_recipe(plan, runs=tmp_path)
    assert finished(plan, tmp_path)["folder"] == done["folder"]
    monkeypatch.setattr(launch, "code_sha256", lambda: "0" * 16)
    assert finished(plan, tmp_path) is None and "by other code of the zoo" in caplog.text
    assert finished(plan, tmp_path, any_code=True)["folder"] == done["folder"]


def test_baselines_learn_from_data_that_a_recipe_imports(ran, tmp_path):
    ring = {**RECIPE, "dataset": "ring"}
    (tmp_path / "mine.yaml").write_text(recipe_text(ring))
    entries = contestants([str(tmp_path / "mine.yaml")])
    assert [each.plan.imports for each in entries] == 3 * [[str(tmp_path / "code.py")]]
    folder = Path(run_recipe(tmp_path / "mine.yaml", runs=tmp_path / "runs")["folder"])
    ran()
    with pytest.raises(ZooError, match=r"imports code, .*code.py, which is not run to read a run"):
        contestants([str(folder)])
    assert ran() == 0


def test_a_run_goes_on_with_the_code_that_its_user_began_it_with(run, ran):
    assert os.stat(own_key.key_path()).st_mode & 0o777 == 0o600
    before = (run / "signature.json").read_text()
    summary = resume_run(run)
    assert ran() == 1 and len(summary["seeds"]) == 2 and not summary["interrupted"]
    assert (run / "signature.json").read_text() == before


DAMAGE = {
    "another user": lambda run: own_key.key_path().unlink(),
    "no signature": lambda run: (run / "signature.json").unlink(),
    "a signature of null": lambda run: (run / "signature.json").write_text("null"),
    "a signature of numbers": lambda run: (run / "signature.json").write_text(
        '{"recipe": 1, "imports": [], "hmac_sha256": 2}'
    ),
    "a deep signature": lambda run: (run / "signature.json").write_text("[" * 10**5),
    "bytes for a signature": lambda run: (run / "signature.json").write_bytes(b"\xff\x00"),
    "a signature that is a folder": lambda run: (
        (run / "signature.json").unlink(),
        (run / "signature.json").mkdir(),
    ),
    "a key that others can read": lambda run: own_key.key_path().chmod(0o644),
    "a key that is cut off": lambda run: own_key.key_path().write_bytes(b"short"),
    "another recipe": lambda run: change(run, seeds=[3, 4, 5]),
    "another import": lambda run: change(run, imports=[str(run.parents[1] / "other.py")]),
    "one import more": lambda run: change(run, imports=["os", str(run.parents[1] / "code.py")]),
    "changed code": lambda run: (run.parents[1] / "code.py").open("a").write("\n# and more\n"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_other_code_is_asked_about(case, run, ran, command, tmp_path):
    (tmp_path / "other.py").write_text((tmp_path / "code.py").read_text())
    DAMAGE[case](run)
    code, out, err = command("train", "--resume", run)
    assert code == 2 and not out and "--trust" in err and "code.py" in err or "other.py" in err
    assert err.count("\n") == 1 and ran() == 0
    if "recipe" in case or "import" in case:
        assert "recipe.yaml has changed" in err
    if case == "changed code":
        assert "code.py has changed" in err
    if case == "a deep signature":
        assert command("train", "--resume", run, "--trust")[0] == 0 and ran() == 1
        (run / "summary.json").unlink()
        (run / "seed-4" / "result.json").unlink()
        assert command("train", "--resume", run)[0] == 0  # it was signed anew


def test_a_folder_that_was_made_elsewhere(run, ran, tmp_path, monkeypatch):
    """Files that are unpacked belong to the user, and prove nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of another machine"))
    (tmp_path / "code.py").write_text((tmp_path / "code.py").read_text() + "# hostile\n")
    again = Path(run_recipe(tmp_path / "mine.yaml", runs=tmp_path / "theirs")["folder"])
    (again / "seed-4" / "result.json").unlink()
    ran()
    assert unfinished(again, 1)[1].code and ran() == 1  # there it goes on
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(ZooError, match="nothing shows that you began this run"):
        unfinished(again, 1)
    assert ran() == 0


def test_what_is_checked_is_what_runs(run, ran, tmp_path, monkeypatch):
    """Code that is replaced after it was looked at does not run, nor does a recipe."""
    import_file, code = imports_of._import_file, tmp_path / "code.py"

    def slowly(path, trust):
        change(run, imports=["os"])
        return import_file(path, trust)

    monkeypatch.setattr(imports_of, "_import_file", slowly)
    assert unfinished(run, 1)[1].imports == [str(code)]
    assert ran() == 1
    change(run, imports=[str(code)])
    digest = imports_of._digest

    def replaced(content):
        found = digest(content)
        if b"Stranger" in content:
            code.write_text("raise SystemExit('replaced')")
        return found

    monkeypatch.setattr(imports_of, "_import_file", import_file)
    monkeypatch.setattr(imports_of, "_digest", replaced)
    with pytest.raises(ZooError, match="code.py has changed"):  # when the words are checked
        for _ in range(2):
            unfinished(run, 1)
    assert ran() == 1


def test_a_run_writes_into_its_own_folder_alone(run, ran, command, tmp_path):
    """A stranger's folder may lead elsewhere, where going on would replace a README.md."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "README.md").write_text("mine")
    for name in ("seed-4", "metrics.jsonl"):
        kept = (run / name).rename(tmp_path / name)
        (run / name).symlink_to(tmp_path / "work")
        code, out, err = command("train", "--resume", run, "--trust")
        assert code == 2 and not out and "is a link" in err and ran() == 0
        (run / name).unlink()
        kept.rename(run / name)
    assert [each.name for each in (tmp_path / "work").iterdir()] == ["README.md"]
    assert (tmp_path / "work" / "README.md").read_text() == "mine"


def test_runs_on_data_by_a_path_are_called_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "graphs" / "mine").mkdir(parents=True)
    rows = "".join(f"{i},{i % 5},{'ab'[i % 2]}\n" for i in range(12))
    (tmp_path / "graphs" / "mine" / "nodes.csv").write_text("id,age,label\n" + rows)
    (tmp_path / "graphs" / "mine" / "edges.csv").write_text("source,target\n0,1\n2,3\n")
    monkeypatch.chdir(tmp_path / "graphs")
    for path in ("../graphs/mine", str(tmp_path / "graphs" / "mine")):
        recipe = {"dataset": path, "model": "sage", "train": {"epochs": 1}}
        (tmp_path / "one[1].yaml").write_text(recipe_text(recipe))
        entries = contestants([str(tmp_path / "one[1].yaml")])
        assert [each.plan.recipe.name for each in entries] == ["one[1]", "gcn-mine", "mlp-mine"]
    summary = run_recipe(entries[0].plan, runs=tmp_path / "runs")
    assert Path(summary["folder"]).name.startswith("one[1]-")
    assert finished(entries[0].plan, tmp_path / "runs") == summary


def test_without_a_home_nothing_is_signed_and_trust_is_asked_for(ran, tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "")
    (tmp_path / "file").write_text("")
    for state in ("relative", str(tmp_path / "file")):
        monkeypatch.setenv("XDG_STATE_HOME", state)
        folder = Path(run_recipe(tmp_path / "mine.yaml", runs=tmp_path / "runs")["folder"])
        assert not (folder / "signature.json").exists()
        (folder / "seed-4" / "result.json").unlink()
        with pytest.raises(ZooError, match="--trust"):
            resume_run(folder)
        assert len(resume_run(folder, trust=True)["seeds"]) == 2
    assert not list(tmp_path.rglob("key")) and not Path("/.local/state/zoo").exists()


@pytest.mark.parametrize(
    "code,said",
    [
        ("x = 1\n1 / 0\n", "ZeroDivisionError: division by zero in line 2 of .*own.py. Correct it"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 in line 2 of .*own.py"),
        ("def f(:\n", "SyntaxError: .*line 1"),
    ],
)
def test_what_is_wrong_with_imported_code_names_the_line(tmp_path, code, said):
    (tmp_path / "own.py").write_text(code)
    (tmp_path / "r.yaml").write_text("imports: [own.py]\ndataset: karate\nmodel: mlp\n")
    with pytest.raises(ZooError, match=said):
        load_recipe(tmp_path / "r.yaml", trust=True)
    (tmp_path / "own.py").write_text("import json\njson.loads('x')\n")
    with pytest.raises(ZooError, match="in line 2 of .*own.py"):
        load_recipe(tmp_path / "r.yaml", trust=True)
    (tmp_path / "r.yaml").write_text("imports: [no_such]\ndataset: karate\nmodel: mlp\n")
    with pytest.raises(ZooError, match="No module named 'no_such'. Write a Python file"):
        load_recipe(tmp_path / "r.yaml", trust=True)


def test_several_processes_make_one_key(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    seen = []
    monkeypatch.setattr(own_key, "_read", lambda path, read=own_key._read: None if not seen
                        and not seen.append(read(path)) else read(path))  # fmt: skip
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "key").write_bytes(bytes(32))
    (tmp_path / "zoo" / "key").chmod(0o600)
    made = own_key.sign(b"text")
    assert (tmp_path / "zoo" / "key").read_bytes() == bytes(32)
    assert own_key.is_signed(b"text", made) and not own_key.is_signed(b"other", made)
    assert [each.name for each in (tmp_path / "zoo").iterdir()] == ["key"]


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
        here.setattr(launch, "_run", only_help)
        assert train_apart(plan, "cpu", tmp_path) == {"done": True}
    assert doctor._imported("yaml") == (True, [yaml.__version__])
    root = Path(comparing.__file__).parents[1]
    called = re.findall(
        r"\[sys.executable, ([^,]*)", "".join(map(Path.read_text, root.rglob("*.py")))
    )
    assert len(called) >= 4 and set(called) == {'"-P"', "*sys.orig_argv[1:]]"}  # itself, again
    assert ran() == 0


def test_a_signature_of_anybody_is_looked_at_with_care(tmp_path):
    assert own_key.sign(b"text") and not own_key.is_signed(b"text", "\ud800")
    os.mkfifo(tmp_path / imports_of.SIGNATURE)
    assert imports_of.said_of(tmp_path) == ({}, "")
