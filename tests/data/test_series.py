"""Series in tables and in JSON: what is read, and what is wrong said in one paragraph."""

import json

import numpy as np
import pytest
import torch

from zoo.canonical_form import WEIGHT
from zoo.data.load import load_data
from zoo.data.load.series import series_of_json, series_of_table, time_names
from zoo.data.snapshots import Steps, filled
from zoo.errors import ZooError

DAYS = [f"2026-03-{day:02}" for day in range(1, 16)]


def write(path, rows, head="date,store,sales"):
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def two_stores(days=DAYS):
    return [(day, store, 10 * number + place) for number, day in enumerate(days)
            for place, store in enumerate(("north", "south"))]  # fmt: skip


def read(path, **options):
    return series_of_table(path, **{"time": "date", "id": "store", "target": "sales", "lags": 3,
                                    **options})  # fmt: skip


def test_rows_in_any_order_are_placed_by_time_and_id(tmp_path):
    rows = two_stores()
    np.random.default_rng(0).shuffle(rows)
    data = read(write(tmp_path / "sales.csv", rows))
    assert data.ids.tolist() == ["north", "south"] and data.series.steps.size == "D"
    np.testing.assert_array_equal(data.series.values[:, 0, 0], 10 * np.arange(15))
    np.testing.assert_array_equal(data.series.values[:, 1, 0], 10 * np.arange(15) + 1)
    assert time_names(data.series.times) == DAYS
    assert data.period == 7 and len(data.y) == 15 - 3


def test_further_columns_and_edges(tmp_path):
    rows = [(*row, row[2] / 2) for row in two_stores()]
    path = write(tmp_path / "sales.csv", rows, "date,store,sales,price")
    write(tmp_path / "roads.csv", [("north", "south")], "a,b")
    data = read(path, columns=["price"], edges=str(tmp_path / "roads.csv"), edge_columns=["a", "b"])
    assert data.series.names == ("sales", "price") and data.inputs == 6
    assert data.graphs.graphs[0].num_edges() == 4  # both directions, and two loops
    np.testing.assert_array_equal(data.series.values[..., 1], data.series.values[..., 0] / 2)


def test_parquet_and_dates_of_its_own(tmp_path):
    import pandas

    rows = two_stores()
    frame = pandas.DataFrame(rows, columns=["date", "store", "sales"])
    frame["date"] = pandas.to_datetime(frame["date"])
    frame.to_parquet(tmp_path / "sales.parquet")
    given = read(tmp_path / "sales.parquet").series
    np.testing.assert_array_equal(given.values, read(write(tmp_path / "a.csv", rows)).series.values)
    assert time_names(given.times) == DAYS


def test_fractions_with_a_comma(tmp_path):
    import pandas

    rows = [(*each, f"{number},5") for number, each in enumerate((day, "north") for day in DAYS)]
    path = tmp_path / "sales.csv"
    path.write_text("date;store;sales\n" + "".join(f"{';'.join(each)}\n" for each in rows))
    data = read(path, separator=";", decimal="comma")
    np.testing.assert_array_equal(data.series.values[:, 0, 0], np.arange(15) + 0.5)
    with pytest.raises(ZooError, match="holds '0,5' in data row 1.*write `decimal: comma`"):
        read(path, separator=";")
    path.write_text(path.read_text().replace("3,5", "1.234"))
    with pytest.raises(ZooError, match=r"holds '1.234' in data row 4"):
        read(path, separator=";", decimal="comma")
    pandas.DataFrame(rows, columns=["date", "store", "text"]).assign(
        sales=np.arange(15) + 0.5
    ).to_parquet(tmp_path / "own.parquet")
    for target in ("sales", "text"):  # numbers have no comma in Parquet
        data = read(tmp_path / "own.parquet", target=target, decimal="comma")
        np.testing.assert_array_equal(data.series.values[:, 0, 0], np.arange(15) + 0.5)


def test_one_series_has_no_id(tmp_path):
    path = write(tmp_path / "one.csv", [(day, number) for number, day in enumerate(DAYS)], "t,y")
    data = series_of_table(path, time="t", target="y", lags=2)
    assert data.ids is None and data.series.values.shape == (15, 1, 1)


@pytest.mark.parametrize(
    ("times", "size", "then"),
    [
        (DAYS[:6], "D", "2026-03-07"),
        (["2026-01-01", "2026-02-01", "2026-03-01", "2026-04-01", "2026-05-01", "2026-06-01"], "MS",
         "2026-07-01"),
        (["2026-03-02", "2026-03-09", "2026-03-16", "2026-03-23", "2026-03-30", "2026-04-06"],
         "W-MON", "2026-04-13"),
        (["20260301", "20260302", "20260303", "20260304", "20260305", "20260306"], "D",
         "2026-03-07"),
        ([f"2026-03-01T0{hour}:00" for hour in range(6)], "h", "2026-03-01T06:00:00"),
        ([2001, 2002, 2003, 2004, 2005, 2006], 1, "2007"),
        ([0, 5, 10, 15, 20, 25], 5, "30"),
    ],
)  # fmt: skip
def test_steps_are_those_of_calendar_and_clock(tmp_path, times, size, then):
    path = write(tmp_path / "one.csv", [(each, 1) for each in times], "t,y")
    series = series_of_table(path, time="t", target="y", lags=2).series
    assert series.steps.size == size
    assert time_names(series.steps.after(series.times[-1], 1).astype(series.times.dtype)) == [then]


def test_working_days_and_dates_written_otherwise(tmp_path):
    import pandas

    days = pandas.bdate_range("2026-03-02", periods=12)
    rows = [(each.strftime("%d/%m/%Y"), 1) for each in days]
    path = write(tmp_path / "one.csv", rows, "t,y")
    with pytest.raises(ZooError, match=r"holds '02/03/2026' in data row 1.*date_format"):
        series_of_table(path, time="t", target="y", lags=2)
    data = series_of_table(path, time="t", target="y", lags=2, date_format="%d/%m/%Y")
    assert data.series.steps.size == "B" and data.period == 5
    with pytest.raises(ZooError, match=r"`date_format: '%Q'` is none"):
        series_of_table(path, time="t", target="y", lags=2, date_format="%Q")
    points = write(tmp_path / "two.csv", [(day.replace("/", "."), y) for day, y in rows], "t,y")
    again = series_of_table(points, time="t", target="y", lags=2)
    assert (again.series.times == data.series.times).all() and again.period == 5
    path = write(tmp_path / "one.csv", rows[:7] + rows[8:], "t,y")  # a holiday
    options = {"time": "t", "target": "y", "lags": 2, "date_format": "%d/%m/%Y", "step": "B"}
    with pytest.raises(ZooError, match=r"12 times in steps of 'B' 1 have no row \(2026-03-11\)"):
        series_of_table(path, **options)
    values = series_of_table(path, missing="unknown", **options).series.values
    assert np.isnan(values[7]).all() and np.isfinite(np.delete(values, 7)).all()


def test_missing_values_are_unknown(tmp_path):
    rows = two_stores()
    rows[4] = (rows[4][0], rows[4][1], "")
    del rows[9]
    data = read(write(tmp_path / "sales.csv", rows))
    assert np.argwhere(np.isnan(data.series.values[:, :, 0])).tolist() == [[2, 0], [4, 1]]
    assert data.y.isnan().sum() == 1  # one is before the first target
    assert data.x[2, 0] == data.x[1, 0] and data.x[4, 1] == data.x[3, 1]


def changed(row, value):
    rows = two_stores()
    rows[row] = value
    return rows


def test_months_as_whole_numbers_are_told_how_they_are_read(tmp_path):
    months = [100 * year + month for year in (2023, 2024) for month in range(1, 13)]
    path = write(tmp_path / "sales.csv", [(each, "all", each % 7) for each in months])
    with pytest.raises(ZooError, match="have no row .202313.*Where they are months, write `date_f"):
        read(path)
    assert len(read(path, date_format="%Y%m").series.values) == 24
    with pytest.raises(ZooError) as caught:
        read(write(tmp_path / "sales.csv", [(each, "all", 1) for each in (5, 6, 8)]))
    assert "Where they are months" not in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        ([row for row in two_stores() if row[0] != DAYS[4]], {},
         "15 times in steps of 'D' 1 have no row .2026-03-05.*missing: unknown"),
        ([*two_stores(), two_stores()[3]], {},
         "data rows 4 and 31 are both of 'south' at 2026-03-02"),
        (changed(5, ("2026-03-03", "south", "many")), {}, "'sales' holds 'many' in data row 6"),
        (changed(5, ("2026-03-03", "south", "inf")), {}, "'sales' holds 'inf' in data row 6"),
        (changed(5, ("soon", "south", 3)), {}, "'date' holds 'soon' in data row 6"),
        (changed(5, ("", "south", 3)), {}, "'date' is empty in 1 rows, .* data row 6"),
        (changed(5, ("2026-03-03", "", 3)), {}, "'store' is empty in 1 rows"),
        (changed(5, ("2026-03-03", "south ", 3)), {}, "'store' holds 'south' and 'south '.*blanks"),
        (two_stores()[:2], {}, "has one time only"),
        ([], {}, "has no rows"),
        (two_stores()[:8], {"lags": 5}, "4 times, and 5 lags are read"),
        (two_stores(), {"target": "sale"}, "no column 'sale'.*target.*did you mean 'sales'"),
        (two_stores(), {"id": None}, "data rows 1 and 2 are both at 2026-03-01.*id: COLUMN"),
        (two_stores(), {"columns": ["store"]}, "'store' is a time or an id"),
        (two_stores(), {"step": "often"}, "step: 'often' is no step of dates"),
        (two_stores(), {"step": "W-MON"}, "times have to go on in equal steps"),
        (changed(5, ("1926-03-03", "south", 3)), {}, "too few for equal steps"),
        (changed(5, ("2026-03-03T10:00", "south", 3)), {}, "equal steps.*2026-03-03T10:00"),
        (two_stores(), {"edges": "no.csv"}, "there is no file no.csv"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table_is_said(tmp_path, rows, options, said):
    with pytest.raises(ZooError, match=said) as caught:
        read(write(tmp_path / "sales.csv", rows), **options)
    assert "sales" in str(caught.value) and "\n" not in str(caught.value)


def test_edges_need_ids_and_a_word_on_weights(tmp_path):
    path = write(tmp_path / "one.csv", [(day, 1) for day in DAYS], "t,y")
    roads = write(tmp_path / "roads.csv", [("north", "south", 3)], "source,target,km")
    with pytest.raises(ZooError, match="edges are between ids"):
        series_of_table(path, time="t", target="y", edges=str(roads))
    for option in ({"weight": "km"}, {"weights": "use"}, {"edge_columns": ["a", "b"]}):
        with pytest.raises(ZooError, match=f"{[*option][0]}: it is about a table of edges"):
            series_of_table(path, time="t", target="y", **option)
    path = write(tmp_path / "sales.csv", two_stores())
    with pytest.raises(ZooError, match="'km'.*weights: ignore"):
        read(path, edges=str(roads))
    assert read(path, edges=str(roads), weights="ignore").graphs.graphs[0].num_edges() == 4
    for word in ({"weights": "use"}, {"weight": "km"}):
        [graph] = read(path, edges=str(roads), **word).graphs.graphs
        assert graph.edata[WEIGHT].tolist() == [1, 3, 3, 1]
    [graph] = read(path, edges=str(roads), weight="km", direction="in").graphs.graphs
    assert graph.edata[WEIGHT].tolist() == [1, 3, 0, 1]


def test_edges_of_a_table_change_in_time(tmp_path):
    path = write(tmp_path / "sales.csv", two_stores())
    rows = [
        (DAYS[4], "north", "south", 2),
        (DAYS[6], "south", "north", 5),
        (DAYS[6], "north", "south", 7),
    ]
    roads = write(tmp_path / "roads.csv", rows, "date,source,target,lorries")
    data = read(path, edges=str(roads), weight="lorries")
    counts = [each.edata[WEIGHT][1].item() for each in data.graphs.graphs[1:]]
    assert [each.num_edges() for each in data.graphs.graphs] == [2, 4, 4] and counts == [2, 6]
    assert data.series.graph_of.tolist() == [0] * 4 + [1] * 2 + [2] * (len(DAYS) - 6)
    late = write(tmp_path / "late.csv", [("2031-01-01", "north", "south")], "date,source,target")
    with pytest.raises(ZooError, match="late.csv: 2031-01-01 is none of the times of the nodes"):
        read(path, edges=str(late))


@pytest.mark.parametrize(
    ("days", "edges"),
    [
        ([1, 3, 3, 9], [2, 2, 2]),  # the latest before the first time, and none of after the last
        ([1, 5, 9], [1, 1, 1]),  # those of the first time itself
        ([1, 1, 6, 6, 6], [2, 3, 3]),
        ([6], [0, 1, 1]),
        ([1], [1, 1, 1]),
        ([], [0, 0, 0]),
    ],
)
@pytest.mark.parametrize("names", [DAYS, range(1, 16)])
def test_edges_of_before_the_first_time_are_still_there(tmp_path, names, days, edges):
    path = write(tmp_path / "sales.csv", two_stores(names[5:8]))
    ends = [("north", "south"), ("south", "north"), ("north", "north")]
    rows = [(names[day], *ends[days[:place].count(day)]) for place, day in enumerate(days)]
    roads = write(tmp_path / "roads.csv", rows, "date,source,target")
    series = read(path, edges=str(roads)).series
    assert [len(series.edges[each]) for each in series.graph_of] == edges


def test_edges_between_the_times_of_the_nodes_are_refused(tmp_path):
    path = write(tmp_path / "sales.csv", two_stores())
    rows = [(f"{DAYS[6]}T12:00", "north", "south")]
    roads = write(tmp_path / "roads.csv", rows, "date,source,target")
    with pytest.raises(ZooError, match="2026-03-07T12:00:00 is none of the times of the nodes"):
        read(path, edges=str(roads))


@pytest.mark.parametrize(
    ("size", "period"),
    [("D", 7), ("B", 5), ("W-SUN", 52), ("MS", 12), ("ME", 12), ("QS-JAN", 4), ("h", 24),
     ("min", None), ("15min", None), ("2D", None), ("YS-JAN", None), (7, None), ("BME", 12),
     ("CBMS", 12), ("WOM-3FRI", 12), ("SMS-15", 24), ("BQE-DEC", 4), ("BYE-DEC", None)],
)  # fmt: skip
def test_seasons(size, period):
    assert Steps(size).period == period


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("zone", "freq", "step", "size", "first"),
    [
        ("Europe/Berlin", "D", None, "D", "2026-03-20T00:00:00"),  # the clock changes on the 29th
        ("Europe/Berlin", "MS", None, "MS", "2026-04-01T00:00:00"),
        ("Europe/Berlin", "h", None, "h", "2026-03-19T23:00:00"),
        ("UTC", "D", None, "D", "2026-03-20T00:00:00"),
        ("Europe/Berlin", "D", "h", "h", "2026-03-19T23:00:00"),
    ],
)
def test_times_with_a_zone(tmp_path, kind, zone, freq, step, size, first):
    """Days and months are those of the calendar there, and hours go on in UTC."""
    import pandas

    times = pandas.date_range("2026-03-20", periods=1 if step else 400, freq=freq, tz=zone)
    frame = pandas.DataFrame({"t": times, "y": 1.0})
    path = tmp_path / f"zone.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    series = series_of_table(path, time="t", target="y", lags=1, step=step).series
    assert (series.steps.size, len(series.times)) == (size, len(times))
    assert str(series.times[0]) == first and np.isfinite(series.values).all()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("freq", "size", "second"),
    [
        ("1500ms", "1500ms", "2026-01-01T00:00:01.500"),
        ("250us", "250us", "2026-01-01T00:00:00.000250"),
        ("5ns", "5ns", "2026-01-01T00:00:00.000000005"),
        ("2s", "2s", "2026-01-01T00:00:02"),
    ],
)
def test_times_have_fractions_of_a_second(tmp_path, kind, freq, size, second):
    import pandas

    times = pandas.date_range("2026-01-01", periods=40, freq=freq, unit="ns")
    frame, path = pandas.DataFrame({"t": times, "y": np.arange(40.0)}), tmp_path / f"one.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    series = series_of_table(path, time="t", target="y", lags=2).series
    assert series.steps.size == size and time_names(series.times)[1] == second
    np.testing.assert_array_equal(series.values.flatten(), np.arange(40))
    np.testing.assert_array_equal(series.steps.after(series.times[0], 39), series.times[1:])


def test_a_step_may_be_finer_than_the_times_that_are_there(tmp_path):
    rows = [("2026-01-01T00:00:00", 1), ("2026-01-01T00:00:03", 2)]
    path = write(tmp_path / "one.csv", rows, "t,y")
    told = {"time": "t", "target": "y", "lags": 2, "step": "1500ms"}
    with pytest.raises(ZooError, match=r"1 have no row \(2026-01-01T00:00:01.500\)"):
        series_of_table(path, **told)
    assert len(series_of_table(path, missing="unknown", **told).series.times) == 3


def test_an_offset_of_its_own_form(tmp_path):
    rows = [(f"{day}/03/2026 00:00 +0{1 + (day > 29)}00", 1) for day in range(25, 32)]
    path = write(tmp_path / "one.csv", rows, "t,y")
    form = "%d/%m/%Y %H:%M %z"
    data = series_of_table(path, time="t", target="y", lags=2, date_format=form)
    assert time_names(data.series.times)[0] == "2026-03-25" and data.series.steps.size == "D"


def test_numbers_that_are_dates_have_lost_the_zeros_in_front(tmp_path):
    import pandas

    frame = pandas.DataFrame({"t": [1022024, 2022024, 12022024], "y": 1.0})  # %d%m%Y
    frame.to_parquet(tmp_path / "one.parquet")
    told = {"lags": 2, "date_format": "%d%m%Y", "missing": "unknown"}
    data = series_of_table(tmp_path / "one.parquet", time="t", target="y", **told)
    names = time_names(data.series.times)
    assert (names[0], names[-1], len(names)) == ("2024-02-01", "2024-02-12", 12)


def test_whole_numbers_are_times_also_where_parquet_has_fractions(tmp_path):
    import pandas

    pandas.DataFrame({"t": [2001.0, 2002.0, 2004.0], "y": 1.0}).to_parquet(tmp_path / "one.parquet")
    told = {"time": "t", "target": "y", "lags": 2, "missing": "unknown"}
    data = series_of_table(tmp_path / "one.parquet", **told)
    assert data.series.times.tolist() == [2001, 2002, 2003, 2004]


def test_edges_in_time_are_of_the_clock_of_their_nodes(tmp_path):
    hours = [(f"2026-03-01T{hour:02}:00+01:00", store, 1) for hour in range(9)
             for store in ("north", "south")]  # fmt: skip
    path = write(tmp_path / "sales.csv", hours)
    roads = write(tmp_path / "roads.csv", [(hours[4][0], "north", "south")], "date,source,target")
    assert read(path, edges=str(roads)).series.graph_of.tolist() == [0] * 2 + [1] * 7


def test_steps_of_whole_numbers_may_be_told(tmp_path):
    """Of a few rows they are not seen: those of training are."""
    path = write(tmp_path / "one.csv", [(400, 1), (420, 2)], "t,y")
    options = {"time": "t", "target": "y", "lags": 1}
    with pytest.raises(ZooError, match=r"3 times in steps of 10 1 have no row \(410\)"):
        series_of_table(path, step="10", **options)
    data = series_of_table(path, step="10", missing="unknown", **options)
    assert data.series.times.tolist() == [400, 410, 420] and data.series.steps.size == 10
    assert series_of_table(path, **options).series.steps.size == 20
    for step in ("D", "0"):
        with pytest.raises(ZooError, match=f"'{step}' is none of whole numbers.*such as 1"):
            series_of_table(path, step=step, **options)
    path = write(tmp_path / "one.csv", [(400, 1)], "t,y")
    assert series_of_table(path, step="10", **options).series.steps.size == 10
    path = write(tmp_path / "one.csv", [(day, 1) for day in DAYS], "t,y")
    with pytest.raises(ZooError, match="step: 10 is one of whole numbers.*D or MS"):
        series_of_table(path, step="10", **options)


def test_what_is_unknown_is_what_was_last_known():
    import torch

    nan = float("nan")
    x = torch.tensor([nan, 1.0, nan, nan, 4.0, nan]).reshape(6, 1, 1)
    assert filled(x).flatten().tolist() == [0, 1, 1, 1, 4, 4]


# The JSON of PyTorch Geometric Temporal

T, N = 9, 3
Y = (np.arange(T)[:, None] * 10.0 + np.arange(N)).tolist()
EDGES = [[0, 1], [1, 2]]
FORMS = {
    "FX": {"edges": EDGES, "FX": Y, "node_ids": {"b": 1, "a": 0, "c": 2}},
    "X with weights of 1": {"edges": EDGES, "X": Y, "weights": [1, 1.0]},
    "block": {"edges": EDGES, "block": Y},
    "times": {"edges": EDGES, "time_periods": T, **{str(t): {"y": Y[t]} for t in range(T)}},
    "edges of each time": {
        "time_periods": T,
        **{str(t): {"y": Y[t], "X": [[t, 1]] * N, "edges": EDGES[: 1 + t % 2]} for t in range(T)},
    },
    "mapping": {
        "time_periods": T,
        "y": Y,
        "edge_mapping": {"edge_index": {str(t): EDGES[: 1 + t % 2] for t in range(T - 2)}},
    },
    "nodes": {
        "nodes": [{"bus_stop": 7 + n, "y": [row[n] for row in Y]} for n in range(N)],
        "links": [{"source": 7, "target": 8}, {"source": 8, "target": 9, "weight": 1}],
    },
}


def json_of(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_the_same_numbers(tmp_path, form):
    data = series_of_json(json_of(tmp_path / "own.json", FORMS[form]), lags=2)
    np.testing.assert_array_equal(data.series.values[:, :, 0], Y)
    kinds = data.graphs.kinds.tolist()
    if form in ("edges of each time", "mapping"):
        last = 6 if form == "mapping" else 8  # what is not there is as it was last
        assert kinds == [min(time, last) % 2 for time in range(1, 8)]
        assert [each.num_edges() for each in data.graphs.graphs] == [5, 7]
    else:
        assert kinds == [0] * 7 and data.graphs.graphs[0].num_edges() == 7
    assert data.inputs == (6 if form == "edges of each time" else 2)
    ids = {"FX": ["a", "b", "c"], "nodes": ["7", "8", "9"]}.get(form)
    assert (None if data.ids is None else data.ids.tolist()) == ids


def test_it_is_read_by_its_path(tmp_path):
    path = str(json_of(tmp_path / "own.json", FORMS["FX"]))
    data = load_data({"name": path, "lags": 2, "task": "node-forecasting"})
    assert data.name == "own" and data.task == "node-forecasting"
    path = json_of(tmp_path / "null.json", {**FORMS["FX"], "FX": [[None, 1, 2], *Y[1:]]})
    assert np.isnan(series_of_json(path, lags=2).series.values[0, :, 0]).tolist() == [True, 0, 0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", r"no series in JSON \(JSONDecodeError: Expecting property.*`FX`"),
        ("[1]", "a list of JSON; write an object with `edges`"),
        ({"edges": EDGES}, "it holds 'edges'; write an object"),
        ({"edges": EDGES, "X": Y, "y": Y}, "holds `X` and `y`, and one is read"),
        ({"edges": EDGES, "FX": [[1, 2], [3]]}, "`FX` is no table of numbers"),
        ({"edges": EDGES, "FX": [["a", "b", "c"]] * 9}, "`FX` is no table of numbers"),
        ({"edges": EDGES, "FX": [[1, 2, 1e99]] * 9}, "`FX` is no table of numbers"),
        ({"edges": [[0, 3]], "FX": Y}, "there are 3 nodes"),
        ({"edges": [["a", "b"]], "FX": Y}, "no pairs of numbers"),
        ({"FX": Y}, "no pairs of numbers"),
        ({"edges": EDGES, "FX": Y, "weights": [1, 2]}, "weights: ignore"),
        ({**FORMS["nodes"], "links": [{"source": 7, "target": 8, "weight": 2}]}, "weights: ignore"),
        ({"edges": EDGES, "time_periods": 3, "0": {"y": [1, 2, 3]}}, "KeyError: '1'.*`FX`"),
        ({"edges": EDGES, "time_periods": 1, "0": {}}, "no series in JSON .KeyError: 'y'.*`FX`"),
        ({"FX": Y, "links": [{"source": 7, "target": 8}]}, "KeyError: 'nodes'.*`FX`"),
        ({"FX": Y, "nodes": [1, 2, 3], "links": []}, "TypeError: 'int' object.*`FX`"),
        ({**FORMS["nodes"], "links": [{"source": [7], "target": 8}]}, "unhashable type.*`FX`"),
        ({"FX": Y, "nodes": 3}, "no pairs of numbers"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said(tmp_path, content, said):
    with pytest.raises(ZooError, match=said) as caught:
        load_data({"name": str(json_of(tmp_path / "own.json", content)), "lags": 2})
    assert "own.json" in str(caught.value) and "\n" not in str(caught.value)


def test_weights_are_ignored_or_used(tmp_path):
    path = json_of(tmp_path / "own.json", {"edges": EDGES, "FX": Y, "weights": [1, 2]})
    assert len(load_data({"name": str(path), "lags": 2, "weights": "ignore"}).y) == 7
    data = load_data({"name": str(path), "lags": 2, "weights": "use"})
    assert data.graphs.graphs[0].edata[WEIGHT].tolist() == [1, 1, 1, 1, 2, 2, 1]
    with pytest.raises(ZooError, match="no list of 2 numbers"):
        path = json_of(tmp_path / "few.json", {"edges": EDGES, "FX": Y, "weights": [2]})
        load_data({"name": str(path), "lags": 2, "weights": "use"})
    with pytest.raises(ZooError, match="the edges have none to use"):
        load_data({"name": str(json_of(path, FORMS["FX"])), "lags": 2, "weights": "use"})


def test_weights_change_in_time(tmp_path):
    mapping = {
        "edge_index": {str(t): EDGES for t in range(T)},
        "edge_weight": {str(t): [1, 2 + t // 4] for t in range(T)},
    }
    content = {"time_periods": T, "y": Y, "edge_mapping": mapping}
    data = series_of_json(json_of(tmp_path / "own.json", content), lags=2, weights="use")
    first, second, third = (each.edata[WEIGHT] for each in data.graphs.graphs)
    graph, _ = data.batch(torch.tensor([6, 0, 3]))  # at the times 7, 1 and 4
    assert graph.edata[WEIGHT].tolist() == torch.cat([second, first, second]).tolist()
    assert third.max() == 4


@pytest.mark.parametrize("weights", ["use", "ignore"])
def test_a_time_without_a_mapping_has_the_last_one_before(tmp_path, weights):
    index = {"2": EDGES[:1], "5": EDGES, "6": []}
    told = {"2": [3], "5": [4, 5], "6": []}
    content = {
        "time_periods": T,
        "y": Y,
        "edge_mapping": {"edge_index": index, "edge_weight": told},
    }
    data = series_of_json(json_of(tmp_path / "own.json", content), lags=2, weights=weights)
    series = data.series
    found = [series.edges[each].tolist() for each in series.graph_of]
    assert found == [*2 * [[]], *3 * [EDGES[:1]], EDGES, *3 * [[]]]
    if weights == "use":
        found = [series.weights[each].tolist() for each in series.graph_of]
        assert found == [*2 * [[]], *3 * [[3]], [4, 5], *3 * [[]]]
    content["edge_mapping"] = {"edge_index": {"12": EDGES}}
    with pytest.raises(ZooError, match="edges of no time"):
        series_of_json(json_of(tmp_path / "own.json", content))


def test_chickenpox(real_graph):
    data = real_graph("chickenpox")
    assert data.series.values.shape == (521, 20, 1) and len(data.y) == 517
    assert data.graphs.graphs[0].num_edges() == 102 and data.ids[4] == "BUDAPEST"
