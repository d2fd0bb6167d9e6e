"""A remark of torch about CSR tensors that is none of the user's business."""

import contextlib
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_beta() -> Iterator[None]:
    """Silence its remark that CSR tensors are in beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        yield
