"""Positional encodings of the nodes of a graph, and the solvers of their eigenvectors."""

from zoo.encodings.positional import (
    ENCODINGS,
    SIGNED,
    flip_signs,
    laplacian,
    laplacian_report,
    none,
    random_walk,
)

__all__ = [
    "ENCODINGS",
    "SIGNED",
    "flip_signs",
    "laplacian",
    "laplacian_report",
    "none",
    "random_walk",
]
