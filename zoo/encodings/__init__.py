"""Positional encodings of the nodes of a graph, and the solvers of their eigenvectors."""

from zoo.encodings.positional import (
    ENCODINGS,
    SIGNED,
    Encoder,
    degree,
    flip_signs,
    laplacian,
    laplacian_report,
    none,
    random_walk,
    signnet,
    spe,
)

__all__ = [
    "ENCODINGS",
    "Encoder",
    "SIGNED",
    "degree",
    "flip_signs",
    "laplacian",
    "laplacian_report",
    "none",
    "random_walk",
    "signnet",
    "spe",
]
