"""Fast twins of plain formulas, with gradients of their own; behind the modules of `zoo.nn`."""
