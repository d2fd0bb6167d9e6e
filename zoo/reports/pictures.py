"""The figures of answers: confusion matrix, embedding, predicted against true, residuals."""

from collections.abc import Sequence

import numpy as np

from zoo.datasets.files.labels import MULTILABEL, REGRESSION
from zoo.reports.answers import Embedded
from zoo.reports.figures import Figure, Key, histogram, number
from zoo.reports.svg import COLORS, WIDTH, element, frame, marks, path, plain, text

NAMED = 10
"""Classes that a picture of embeddings names; the others are grey."""

SCATTERED = 2000
"""Points of a picture of predictions at most."""

_LETTERS = 14  # of a name beside a matrix


def confusion_matrix(names: Sequence[str], counts: np.ndarray) -> Figure:
    """Return the confusion matrix: of each true class, which share gets which answer."""
    size, shown = len(names), [_cut(each) for each in names]
    margin = 22 + 7.2 * max(map(len, shown))
    turned = max(map(len, shown)) * 7.2 > (WIDTH - margin - 8) / size - 4
    top = 22 + (7.2 * max(map(len, shown)) if turned else 16)
    side = (WIDTH - margin - 8) / size
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    parts = [text("answered", margin + side * size / 2, 14, class_="label", text_anchor="middle"),
             text("true", 4, top - 6, class_="label")]  # fmt: skip
    for i, name in enumerate(shown):
        middle = margin + (i + 0.5) * side
        turn = f"rotate(-90 {middle + 4:.1f} {top - 5:.1f})" if turned else None
        parts.append(text(name, middle + (4 if turned else 0), top - 5, transform=turn,
                          text_anchor="start" if turned else "middle"))  # fmt: skip
        parts.append(text(name, margin - 5, top + (i + 0.5) * side + 4, text_anchor="end"))
        for j in range(size):
            what = f"true {names[i]}, answered {names[j]}: {counts[i, j]:,}"
            parts.append(_cell(margin + j * side, top + i * side, side, shares[i, j], what))
            if side >= 26 and counts[i, j]:
                parts.append(text(_percent(shares[i, j]), margin + (j + 0.5) * side,
                                  top + (i + 0.5) * side + 4, text_anchor="middle",
                                  class_="over" if shares[i, j] > 0.5 else "in"))  # fmt: skip
    worst = _confusions(names, counts)
    said = "Most often confused: " + "; ".join(worst) + "." if worst else "No answer is wrong."
    note = (
        "Rows are true classes, columns answers; a cell is the share of its row, all seeds "
        f"together, in percent. {said}"
    )
    rows = [[name, *(f"{each:,}" for each in row)] for name, row in zip(names, counts, strict=True)]
    return Figure("Confusion matrix", "".join(parts), top + size * side + 6, said, note, [],
                  ["true \\ answered", *names], rows)  # fmt: skip


def _cell(x: float, y: float, side: float, share: float, said: str) -> str:
    opacity, size = f"{0.04 + 0.96 * share:.3f}", {"width": side - 1, "height": side - 1}
    said = element("title", plain(said))
    return element("rect", said, x=x, y=y, **size, class_="cell", fill_opacity=opacity)


def _percent(share: float) -> str:
    return "<1" if share < 0.005 else f"{100 * share:.0f}"


def _confusions(names: Sequence[str], counts: np.ndarray) -> list[str]:
    """Return the three pairs of classes that are confused most often, in words."""
    wrong = counts * (1 - np.eye(len(names), dtype=counts.dtype))
    order = np.argsort(-wrong, axis=None, kind="stable")[:3]
    pairs = [np.unravel_index(each, wrong.shape) for each in order]
    return [f"{names[i]} as {names[j]} ({wrong[i, j]:,})"
            for i, j in pairs if wrong[i, j]]  # fmt: skip


def _cut(name: str) -> str:
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def embedding(found: Embedded, task: str, names: Sequence[str], unit: str) -> Figure:
    """Return the picture of embeddings in two dimensions, coloured and shaped by class."""
    groups, titles = _groups(found.y, task, names)
    (xs, beyond_x), (ys, beyond_y) = (_inside(found.points[:, each]) for each in (0, 1))
    on, beyond = frame(_spread(xs), _spread(ys), height=360, exact=True), beyond_x | beyond_y
    first, second = (f"{100 * each:.0f} % of the variance" for each in found.shares)
    parts = [on.drawn(f"first component, {first}", f"second component, {second}")]
    keys, rows = [], []
    for index in (-1, *range(len(titles))):
        chosen = groups == index
        if not chosen.any():
            continue
        points = [(on.x(x), on.y(y)) for x, y in zip(xs[chosen], ys[chosen], strict=True)]
        shape = max(index, 0) + max(index, 0) // COLORS
        color = "other" if index < 0 else f"mark c{index % COLORS}"
        parts.append(marks(shape if index >= 0 else 0, points, 2.6, class_=f"{color} point"))
        name = titles[index] if index >= 0 else "others"
        keys.append(Key(name, index if index >= 0 else None, shape if index >= 0 else 0))
        rows.append([name, f"{chosen.sum():,}", number(xs[chosen].mean()),
                     number(ys[chosen].mean())])  # fmt: skip
    drawn = f"{len(xs):,} of {found.rows:,}" if len(xs) < found.rows else f"{found.rows:,}"
    note = (
        f"What the head of seed {found.seed}, the best by validation, reads of {drawn} test "
        f"{unit}, along the two directions in which these differ most (PCA)."
    )
    if beyond.any():
        note += f" {beyond.sum():,} lie farther out, and are drawn at the edge."
    said = f"{note} The table has the middle of each group."
    return Figure("Embedding", "".join(parts), on.height, said, note, keys if titles else [],
                  ["group", "count", "first, mean", "second, mean"], rows)  # fmt: skip


def _groups(y: np.ndarray, task: str, names: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Return the group of each row, -1 of others, and what groups are called."""
    if task == MULTILABEL or (task == REGRESSION and y.ndim == 2 and y.shape[1] > 1):
        return np.full(len(y), -1), []
    if task == REGRESSION:
        y = y.reshape(-1)
        ends = np.unique(np.quantile(y, [0.2, 0.4, 0.6, 0.8]))
        cuts = [number(each) for each in ends]
        inner = [f"{a} to {b}" for a, b in zip(cuts, cuts[1:], strict=False)]
        return np.searchsorted(ends, y), [f"up to {cuts[0]}", *inner, f"above {cuts[-1]}"]
    classes, counts = np.unique(y, return_counts=True)
    kept = np.sort(classes[np.argsort(-counts, kind="stable")[:NAMED]])
    place = {int(each): index for index, each in enumerate(kept)}
    groups = np.array([place.get(int(each), -1) for each in y])
    return groups, [names[int(each)] for each in kept]


def _inside(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values with those far out moved to an edge, and which were: few decide no scale."""
    low, high = np.percentile(values, [2, 98])
    room = 0.5 * (high - low)
    held = np.clip(values, low - room, high + room)
    return held, held != values


def _spread(values: np.ndarray) -> list[float]:
    low, high = float(values.min()), float(values.max())
    room = 0.04 * (high - low) or 1.0
    return [low - room, high + room]


def predictions(truth: np.ndarray, found: np.ndarray, name: str = "") -> list[Figure]:
    """Return predicted against true, and the residuals, of numbers (n,) and (n,)."""
    of = f" of {name}" if name else ""
    drawn = np.random.default_rng(0).permutation(len(truth))[:SCATTERED]
    ends = _spread(np.concatenate([truth, found]))
    on = frame(ends, ends, height=360, exact=True)
    parts = [on.drawn("true", "predicted"),
             path([(on.x(ends[0]), on.y(ends[0])), (on.x(ends[1]), on.y(ends[1]))], class_="ideal"),
             marks(0, [(on.x(float(truth[each])), on.y(float(found[each]))) for each in drawn], 2.6,
                   class_="mark c0 point")]  # fmt: skip
    residuals = found.astype(float) - truth
    rows = [[f"{q}th", number(float(np.percentile(truth, q))),
             number(float(np.percentile(found, q))), number(float(np.percentile(residuals, q)))]
            for q in (5, 25, 50, 75, 95)]  # fmt: skip
    mean = number(float(np.abs(residuals).mean()))
    said = f"{len(truth):,} predictions{of}, {mean} from what is true in the mean."
    note = "On the dashed line both are the same."
    if len(drawn) < len(truth):
        note += f" Drawn are {len(drawn):,} of {len(truth):,}."
    scatter = Figure(f"Predicted against true{of}", "".join(parts), on.height, said, note, [],
                     ["percentile", "true", "predicted", "residual"], rows)  # fmt: skip
    return [scatter, _residuals(residuals, of)]


def _residuals(residuals: np.ndarray, of: str) -> Figure:
    counts, edges = np.histogram(residuals, bins=24)
    on = frame([float(edges[0]), float(edges[-1])], [0, float(counts.max())], exact=True)
    bars = histogram(counts, on, on.y.start, on.y.start - on.y.end)
    bias, spread = float(residuals.mean()), float(residuals.std())
    said = f"Predicted minus true: {number(bias)} in the mean, standard deviation {number(spread)}."
    rows = [[f"{number(a)} to {number(b)}", f"{count:,}"]
            for a, b, count in zip(edges, edges[1:], counts, strict=False)]  # fmt: skip
    zero = [] if not edges[0] < 0 < edges[-1] else [(on.x(0), on.y.start), (on.x(0), on.y.end)]
    line = path(zero, class_="ideal") if zero else ""
    return Figure(f"Residuals{of}", on.drawn("predicted minus true", "count") + bars + line,
                  on.height, said, said, [], ["residual", "count"], rows)  # fmt: skip
