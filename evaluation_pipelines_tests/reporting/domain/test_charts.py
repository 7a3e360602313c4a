"""The histogram, read back as XML."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.reporting.domain.charts import bars_svg, histogram_svg

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
    """All texts, in the order drawn."""
    return [each.text or "" for each in picture.iter(f"{SVG}text")]


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


def test_marks_are_named_lines_at_their_values() -> None:
    picture = drawn([], marks={"review": 4, "keep": 7})
    dashed = [each for each in picture.iter(f"{SVG}line") if each.get("stroke-dasharray")]

    # 4 of 10 is 240 of 600 pixels, 7 of 10 is 420.
    assert [each.get("x1") for each in dashed] == ["260.0", "440.0"]
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
    assert [float(each.attrib["width"]) for each in bars] == [340.0, 85.0]
    texts = [each.text for each in picture.iter(f"{SVG}text")]
    assert texts == ["<b>grep</b>", "8", f"{'x' * 29}\u2026", "2", "sessions"]


def test_no_bars_are_a_picture_too() -> None:
    picture = ET.fromstring(bars_svg([], "nothing"))  # noqa: S314 - our own text
    assert [each.text for each in picture.iter(f"{SVG}text")] == ["nothing"]
