"""Memory is measured as the system counts it, and kept where the C library can be told to."""

import subprocess
import sys

import torch

from zoo.memory import keep_freed_memory, peak_memory

CPU = torch.device("cpu")


def run(code):
    """Run code in a process of its own, whose memory no test has touched; return its words."""
    call = [sys.executable, "-c", code]
    return subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()


def test_the_peak_of_memory_is_that_of_the_call():
    code = """
import torch
from zoo.memory import peak_during
def hold():
    for _ in range(3):
        torch.ones(2**23)  # 32 MiB, one after the other
print(peak_during(hold, torch.device("cpu")))
"""
    assert 2**25 < int(run(code)[0]) < 1.1 * 2**25


def test_random_batches_hold_less_than_twice_their_inputs_and_outputs():
    code = """
import torch
from zoo.attention import softmax
from zoo.memory import give_back_freed_memory, peak_during
from zoo.random_batch import random_batch
give_back_freed_memory()
inputs = [torch.randn(2**15, 4, 16, requires_grad=True) for _ in range(3)]
attend = random_batch(softmax, 256)
def step():
    torch.autograd.grad(attend(*inputs).sum(), inputs)
step()
print(peak_during(step, torch.device("cpu")) / (4 * inputs[0].nbytes))
"""
    assert 1 < float(run(code)[0]) < 1.7


def test_the_peak_so_far_is_at_least_what_is_held():
    held = torch.ones(2**22)
    assert peak_memory(CPU) > held.numel() * 4


def test_a_c_library_that_cannot_be_told(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert keep_freed_memory() is False


def test_what_the_user_has_told_the_c_library_stays(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    assert keep_freed_memory() is False


def test_large_blocks_are_used_again():
    code = """
import resource, torch
from zoo.memory import keep_freed_memory
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
first = faults()
assert keep_freed_memory()
print(first, min(faults() for _ in range(5)))
"""
    before, after = map(int, run(code))
    assert after < before / 10
