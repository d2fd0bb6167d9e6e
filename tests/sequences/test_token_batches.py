"""Mini-batches by tokens: every pair once, no more tokens than said, the same for a seed."""

import pytest
import torch
from sentences import write_pairs

from zoo.data.splits import make_split
from zoo.errors import ZooError
from zoo.sequences.batches import TokenBatches
from zoo.sequences.beam_search import longest_translation, translate_tokens
from zoo.sequences.data.pairs import read_pairs
from zoo.sequences.data.tokenizer import BEGIN, END
from zoo.system import process_group
from zoo.tasks.task import TASKS, bleu
from zoo.training.batches import TrainingData, prefetch
from zoo.training.trainer import Trainer
from zoo.weights.create import create_model


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs") / "numbers-en-de"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_DATA", str(folder.parent))
        return read_pairs(write_pairs(folder), vocabulary=300)


@pytest.fixture(scope="module")
def split(data):
    return make_split(data.split, data.y, data.masks, seed=0)


def made(data, **options):
    torch.manual_seed(0)
    options = {"dim": 16, "layers": 1, "heads": 2, "dropout": 0.0, **options}
    return create_model("transformer-seq2seq", data.inputs, data.classes, **options)


def batches(data, split, size=200, seed=0):
    torch.manual_seed(seed)
    return TokenBatches(data, split.train, "cpu", size=size)


def pairs_of(part):
    """The pairs of a batch: source, what is given of the target, what is to be said."""
    sources, targets = part.graph.divide(part.x)
    return list(
        zip(
            sources.split(list(part.graph.sources)),
            targets.split(list(part.graph.targets)),
            part.y.split(list(part.graph.targets)),
            strict=True,
        )
    )


def test_every_training_pair_is_in_one_batch(data, split):
    found = []
    for part in batches(data, split).batches(0):
        assert len(part.x) <= 200 and part.weight == part.share == 1.0 and part.last
        assert torch.equal(part.rows, torch.arange(len(part.y)))
        for source, given, said in pairs_of(part):
            assert source[-1] == said[-1] == END and given[0] == BEGIN
            assert torch.equal(given[1:], said[:-1])
            found.append((source.tolist(), said.tolist()))
    expected = [(data.source(row).tolist(), data.labels_of(row).tolist()) for row in split.train]
    assert sorted(found) == sorted(expected)


def test_pairs_of_like_length_are_together_in_order(data, split):
    parts = list(batches(data, split).batches(0))
    assert len(parts) > 5
    for part in parts:
        lengths = list(zip(part.graph.targets, part.graph.sources, strict=True))
        assert lengths == sorted(lengths)
    spread = [part.graph.targets[-1] - part.graph.targets[0] for part in parts]
    assert max(spread) <= 6
    firsts = [part.graph.targets[0] for part in parts]
    assert firsts != sorted(firsts)  # batches come in any order
    assert [part.until for part in parts] == pytest.approx(
        [(number + 1) / len(parts) for number in range(len(parts))]
    )


def test_seed_and_epoch_say_what_is_drawn(data, split):
    def drawn(seed, epoch):
        return [part.x.tolist() for part in batches(data, split, seed=seed).batches(epoch)]

    assert drawn(1, 3) == drawn(1, 3)
    assert drawn(1, 3) != drawn(1, 4) and drawn(1, 3) != drawn(2, 3)
    assert len(drawn(1, 3)) == len(drawn(1, 4))


def test_a_pair_larger_than_a_batch_is_refused(data, split):
    with pytest.raises(ZooError, match="more than a batch of 10; write a larger `size`"):
        batches(data, split, size=10)


@pytest.mark.parametrize("count", [2, 3])
def test_processes_divide_batches_and_their_gradients_add_up(data, split, monkeypatch, count):
    """The sum of the weighted losses of a step is the loss of all its tokens together."""
    alone = [part.x.tolist() for part in batches(data, split).batches(1)]
    shares = []
    monkeypatch.setattr(process_group, "count", lambda: count)
    for rank in range(count):
        monkeypatch.setattr(process_group, "rank", lambda rank=rank: rank)
        shares.append(list(batches(data, split).batches(1)))
    assert len({len(each) for each in shares}) == 1
    for step, parts in enumerate(zip(*shares, strict=True)):
        own = [part for part in parts if part.weight]
        assert [part.x.tolist() for part in own] == alone[step * count : (step + 1) * count]
        tokens = sum(len(part.y) for part in own)
        assert [part.weight for part in own] == pytest.approx(
            [len(part.y) / tokens for part in own]
        )
        assert len({part.until for part in parts}) == 1
        assert len({part.seed for part in own}) == len(own)


def test_ahead_keeps_the_order_and_raises_what_is_raised():
    assert list(prefetch(lambda each: each * each, iter(range(9)))) == [n * n for n in range(9)]
    with pytest.raises(ZeroDivisionError):
        list(prefetch(lambda each: 1 / (each - 3), iter(range(9))))


def steps(data, split, **options):
    on = TrainingData(data, split, TASKS["translation"]())
    return Trainer(made(data, **options), on, batching={"name": "tokens", "size": 400})


def test_it_is_scored_by_bleu_of_greedy_translations(data, split):
    found = steps(data, split)
    rows = split.val
    with torch.no_grad():
        tokens = translate_tokens(found.model.eval(), [data.source(row) for row in rows.tolist()])
    score = found.evaluate()
    assert score("val") == bleu(data.tokenizer.decode(tokens), data.references(rows))


def test_training_is_scored_on_as_many_pairs_as_validation(data, split, monkeypatch):
    found, asked = steps(data, split), []
    original = found.train_loader._translate

    def spy(model, rows):
        asked.append(rows)
        return original(model, rows)

    monkeypatch.setattr(found.train_loader, "_translate", spy)
    score = found.evaluate()
    for part in ("train", "train", "val", "test"):
        score(part)
    assert len(asked[0]) == len(split.val) and torch.equal(asked[0], asked[1])
    assert set(asked[0].tolist()) <= set(split.train.tolist()) and len(set(asked[0].tolist())) == 20
    assert torch.equal(asked[2], split.val) and torch.equal(asked[3], split.test)


def test_processes_divide_the_translations(data, split, monkeypatch):
    found = steps(data, split)
    found.model.eval()
    whole = found.train_loader._translate(found.model, split.val)
    monkeypatch.setattr(process_group, "count", lambda: 3)
    rooms = []

    def kept(x):
        rooms.append(x)
        return torch.full_like(x, END)  # others are still at it

    monkeypatch.setattr(process_group, "total", kept)
    for rank in range(3):
        monkeypatch.setattr(process_group, "rank", lambda rank=rank: rank)
        found.train_loader._translate(found.model, split.val)
    monkeypatch.setattr(process_group, "total", lambda x: sum(rooms))
    assert found.train_loader._translate(found.model, split.val) == whole


def test_translations_do_not_depend_on_their_batch(data, split):
    model = made(data).eval()
    sources = [data.source(row) for row in split.val.tolist()]
    with torch.no_grad():
        found = [translate_tokens(model, sources, size=size) for size in (1, 60, 4096)]
        alone = [translate_tokens(model, [each])[0] for each in sources]
    assert found[0] == found[1] == found[2] == alone
    assert translate_tokens(model, []) == []


def test_a_translation_ends(data):
    assert longest_translation(1) > 10 and longest_translation(100) > 150
    model = made(data).eval()
    with torch.no_grad():
        model.head.bias[END] = -1e9
        [found] = translate_tokens(model, [torch.tensor([5, END])])
    assert len(found) == longest_translation(2)


@pytest.mark.slow
def test_it_learns_to_translate(data, split):
    """The toy language is learnt, order included: BLEU of unseen sentences is far from chance."""
    from zoo.training.trainer import fit

    on = TrainingData(data, split, TASKS["translation"]())
    options = {"batching": {"name": "tokens", "size": 300}, "evaluate_every": 15}
    schedule = {"name": "inverse-sqrt", "warmup": 5.0}
    result = fit(made(data, dim=32), on, epochs=45, lr=0.01, label_smoothing=0.1, clip=1.0,
                 schedule=schedule, **options)  # fmt: skip
    assert result.val > 0.2 and result.train > result.val * 0.9
