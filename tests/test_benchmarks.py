"""What the benchmarks time beside the zoo computes the same as the zoo does."""

from scripts import BENCHMARKS, script


def test_models_in_plain_torch_are_those_of_the_zoo(monkeypatch):
    """The defaults of NodeFormer had moved on from those that its plain twin has."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    script("model_steps").check(2_000, 6_000)
