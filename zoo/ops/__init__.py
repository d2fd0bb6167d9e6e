"""Fast kernels, with gradients of their own, behind the modules of `zoo.nn`.

The equation that each of them computes is its naive twin, in `zoo.ops.naive`.
"""
