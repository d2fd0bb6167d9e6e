"""Recipes are what their sources publish, or say where they are not."""

import pytest
import yaml
from scripts import script

from zoo.config.shipped import recipe_file, recipe_names
from zoo.runs.resolve import load_recipe, write_out

WIDE = 0.015  # from here on a tolerance needs a reason


@pytest.fixture(scope="module")
def published():
    return script("published")


def test_no_difference_without_a_sentence_and_no_sentence_without_a_difference(published):
    silent, stale = [], []
    for name, (program, flags) in published.commands().items():
        found, old = published.differences(name, program, flags)
        silent += [f"{name}: {each.key}" for each in found if each.sentence is None]
        stale += [f"{name}: {word}" for word in old]
    assert (silent, stale) == ([], [])


def test_a_difference_is_found(published, monkeypatch):
    name, (program, flags) = "gcn-cora", published.commands()["gcn-cora"]
    assert published.differences(name, program, flags) == ([], [])
    found, _ = published.differences(name, program, {**flags, "local_layers": 4})
    assert [(each.key, each.published, each.here) for each in found] == [("model.layers", 4, 3)]
    written, _ = published.settings(name)
    monkeypatch.setattr(published, "settings", lambda _: (written, ["`layers` is less."]))
    assert published.differences(name, program, flags) == ([], ["layers"])


def test_what_a_model_has_no_option_for_and_a_patience_of_ours_are_found(published, monkeypatch):
    """A published setting was compared only where the recipe has its key."""
    flags = published.commands()["sage-cora"][1]
    written, _ = published.settings("sage-cora")
    written["train.patience"] = 50
    del written["model.residual"]
    monkeypatch.setattr(published, "settings", lambda _: (written, []))
    found, _ = published.differences("sage-cora", "baselines", {**flags, "res": True})
    assert [(each.key, each.published, each.here) for each in found] == [
        ("train.patience", "none", 50), ("model.residual", True, "no option")]  # fmt: skip
    found, _ = published.differences("sage-cora", "baselines", flags)
    assert [each.key for each in found] == ["train.patience"]


def test_flags_are_read_as_the_programs_read_them(published):
    flags = published._flags("lr 1e-3 ln n-layers [6, 7] rb_trans identity weight_decay 5e-05")
    assert flags == {"lr": 0.001, "ln": True, "n-layers": [6, 7], "rb_trans": "identity",
                     "weight_decay": 5e-5}  # fmt: skip


@pytest.fixture(scope="module")
def numbers():
    """The recipes with a number to reach, as plain data, by name; their mistakes are others'."""
    read = {name: yaml.safe_load(recipe_file(name).read_text()) for name in recipe_names()}
    return {name: data for name, data in read.items() if data.get("expect")}


def test_a_number_with_a_source_has_a_command_line_or_a_sentence(published, numbers):
    known, ours = published.commands(), ("-rba", "-small")  # no program has these
    bare = {name for name, data in numbers.items() if "differs" not in data} - set(known)
    assert sorted(name for name in bare if not name.endswith(ours)) == []


def test_a_wide_tolerance_says_why(numbers):
    for name, data in numbers.items():
        if data["expect"]["within"] > WIDE and "metric" not in data["expect"]:
            lines = recipe_file(name).read_text().splitlines()
            (line,) = [each for each in lines if each.startswith("  within:")]
            assert " # " in line, name


def statistics_of(settings):
    """The running statistics of every batch norm in settings that are written out."""
    if isinstance(settings, dict):
        if settings.get("name") == "batch" and "statistics" in settings:
            yield settings["statistics"]
        for each in settings.values():
            yield from statistics_of(each)


def test_running_statistics_that_are_not_the_programs_are_said(numbers):
    """Every program with batch norm has torch's, and a recipe the zoo's where it says nothing."""
    count = 0
    for name in numbers:
        recipe = load_recipe(name)
        found = {*statistics_of(write_out(recipe))}
        said = "`statistics`" in " ".join(recipe.differs)
        assert said == ("corrected" in found), name
        count += bool(found)
    assert count > 40


def test_another_number_of_runs_is_found(published):
    program, flags = published.commands()["gcn-cora"]
    found, _ = published.differences("gcn-cora", program, {**flags, "runs": 3})
    assert [(each.key, each.published, each.here) for each in found] == [("seeds", 3, 5)]
