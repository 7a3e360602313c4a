"""Charts, read back as XML."""

import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.comparison.domain.compare import Question
from evaluation_pipelines.comparison.domain.findings import findings
from evaluation_pipelines.reporting.domain.charts import (
    Axis,
    AxisScale,
    Curve,
    Place,
    bars_svg,
    histogram_svg,
    line_chart,
    scatter,
    trend,
)
from evaluation_pipelines.reporting.domain.comparison_report import picture
from evaluation_pipelines_tests.world.rows import Row
from evaluation_pipelines_tests.world.runs import (
    SINCE,
    UNTIL,
    compared,
    run,
    sample,
    scores,
    three_models,
)

SVG = "{http://www.w3.org/2000/svg}"
LEFT, BIN = 20, 600 / 20  # pixels
TALLEST = 130 - 26


def drawn(
    values: Sequence[float],
    label: str = "composite",
    limits: tuple[float, float] = (0, 10),
    marks: Mapping[str, float] | None = None,
) -> ET.Element:
    """The picture; what is no well-formed XML fails here."""
    return ET.fromstring(histogram_svg(values, label, limits, marks))  # noqa: S314 - our own text


def bars(picture: ET.Element) -> list[tuple[int, int, float]]:
    """Bin, number shown on hovering and height of each bar."""
    return [
        (
            round((float(bar.get("x", "")) - LEFT - 0.5) / BIN),
            int(title.text or ""),
            float(bar.get("height", "")),
        )
        for bar in picture.iter(f"{SVG}rect")
        for title in bar.iter(f"{SVG}title")
    ]


def texts(picture: ET.Element) -> list[str]:
    return [element.text or "" for element in picture.iter(f"{SVG}text")]


def test_each_value_is_counted_in_its_bin_and_the_tallest_bar_fills_the_height() -> None:
    # Bins of 0.5: 1.2 and 1.4 lie in bin 2 (1.0 to 1.5), 5.0 begins bin 10.
    picture = drawn([1.2, 1.4, 5.0])

    assert bars(picture) == [(2, 2, TALLEST), (10, 1, TALLEST / 2)]


def test_values_at_and_beyond_the_limits_are_counted_at_the_ends() -> None:
    assert [(place, count) for place, count, _ in bars(drawn([-3.0, 0.0, 10.0, 11.5]))] == [
        (0, 2),
        (19, 2),
    ]


def test_the_axis_and_the_label_say_what_is_shown() -> None:
    picture = drawn([1.0, 2.0], limits=(0, 10))

    assert texts(picture) == ["0", "2", "4", "6", "8", "10", "composite, n = 2"]
    assert (picture.get("width"), picture.get("height")) == ("640", "174")


def test_marks_are_named_lines_at_their_values() -> None:
    picture = drawn([], marks={"review": 4, "keep": 7})
    dashed = [element for element in picture.iter(f"{SVG}line") if element.get("stroke-dasharray")]

    # 4 of 10 is 240 of 600 pixels, 7 of 10 is 420.
    assert [element.get("x1") for element in dashed] == ["260.0", "440.0"]
    assert texts(picture)[:2] == ["review", "keep"]


def test_no_values_are_an_empty_picture_that_says_so() -> None:
    picture = drawn([])

    assert bars(picture) == []
    assert texts(picture)[-1] == "composite, n = 0"


def test_texts_cannot_break_out_of_the_picture() -> None:
    hostile = '</text><script>"&'
    picture = drawn([1.0], label=hostile, marks={hostile: 5})

    assert texts(picture)[0] == hostile
    assert texts(picture)[-1] == f"{hostile}, n = 1"
    assert list(picture.iter(f"{SVG}script")) == []


@pytest.mark.parametrize("limits", [(0.0, 10.0), (-1.0, 1.0), (100.0, 300.0)])
@given(values=st.lists(st.floats(-500, 500), max_size=60))
def test_every_value_is_in_exactly_one_bar_within_the_picture(
    limits: tuple[float, float], values: list[float]
) -> None:
    shown = bars(drawn(values, limits=limits))

    assert sum(count for _, count, _ in shown) == len(values)
    assert all(0 <= place < 20 and 0 < height <= TALLEST for place, _, height in shown)


def test_bars_are_as_long_as_their_numbers() -> None:
    rows = [("<b>grep</b>", 8), ("x" * 31, 2)]
    picture = ET.fromstring(bars_svg(rows, "sessions"))  # noqa: S314 - our own text
    bars = picture.findall(f"{SVG}rect")[1:]
    # 640 wide, 240 for the names and 60 for the numbers: 340 for the largest, a quarter for 2.
    assert [float(bar.attrib["width"]) for bar in bars] == [340.0, 85.0]
    texts = [element.text for element in picture.iter(f"{SVG}text")]
    assert texts == ["<b>grep</b>", "8", f"{'x' * 29}\u2026", "2", "sessions"]


def test_no_bars_are_a_picture_too() -> None:
    picture = ET.fromstring(bars_svg([], "nothing"))  # noqa: S314 - our own text
    assert [element.text for element in picture.iter(f"{SVG}text")] == ["nothing"]


def test_pictures_are_left_out_where_there_is_nothing_to_see() -> None:
    rows = [row | {"cost_usd": None} for row in three_models()[:48]]
    (only,) = findings(compared(rows))
    assert picture(only) is None
    unseen = compared([run(at, 80.0, model="a") for at in range(30)], Question(SINCE, UNTIL))
    (alone,) = findings(unseen)
    assert trend(alone, unseen.runs.clear(), (SINCE, UNTIL)) is None


def test_the_trend_draws_means_of_enough_runs_only() -> None:
    days = [0] * 27 + [4] * 3 + [10] * 2  # days after the beginning
    rows = [
        run(at, float(50 + day), model="a", started_at=SINCE + timedelta(days=day, hours=1))
        for at, day in enumerate(days)
    ]
    found = compared(rows)
    (only,) = findings(found)
    drawn = trend(only, found.runs, (SINCE, UNTIL))
    assert drawn is not None
    # Two stretches of two days (27 and 3 runs), and the dot of the legend.
    assert drawn.count("<circle") == 3
    assert "27 sessions" in drawn
    assert "2 runs<" not in drawn


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.0, 10.0], [0, 2, 4, 6, 8, 10]),
        ([71.2, 89.0], [70, 75, 80, 85, 90]),
        ([5.0, 5.0], [4.4, 4.6, 4.8, 5.0, 5.2, 5.4, 5.6]),
        ([0.0, 0.0], [-0.1, -0.05, 0, 0.05, 0.1]),
    ],
)
def test_scales_end_at_round_numbers(values: list[float], ticks: list[float]) -> None:
    scale = AxisScale(values, 0, 100)
    assert scale.ticks()[0] <= min(values)
    assert scale.ticks()[-1] >= max(values)
    assert scale.ticks() == pytest.approx(ticks)
    assert [scale(scale.low), scale(scale.high)] == pytest.approx([0, 100])


def _forty(model: str, number: int) -> list[Row]:
    return sample(model, scores(80, 40, seed=number + 1), 100 * number)


def test_names_of_models_at_the_same_place_stand_below_each_other() -> None:
    rows = [run for at, name in enumerate(("ash", "bay", "elm")) for run in _forty(name, at)]
    only = findings(compared(rows))[0]
    drawn = scatter(only)
    assert drawn is not None
    found = re.findall(r'y="([0-9.]+)"[^>]*>(ash|bay|elm) ', drawn)
    heights = sorted(float(y) for y, _ in found)
    assert len(heights) == 3
    assert all(low + 20 <= high for low, high in itertools.pairwise(heights))


@pytest.mark.parametrize(
    ("first", "hours", "days"),
    [
        # A quarter of seven days is 1.75 days, half of them 3.5, three quarters 5.25.
        (12, 24, {"18 Nov": 0, "20 Nov": 2, "22 Nov": 4, "23 Nov": 5, "25 Nov": 7}),
        (20, 12, {"18 Nov": 0, "19 Nov": 1}),  # less than a day, over midnight
    ],
)
def test_each_label_of_a_day_is_below_a_dot(first: int, hours: int, days: dict[str, int]) -> None:
    begin, number = datetime(2026, 11, 18, first, tzinfo=UTC), max(days.values()) + 1
    times = [begin + timedelta(hours=hours * index) for index in range(number)]
    places = [Place(time, float(index), f"{time}") for index, time in enumerate(times)]
    chart = line_chart("Values", [Curve(places)], Axis()) or ""
    dots = re.findall(r'<circle[^>]*cx="([\d.]+)"', chart)
    labels = re.findall(r'<text[^>]*x="([\d.]+)"[^>]*>(\d\d Nov)<', chart)
    assert labels == [(dots[index], name) for name, index in days.items()]
