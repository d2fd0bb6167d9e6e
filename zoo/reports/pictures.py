"""The figures of answers: confusion matrix, embedding, scores in bins, reliability, residuals."""

from collections.abc import Mapping, Sequence

import numpy as np

from zoo.reports.answers import Embedded
from zoo.reports.figures import Figure, Key, number, style
from zoo.reports.measures import Bin, Reliability
from zoo.reports.svg import COLORS, WIDTH, Frame, element, frame, marks, path, plain, text
from zoo.tasks.labels import MULTILABEL, REGRESSION

NAMED = 10
"""Classes that a picture of embeddings names; the others are grey."""

SCATTERED = 2000
"""Points of a picture of predictions at most."""

FEW = 10
"""Answers below which a bin of a reliability diagram is drawn hollow."""

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


def binned(series: Mapping[str, Sequence[Bin]], title: str, label: str, measure: str,
           note: str) -> Figure:  # fmt: skip
    """Return the figure of scores in bins, a mark with its interval for each bin of each series."""
    names = [each.name for each in next(iter(series.values()))]
    known = [value for bins in series.values() for each in bins
             for value in (each.score, each.low, each.high) if value is not None]  # fmt: skip
    room = 16 if len(series) == 1 else 0
    on = frame([-0.5, len(names) - 0.5], _ends(known, measure), exact=True, room=room)
    parts = [on.drawn(label, measure, names)]
    for index, bins in enumerate(series.values()):
        shift = 0 if len(series) == 1 else (index / (len(series) - 1) - 0.5) * 0.5
        told = [(place + shift, each) for place, each in enumerate(bins) if each.score is not None]
        for place, each in told:
            if each.low is not None and each.high is not None:
                way = [(on.x(place), on.y(min(max(end, on.y.low), on.y.high)))
                       for end in (each.low, each.high)]  # fmt: skip
                parts.append(path(way, class_=f"whisker c{index % COLORS}"))
        points = [(on.x(place), on.y(each.score)) for place, each in told]
        parts.append(marks(index, points, 5, class_=f"mark c{index % COLORS}"))
        if len(series) == 1:
            parts += [text(f"{each.count:,}", on.x(place), on.y.start + 33, text_anchor="middle",
                           class_="count") for place, each in enumerate(bins)]  # fmt: skip
    said = " ".join(
        f"{name}: " + ", ".join(f"{each.name}: {number(each.score)}" for each in bins) + "."
        for name, bins in [*series.items()][:6]
    )
    rows = [
        [each.name, *([name] if len(series) > 1 else []), f"{each.count:,}", number(each.score),
         number(each.low), number(each.high)]
        for name, bins in series.items() for each in bins
    ]  # fmt: skip
    columns = [label, *(["run"] if len(series) > 1 else []), "count", measure, "from", "to"]
    keys = [Key(name, index, index) for index, name in enumerate(series)] if len(series) > 1 else []
    return Figure(title, "".join(parts), on.height, said, note, keys, columns, rows)


def _ends(known: Sequence[float], measure: str) -> list[float]:
    """Return both ends of an axis: scores up to 1 keep that end where they come near it."""
    low, high = min(known, default=0.0), max(known, default=1.0)
    room = 0.08 * (high - low) or 0.05
    bounded = measure in ("accuracy", "roc-auc")
    low = max(0.0, low - room) if bounded or low >= 0 else low - room
    return [low, min(1.0, high + room) if bounded else high + room]


def reliability_diagram(series: Mapping[str, Reliability]) -> Figure:
    """Return the reliability diagram: how often answers of each probability are right."""
    alone = len(series) == 1
    on = frame([0, 1], [0, 1], height=330, exact=True, room=56 if alone else 0)
    parts = [on.drawn("probability of the answer", "share that is right")]
    parts.append(path([(on.x(0), on.y(0)), (on.x(1), on.y(1))], class_="ideal"))
    for index, found in enumerate(series.values()):
        points = [(on.x(float(a)), on.y(float(b)))
                  for a, b in zip(found.confidence, found.right, strict=True)]  # fmt: skip
        known = [point for point, count in zip(points, found.count, strict=True) if count]
        parts.append(path(known, **style(index)))
        for few in (True, False):
            own = [point for point, count in zip(points, found.count, strict=True)
                   if count and (count < FEW) == few]  # fmt: skip
            kind = f"mark c{index % COLORS}{' hollow' if few else ''}"
            parts.append(marks(index, own, 4.5, class_=kind) if own else "")
    first = next(iter(series.values()))
    if alone:
        parts.append(histogram(first.count, on, on.height - 30, 30))
    said = " ".join(f"{'' if alone else f'{name}: '}Expected calibration error "
                    f"{_mean(found.errors)}." for name, found in series.items())  # fmt: skip
    rows = [
        [f"{low / 10:.1f} to {(low + 1) / 10:.1f}", *([name] if len(series) > 1 else []),
         f"{found.count[low]:,}", number(found.confidence[low]), number(found.right[low])]
        for name, found in series.items() for low in range(len(found.count))
    ]  # fmt: skip
    columns = ["bin", *(["run"] if len(series) > 1 else []), "count", "probability", "right"]
    keys = [Key(f"{name}: {_mean(found.errors)}" if len(series) > 1 else name, index, index)
            for index, (name, found) in enumerate(series.items())]  # fmt: skip
    note = (
        "On the dashed line probabilities are what they say; below it they promise too much. "
        f"{said if alone else 'Beside the names: expected calibration error.'} Hollow: fewer than "
        f"{FEW} answers.{' The bars count answers.' if alone else ''}"
    )
    return Figure("Reliability", "".join(parts), on.height, said, note,
                  keys if len(series) > 1 else [], columns, rows)  # fmt: skip


def _mean(errors: Sequence[float]) -> str:
    spread = f" ± {np.std(errors, ddof=1):.3f}" if len(errors) > 1 else ""
    return f"{np.mean(errors):.3f}{spread}"


def histogram(counts: np.ndarray, on: Frame, low: float, height: float) -> str:
    """Return bars over the whole of the x axis of a frame, which stand at a place."""
    width = (on.x.end - on.x.start) / len(counts)
    return "".join(
        element("rect", x=on.x.start + place * width + 1, width=width - 2,
                y=low - height * count / max(counts), height=height * count / max(counts),
                class_="bar")
        for place, count in enumerate(counts)
    )  # fmt: skip
