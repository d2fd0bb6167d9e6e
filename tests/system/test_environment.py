"""The device of a run: each of several processes has a GPU of its own, or it is said at once."""

import pytest
import torch

from zoo.errors import ZooError
from zoo.system import process_group
from zoo.system.environment import choose_device


@pytest.fixture
def gpus(monkeypatch):
    """Let torch see two GPUs, and say how many processes there are, here and in all."""

    def say(rank, count, **local):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(process_group, "rank", lambda: rank)
        monkeypatch.setattr(process_group, "count", lambda: count)
        for word, number in local.items():
            monkeypatch.setenv(f"LOCAL_{word}", str(number))

    return say


def test_a_gpu_for_each_process(gpus):
    gpus(1, 2)
    assert choose_device("auto") == torch.device("cuda", 1)
    assert choose_device("cpu") == torch.device("cpu")
    gpus(3, 4, RANK=1, WORLD_SIZE=2)  # on the second machine
    assert choose_device("cuda") == torch.device("cuda", 1)


@pytest.mark.parametrize("word", ["auto", "cuda"])
def test_more_processes_than_gpus(gpus, word):
    gpus(0, 3)
    with pytest.raises(ZooError, match="3 processes want a GPU each.*--processes 2.*--device cpu"):
        choose_device(word)
