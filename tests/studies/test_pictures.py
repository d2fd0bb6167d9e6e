"""What the pictures of studies say: where axes begin, what bars are, which line is which."""

import math

import pytest
import rba_control
import transfer
from matplotlib.figure import Figure
from study import Series, Study, _fractions, _shifts, write_study

X = [1.0, 4.0, 16.0]


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Write a study of some plots and return its figure."""

    def draw(*plots):
        figures = []
        save = Figure.savefig

        def keep(figure, *args, **options):
            figures.append(figure)
            save(figure, *args, **options)

        monkeypatch.setattr(Figure, "savefig", keep)
        write_study(Study("drawn", [], list(plots)), tmp_path)
        return figures[0]

    return draw


def notes(axes):
    return " ".join(" ".join(each.get_text().split()) for each in axes.texts)


def test_a_linear_axis_begins_at_0_or_says_that_it_does_not(drawn):
    costs = Series("ms", "p", {"a": (X, [110.0, 300.0, 331.0])}, flat=True)
    scores = Series("score", "p", {"a": (X, [0.83, 0.84, 0.85])}, flat=True)
    gains = Series("gain", "p", {"a": (X, [-0.1, 0.1, 0.2])}, flat=True)
    first, second, third = drawn(costs, scores, gains).axes
    assert first.get_ylim()[0] == 0 and notes(first) == ""
    low = second.get_ylim()[0]
    assert low > 0.8 and notes(second) == f"the y axis begins at {low:.2g}, not at 0"
    assert third.get_ylim()[0] < -0.1 and notes(third) == ""


def test_error_bars_count_where_an_axis_begins(drawn):
    lines, margins = {"a": (X, [0.5, 0.6, 0.7])}, {"a": [0.4, 0.1, 0.1]}
    axes = drawn(Series("score", "p", lines, flat=True, margins=margins, note="bars: x")).axes[0]
    assert axes.get_ylim()[0] == 0 and notes(axes) == "bars: x"


def test_lines_are_told_apart_without_their_colours(drawn):
    lines = {f"line {number}": (X, [number + 1.0] * 3) for number in range(20)}
    (axes,) = drawn(Series("many", "p", lines)).axes
    looks = {(each.get_color(), each.get_marker()) for each in axes.lines if each.get_label()}
    assert len({each for each in looks if each[1] not in ("_", "|")}) == 20


def test_references_differ_in_their_dashes_and_a_counterpart_in_its_markers(drawn):
    lines = {name: (X, [1.0, 2.0, 3.0]) for name in ("gcn", "gcn, from scratch", "one", "other")}
    (axes,) = drawn(Series("plot", "p", lines, dashed=tuple(lines)[1:])).axes
    of = {each.get_label(): each for each in axes.containers}
    line, scratch, one, other = (of[name].lines[0] for name in lines)
    assert scratch.get_color() == line.get_color() and scratch.get_marker() == line.get_marker()
    assert scratch.get_markerfacecolor() == "white" != line.get_markerfacecolor()
    assert one.get_linestyle() != other.get_linestyle()


def test_bars_that_would_cover_each_other_stand_apart_and_near_their_x():
    lines = {name: (X, [1.0] * 3) for name in "abc"}
    factors = list(_shifts(Series("", "p", lines, margins={n: [0.1] * 3 for n in lines})).values())
    assert factors[1] == 1 and len(set(factors)) == 3
    assert max(abs(math.log(each)) for each in factors) < math.log(4) / 2
    assert _shifts(Series("", "p", lines, margins={"a": [0.1] * 3})) == {}
    assert _shifts(Series("", "p", lines)) == {}


def test_ticks_are_fractions_where_two_digits_do_not_say_them():
    assert _fractions([1, 1 / 2, 1 / 16]) == ["1", "1/2", "1/16"]
    assert _fractions([1 / 127, 1 / 31]) == ["1/127", "1/31"]
    assert _fractions([0.05, 0.2, 0.5]) == [] and _fractions([1, 4, 16]) == []
    assert _fractions([0.0068964986]) == []


def test_the_control_shows_how_far_seeds_are_apart():
    table = [
        {"dataset": "d", "attention": "native", "p": None, "test": 0.5, "std": 0.04},
        {"dataset": "d", "attention": "rba", "p": 64, "test": 0.52, "std": 0.05},
        {"dataset": "d", "attention": "rba", "p": 256, "test": 0.51, "std": 0.06},
    ]
    plot = rba_control._plot(table, "d")
    assert plot.margins == {"native": [0.04, 0.04], "rba": [0.05, 0.06]}
    assert plot.note == "bars: standard deviation over seeds"
    single = rba_control._plot([{**row, "std": None} for row in table], "d")
    assert single.margins == {} and single.note == "one seed: no error bars"


def test_transfer_shows_deviations_of_scores_and_intervals_of_gains():
    pair = transfer.Pair([0.5, 0.6, 0.7], [0.6, 0.72, 0.78])
    found = {("gcn", "here", share): pair for share in (1, 5)}
    scores, gains = transfer._scores(found, "here"), transfer._gains(found, "here")
    assert scores.margins["gcn, from scratch"] == pytest.approx([0.1, 0.1])
    assert gains.lines["gcn"][1] == pytest.approx([0.1, 0.1])
    assert gains.margins["gcn"] == pytest.approx([pair.margin] * 2)
    assert gains.lines["no gain"] == ([1, 5], [0.0, 0.0])


def test_a_row_of_plots_with_the_same_lines_has_one_legend(drawn):
    same, other = {"a": (X, X), "b": (X, X)}, {"c": (X, X)}
    plots = [Series("plot", "p", each) for each in (same, same, same, same, other)]
    legends = [axes.get_legend() is not None for axes in drawn(*plots).axes]
    assert legends == [False, False, True, True, True]
