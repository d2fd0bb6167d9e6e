"""Positional encodings of the nodes of a graph, and the solvers of their eigenvectors."""

from zoo.encodings.positional import (
    ENCODINGS,
    SIGNED,
    Encoder,
    flip_signs,
    laplacian,
    laplacian_report,
    none,
    random_walk,
)

__all__ = [
    "ENCODINGS",
    "Encoder",
    "SIGNED",
    "flip_signs",
    "laplacian",
    "laplacian_report",
    "none",
    "random_walk",
]
