import numpy as np
import pytest
import torch

from zoo.data.splits import SPLITS, TIME_SPLITS, make_split, split_problems
from zoo.errors import ZooError

PARTS = ("train", "val", "test")
CLASSES = torch.tensor(np.random.default_rng(0).integers(-1, 5, 4000))


def masks_of(nodes, splits):
    order = torch.stack([torch.randperm(nodes) for _ in range(splits)])
    first, second = nodes // 2, 3 * nodes // 4
    return {
        "train": order < first,
        "val": (order >= first) & (order < second),
        "test": order >= second,
    }


@pytest.fixture
def masks():
    return masks_of(4000, 3)


def sizes(split):
    return [len(getattr(split, part)) for part in PARTS]


OF_TABLES = ("group", "ids", "kept", "pairs", "scaffold")  # need a column, files, a run, SMILES

SPECS = [*(word for word in SPLITS if word not in OF_TABLES), {"name": "benchmark", "index": 1},
         {"name": "per-class", "train": 5},
         {"name": "per-class", "train": 5, "val": 30, "test": 40},
         {"name": "ratio", "train": 10, "val": 10, "test": 10},
         {"name": "ratio-50-25-25", "seed": 7}, {"name": "per-class-20", "val": 30, "test": 40},
         {"name": "per-class", "train": 3, "val": 10, "test": 20}]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_every_split_keeps_its_promises(spec, masks):
    split = make_split(spec, CLASSES, masks, seed=4)
    together = torch.cat([getattr(split, part) for part in PARTS])
    assert len(together.unique()) == len(together), "a node is in two parts"
    assert (CLASSES[together] >= 0).all(), "a node without a label was dealt"
    for part in PARTS:
        nodes = getattr(split, part)
        assert nodes.dtype == torch.int64 and torch.equal(nodes, nodes.sort().values)
    again = make_split(spec, CLASSES, masks, seed=4)
    assert again.sha256 == split.sha256 and len(split.sha256) == 64
    assert all(torch.equal(getattr(again, part), getattr(split, part)) for part in PARTS)
    pinned = isinstance(spec, dict) and ("index" in spec or "seed" in spec)
    pinned |= spec in TIME_SPLITS
    other = make_split(spec, CLASSES, masks, seed=5)
    assert (other.sha256 == split.sha256) == pinned


def test_per_class_deals_as_the_published_programs_do():
    """One global torch generator: a permutation per class in order, then one of all the others."""
    y = torch.randint(3, (200,), generator=torch.Generator().manual_seed(4))
    spec = {"name": "per-class", "train": 5, "val": 30, "test": 60, "seed": 123}
    split = make_split(spec, y, None, seed=9)
    state = torch.get_rng_state()
    torch.manual_seed(123)
    train, rest = [], []
    for each in range(3):
        members = (y == each).nonzero().flatten()
        members = members[torch.randperm(len(members))]
        train, rest = train + members[:5].tolist(), rest + members[5:].tolist()
    rest = torch.tensor(rest)[torch.randperm(len(rest))].tolist()
    torch.set_rng_state(state)
    dealt = (split.train, split.val, split.test)
    for nodes, expected in zip(dealt, (train, rest[:30], rest[30:90]), strict=True):
        assert nodes.tolist() == sorted(expected)


def test_the_hash_is_of_each_part():
    y = torch.zeros(4, dtype=torch.int64)
    hashes = set()
    for owners in ([0, 0, 1, 2], [0, 1, 1, 2], [0, 1, 2, 2], [1, 1, 0, 2], [2, 2, 1, 0]):
        masks = {part: torch.tensor([owners]) == each for each, part in enumerate(PARTS)}
        hashes.add(make_split("benchmark", y, masks, seed=0).sha256)
    assert len(hashes) == 5


def test_no_global_generator_is_used(masks):
    torch.manual_seed(1)
    np.random.seed(1)
    expected = torch.rand(1), np.random.rand()
    torch.manual_seed(1)
    np.random.seed(1)
    for spec in SPECS:
        make_split(spec, CLASSES, masks, seed=0)
    assert (torch.rand(1), np.random.rand()) == expected


def test_per_class_is_as_many_of_each():
    split = make_split("per-class-20", CLASSES, None, seed=0)
    assert sizes(split) == [100, 500, 1000]
    assert CLASSES[split.train].bincount().tolist() == [20] * 5
    # A uniform draw: each class is in the test nodes as often as among all the others.
    assert (CLASSES[split.test].bincount() / 1000 - 0.2).abs().max() < 0.06
    gap = torch.where(CLASSES == 2, 1, CLASSES)  # no node has the class 2
    assert sizes(make_split("per-class-20", gap, None, seed=0)) == [80, 500, 1000]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("ratio-60-20-20", [60, 20, 20]),
        ("ratio-48-32-20", [48, 32, 20]),
        ("ratio-50-25-25", [50, 25, 25]),
        ("ratio-80-10-10", [80, 10, 10]),
        ({"name": "ratio", "train": 33.3, "val": 33.3, "test": 33.4}, [33, 33, 34]),
        ({"name": "ratio", "train": 10, "val": 10, "test": 10}, [10, 10, 10]),
        ({"name": "ratio", "train": 29, "val": 1, "test": 70}, [29, 1, 70]),
    ],
    ids=str,
)
def test_ratios_are_of_the_labelled_nodes(spec, expected):
    y = torch.cat([torch.zeros(100, dtype=torch.int64), torch.full((50,), -1)])
    assert sizes(make_split(spec, y, None, seed=0)) == expected


def test_rounding_leaves_no_node_out():
    for nodes in range(5, 60):
        y = torch.zeros(nodes, dtype=torch.int64)
        assert sum(sizes(make_split("ratio-60-20-20", y, None, seed=0))) == nodes


def test_benchmark_takes_the_masks_in_turn(masks):
    for seed in range(7):
        split = make_split("benchmark", CLASSES, masks, seed=seed)
        for part in PARTS:
            mask = masks[part][seed % 3] & (CLASSES >= 0)
            assert torch.equal(getattr(split, part), mask.nonzero().flatten())
    pinned = make_split({"name": "benchmark", "index": 2}, CLASSES, masks, seed=0)
    assert pinned.sha256 == make_split("benchmark", CLASSES, masks, seed=2).sha256


def test_nodes_with_any_target_count_as_labelled():
    y = torch.full((50, 3), float("nan"))
    y[:40, 1] = -1.5
    split = make_split("ratio-60-20-20", y, None, seed=0)
    assert sum(sizes(split)) == 40 and max(split.train.max(), split.test.max()) < 40
    assert sum(sizes(make_split("ratio-60-20-20", y[:, 1], None, seed=0))) == 40


def test_a_permutation_of_the_same_seed_is_not_followed():
    """Classes that come from default_rng(0) are in every part of the split that 0 draws."""
    y = torch.empty(1000, dtype=torch.int64)
    y[np.random.default_rng(0).permutation(1000)] = torch.arange(1000) // 250
    split = make_split("ratio-60-20-20", y, None, seed=0)
    assert all(y[getattr(split, part)].bincount(minlength=4).min() > 20 for part in PARTS)


FEW = torch.arange(30) % 3


@pytest.mark.parametrize(
    ("spec", "y", "masks", "words"),
    [
        ("benchmark", FEW, None, ["no splits of its own", "ratio-60-20-20"]),
        ({"name": "benchmark", "index": 3}, CLASSES, masks_of(4000, 3), ["index 3", "0 to 2"]),
        ("per-class-20", FEW, None, ["class 0", "10", "20", "{name: per-class, train: 5}"]),
        ({"name": "per-class", "train": 5}, FEW, None, ["500", "1000", "15", "val: 5, test: 10"]),
        ("per-class-20", torch.zeros(9, 2), None, ["targets", "ratio-60-20-20"]),
        ({"name": "ratio", "train": 60, "val": 1}, FEW, None, ["labelled nodes for val", "30"]),
        ("per-class", torch.rand(40), None, ["a number", "ratio-60-20-20"]),
        ("ratio-60-20-20", torch.full((9,), -1), None, ["none of the nodes", "label: COLUMN"]),
        ("per-class", torch.full((9,), -1), None, ["none of the nodes", "label: COLUMN"]),
        ("benchmark", torch.full((8,), -1), masks_of(8, 1), ["none of the nodes", "label: COLUMN"]),
    ],
)
def test_a_graph_that_is_too_small_is_answered(spec, y, masks, words):
    assert not split_problems(spec, ()), "this is for the graph to say"
    with pytest.raises(ZooError) as caught:
        make_split(spec, y, masks, seed=0)
    for word in words:
        assert word in str(caught.value), caught.value


def test_masks_that_share_nodes_are_refused():
    mask = torch.ones(1, 9, dtype=torch.bool)
    with pytest.raises(ZooError, match="more than one part"):
        make_split("benchmark", torch.zeros(9, dtype=torch.int64), dict.fromkeys(PARTS, mask),
                   seed=0)  # fmt: skip


WRONG = {
    "per-clas-20": ([], "did you mean 'per-class-20'"),
    "benchmarks": ([], "did you mean 'benchmark'?"),
    "per-class-5": ([], "Other numbers are options: {name: ratio"),
    "ratio-48-20-32": ([], "or 'ratio-48-32-20'"),
    "ratio-60-20-20-5": ([], "no split is called"),
    "ratio-": ([], "no split is called"),
    "": ([], "no split is called"),
}
WRONG_MAPPINGS = [
    ({"name": "ratoi"}, ["name"], "did you mean 'ratio'?"),
    ({"name": "ratio", "trian": 5}, ["trian"], "did you mean 'train'?"),
    ({"name": "ratio", "train": "60"}, ["train"], "number"),
    ({"name": "ratio", "train": 70, "val": 20}, [], "70 + 20 + 20 = 110"),
    ({"name": "ratio", "train": 60, "val": 50, "test": 20}, [], "60 + 50 + 20 = 130"),
    ({"name": "ratio", "train": 80}, [], "80 + 20 + 20 = 120"),
    ({"name": "ratio", "train": 100}, ["train"], "less than 100"),
    ({"name": "per-class", "train": 0}, ["train"], "greater than or equal to 1"),
    ({"name": "per-class", "train": 2.5}, ["train"], "integer"),
    ({"name": "per-class-20", "train": 3}, ["train"], "no option 'train'"),
    ({"name": "ratio-60-20-20", "val": 30}, ["val"], "no option 'val'"),
    ({"name": "ratio-90-5-5"}, ["name"], "Other numbers are options"),
    ({"name": "per-class", "seed": -1}, ["seed"], "greater than or equal to 0"),
    ({"name": "benchmark", "index": -1}, ["index"], "greater than or equal to 0"),
    ({"name": "benchmark", "seed": 1}, ["seed"], "no option 'seed'"),
    ({"train": 3}, [], "`name` is missing"),
    (None, [], "does not name a split"),
    (20, [], "does not name a split"),
]


@pytest.mark.parametrize(
    ("spec", "keys", "words"),
    [(spec, *wrong) for spec, wrong in WRONG.items()] + WRONG_MAPPINGS,
    ids=str,
)
def test_what_is_misspelt_is_found_without_a_graph(spec, keys, words):
    (problem,) = split_problems(spec, ("dataset", "split"))
    assert problem.path == ("dataset", "split", *keys) and words in problem.message
    with pytest.raises(ZooError) as caught:
        make_split(spec, CLASSES, None, seed=0)
    assert words in str(caught.value)


def test_every_word_is_a_split_by_itself():
    words = set(SPLITS) - {"ids", "kept", "pairs"}
    assert not [found for word in words for found in split_problems(word, ())]
    assert [each.path for each in split_problems("ids", ())] == [("train",), ("val",), ("test",)]
    assert [each.path for each in split_problems("kept", ())] == [("run",)]


WRITTEN_OUT = {
    "per-class-20": {"name": "per-class", "train": 20},
    "ratio-48-32-20": {"name": "ratio", "train": 48, "val": 32, "test": 20},
    "ratio-50-25-25": {"name": "ratio", "train": 50, "val": 25, "test": 25},
    "ratio-60-20-20": {"name": "ratio", "train": 60, "val": 20, "test": 20},
    "ratio-70-10-20": {"name": "ratio", "train": 70, "val": 10, "test": 20},
    "ratio-80-10-10": {"name": "ratio", "train": 80, "val": 10, "test": 10},
    "ratio-85-5-10": {"name": "ratio", "train": 85, "val": 5, "test": 10},
    **{
        f"per-class-{count}": {"name": "per-class", "train": count, "val": 1000, "test": None}
        for count in (10, 50, 100, 200, 400)
    },
    "stratified-80-10-10": {"name": "stratified", "train": 80, "val": 10, "test": 10},
    "folds-5": {"name": "folds", "count": 5},
    "folds-10": {"name": "folds", "count": 10},
    "time-20-20-60": {"name": "time", "train": 20, "val": 20, "test": 60},
    "time-70-10-20": {"name": "time", "train": 70, "val": 10, "test": 20},
}


@pytest.mark.parametrize("seed", [0, 7])
def test_a_published_word_is_the_split_with_its_numbers(seed):
    assert {word for word in SPLITS if word[-1].isdigit()} == set(WRITTEN_OUT)
    for word, spec in WRITTEN_OUT.items():
        one, other = (make_split(each, CLASSES, None, seed=seed) for each in (word, spec))
        assert one.sha256 == other.sha256


def test_a_split_in_time_trains_on_the_past():
    times = np.random.default_rng(0).permutation(len(CLASSES)).astype(float)
    split = make_split("time-70-10-20", CLASSES, None, seed=0, times=times)
    latest = [times[getattr(split, part).numpy()].max() for part in PARTS[:2]]
    earliest = [times[getattr(split, part).numpy()].min() for part in PARTS[1:]]
    assert latest[0] < earliest[0] and latest[1] < earliest[1]
    times[int(split.val[0])] = np.nan
    with pytest.raises(ZooError, match="1 nodes with a label have no time"):
        make_split("time-70-10-20", CLASSES, None, seed=0, times=times)


@pytest.mark.parametrize("groups", [3, 4, 10, 60])
@pytest.mark.parametrize("seed", [0, 1])
def test_no_group_is_in_two_parts(groups, seed):
    owners = np.random.default_rng(1).integers(groups, size=len(CLASSES)).astype(str)
    split = make_split("group", CLASSES, None, seed=seed, groups=owners)
    held = [set(owners[getattr(split, part).numpy()]) for part in PARTS]
    assert not held[0] & held[1] and not held[1] & held[2] and not held[0] & held[2]
    assert sum(sizes(split)) == int((CLASSES >= 0).sum())
    if groups == 60:
        shares = np.array(sizes(split)) / sum(sizes(split))
        np.testing.assert_allclose(shares, [0.6, 0.2, 0.2], atol=0.03)


@pytest.mark.parametrize("shares", [(30, 20, 10), (1, 1, 1), (1, 1, 50)])
@pytest.mark.parametrize("groups", [3, 4, 5])
def test_every_part_has_a_group_where_some_are_left_out(shares, groups):
    owners = (np.arange(len(CLASSES)) % groups).astype(str)
    spec = {"name": "group", **dict(zip(PARTS, shares, strict=True))}
    for seed in range(10):
        split = make_split(spec, CLASSES, None, seed=seed, groups=owners)
        held = [set(owners[getattr(split, part).numpy()]) for part in PARTS]
        assert all(held) and len(set.union(*held)) == sum(map(len, held))


def test_every_class_has_its_share():
    split = make_split(
        {"name": "stratified", "train": 50, "val": 25, "test": 25}, CLASSES, None, seed=3
    )
    for each in CLASSES[CLASSES >= 0].unique():
        many = int((each == CLASSES).sum())
        assert abs(int((CLASSES[split.train] == each).sum()) - many / 2) <= 1


def classes_of(*sizes):
    """Labels of classes of so many nodes each, in a mixed order, some of them unknown."""
    y = np.repeat(np.arange(-1, len(sizes)), [7, *sizes])
    return torch.from_numpy(np.random.default_rng(len(sizes)).permutation(y))


SIZES = [[8] * 30, [4] * 30, [2] * 50, [1] * 20, [300, 40, 7, 3, 2, 1], [9] * 7, [7, 8, 9, 10, 11],
         [100, 20, 5], [1000, 1]]  # fmt: skip


@pytest.mark.parametrize("sizes_of", SIZES, ids=str)
@pytest.mark.parametrize("shares", [(60, 20, 20), (48, 32, 20), (80, 10, 10)])
def test_classes_of_few_nodes_keep_the_shares(sizes_of, shares):
    """The parts are as large as scikit-learn's, no node is lost, no class is off by more than 1."""
    from sklearn.model_selection import train_test_split

    y = classes_of(*sizes_of)
    spec = {"name": "stratified", **dict(zip(PARTS, shares, strict=True))}
    split = make_split(spec, y, None, seed=3)
    assert sum(sizes(split)) == sum(sizes_of)
    rest = np.arange(sum(sizes_of))
    train, rest = train_test_split(rest, test_size=(100 - shares[0]) / 100)
    val, test = train_test_split(rest, test_size=shares[2] / (shares[1] + shares[2]))
    assert sizes(split) == [len(train), len(val), len(test)]
    for part, share in zip(PARTS, shares, strict=True):
        own = y[getattr(split, part)].bincount(minlength=len(sizes_of)).numpy()
        assert (abs(own - np.array(sizes_of) * share / 100) < 1.5).all()


def test_the_seed_says_which_classes_have_the_nodes_over():
    y = classes_of(*[4] * 30)
    first, again, other = (make_split("stratified", y, None, seed=seed) for seed in (0, 0, 1))
    counts = [y[each.train].bincount().tolist() for each in (first, again, other)]
    assert counts[0] == counts[1] != counts[2] and sorted(counts[0]) == sorted(counts[2])
    assert sorted(counts[0]) == [2] * 18 + [3] * 12
    assert first.sha256 == again.sha256


WHOLE = {
    "60-20-20": ({}, 0, "151400173a68778e201573f9d011ef6fb7207e19d385433af26b9bc83a487de7"),
    "10-10-10": ({"train": 10, "val": 10, "test": 10}, 7,
                 "1f53edb09f0febd2b194d16e316a3c86ca6c1c183b8653b82cbf9984d9abdc76"),
}  # fmt: skip


@pytest.mark.parametrize("shares", WHOLE)
def test_whole_shares_are_the_nodes_that_they_have_always_been(shares):
    """The hashes are those of version 0.1, which rounded down in every class."""
    options, seed, sha256 = WHOLE[shares]
    split = make_split({"name": "stratified", **options}, torch.arange(100) % 5, None, seed=seed)
    assert split.sha256 == sha256
    odd = torch.cat([torch.arange(100) % 5, torch.full((7,), 5)])  # which has nodes over
    beside = make_split({"name": "stratified", **options}, odd, None, seed=seed)
    for part in PARTS:
        own = odd[getattr(beside, part)].bincount(minlength=6)[:5].tolist()
        assert own == (torch.arange(100) % 5)[getattr(split, part)].bincount().tolist()


def folds_of(spec, y, count, **own):
    return [make_split(spec, y, None, seed=seed, **own) for seed in range(count)]


@pytest.mark.parametrize("count", [2, 3, 5, 7, 10])
@pytest.mark.parametrize(
    "y", [classes_of(40, 25, 13), torch.rand(53), torch.rand(41, 3).round()], ids=["y", "r", "m"]
)
def test_folds_test_every_node_once(count, y):
    known = np.flatnonzero(y >= 0) if y.ndim == 1 else np.arange(len(y))
    splits = folds_of(f"folds-{count}", y, count)
    assert sorted(torch.cat([each.test for each in splits]).tolist()) == known.tolist()
    assert {len(each.test) for each in splits} <= {len(known) // count, len(known) // count + 1}
    for seed, split in enumerate(splits):
        every = torch.cat([getattr(split, part) for part in PARTS])
        assert sorted(every.tolist()) == known.tolist()
        if count > 2:
            assert torch.equal(split.val, splits[(seed + 1) % count].test)
    again = make_split({"name": "folds", "count": count}, y, None, seed=count)
    assert again.sha256 == splits[0].sha256, "seed K begins again"
    other = make_split({"name": f"folds-{count}", "seed": 1}, y, None, seed=0)
    assert other.sha256 != splits[0].sha256 and len(other.test) == len(splits[0].test)


@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize("sizes_of", [[40, 25, 13], [8] * 30, [100, 6, 5], [7, 3, 2]], ids=str)
@pytest.mark.parametrize("count", [3, 5])
def test_folds_are_as_large_as_those_of_scikit_learn(sizes_of, count):
    from sklearn.model_selection import StratifiedKFold

    y = classes_of(*sizes_of)
    known = y[y >= 0].numpy()
    theirs = [known[test] for _, test in StratifiedKFold(count, shuffle=True).split(known, known)]
    ours = [y[each.test].numpy() for each in folds_of(f"folds-{count}", y, count)]
    assert sorted(map(len, ours)) == sorted(map(len, theirs))
    for each in range(len(sizes_of)):
        counts = [sorted(int((test == each).sum()) for test in tests) for tests in (ours, theirs)]
        assert counts[0] == counts[1]


def test_two_folds_leave_some_for_training():
    split = make_split("folds-2", classes_of(40, 20), None, seed=1)
    assert sizes(split) == [15, 15, 30]
    assert classes_of(40, 20)[split.val].bincount().tolist() == [10, 5]


def test_fewer_nodes_than_folds_are_told():
    with pytest.raises(ZooError, match=r"10 folds are asked for, and 9 have a label; .*count: 9}"):
        make_split("folds-10", classes_of(4, 5), None, seed=0)


@pytest.mark.parametrize(
    "word", ["kfold-5", "cv", "StratifiedKFold", "10-fold", "cross-validation"]
)
def test_what_cross_validation_is_called_elsewhere(word):
    for spec in (word, {"name": word}):
        (problem,) = split_problems(spec, ("dataset", "split"))
        assert "cross-validation is `folds-5`" in problem.message


@pytest.mark.parametrize("spec", ["folds-1", "folds-0", {"name": "folds", "count": 1}, "1-fold"])
def test_one_fold_is_none(spec):
    (problem,) = split_problems(spec, ())
    assert "is `folds-5`" in problem.message or "greater than or equal to 2" in str(problem)


def test_lists_of_ids(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids = np.array([f"n{each}" for each in range(len(CLASSES))])
    known = np.flatnonzero(CLASSES.numpy() >= 0)
    parts = {"train": known[:20], "val": known[20:30], "test": known[40:50]}
    for part, nodes in parts.items():
        (tmp_path / part).write_text("\n".join(ids[nodes]) + "\n\n")
    spec = {"name": "ids", **{part: part for part in PARTS}}
    split = make_split(spec, CLASSES, None, seed=0, ids=ids)
    assert all(getattr(split, part).tolist() == parts[part].tolist() for part in PARTS)
    (tmp_path / "val").write_text("n1\nm7\n")
    with pytest.raises(ZooError, match="val has 'm7', and no node has this id"):
        make_split(spec, CLASSES, None, seed=0, ids=ids)
    (tmp_path / "val").write_text(str(ids[known[0]]))
    said = f"has 1 nodes in more than one part, such as {ids[known[0]]}; leave"
    with pytest.raises(ZooError, match=said):
        make_split(spec, CLASSES, None, seed=0, ids=ids)
    np.savez(tmp_path / "split.npz", val=known[20:30])
    np.save(tmp_path / "val.npy", known[20:30])
    for name, said in (
        ("split.npz", "split.npz"),
        ("val.npy", "val.npy"),
    ):
        with pytest.raises(
            ZooError, match=rf"{said} is no text; .*numpy.savetxt\('file.txt'"
        ) as caught:
            make_split({**spec, "val": name}, CLASSES, None, seed=0, ids=ids)
        assert "iconv" not in str(caught.value)
    np.savetxt("val.txt", ids[np.load("val.npy")], fmt="%s")  # as it says
    again = make_split({**spec, "val": "val.txt"}, CLASSES, None, seed=0, ids=ids)
    assert again.sha256 == split.sha256
    (tmp_path / "val").unlink()
    with pytest.raises(ZooError, match=r"val cannot be read \(FileNotFoundError"):
        make_split(spec, CLASSES, None, seed=0, ids=ids)


@pytest.mark.parametrize("sizes", [[100] + 100 * [1], [120, 20, 20, 20, 20], [80, 80, 20, 20]])
def test_large_groups_are_of_training(sizes):
    """Whatever the seed, no part is empty, and none but training is larger than its share."""
    owners = np.repeat(np.arange(len(sizes)), sizes).astype(str)
    for seed in range(30):
        split = make_split("group", torch.zeros(200).long(), None, seed=seed, groups=owners)
        assert sizes[0] <= len(split.train) and 1 <= len(split.val) <= 60 and len(split.test)


@pytest.mark.parametrize(
    "groups,said",
    [
        (None, "dataset.group_column: COLUMN"),
        ("a", "there are 1 groups"),
        ("", "are of no group"),
    ],
)
def test_groups_that_are_none(groups, said):
    owners = None if groups is None else np.full(len(CLASSES), groups, "<U1")
    with pytest.raises(ZooError, match=said):
        make_split("group", CLASSES, None, seed=0, groups=owners)
