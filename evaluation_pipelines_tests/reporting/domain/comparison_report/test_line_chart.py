"""Labels of a line chart stand below the values of their days."""

import re
from datetime import UTC, datetime, timedelta

from evaluation_pipelines.reporting.domain.charts import (
    Axis,
    Curve,
    Place,
    line_chart,
)


def test_each_label_of_eight_days_is_below_the_dot_of_its_day() -> None:
    noon = datetime(2026, 11, 18, 12, tzinfo=UTC)
    places = [Place(noon + timedelta(days=each), 1.0, f"day {each}") for each in range(8)]
    chart = line_chart("Values", [Curve(places)], Axis()) or ""
    dots = re.findall(r'<circle[^>]*cx="([\d.]+)"', chart)
    labels = re.findall(r'<text[^>]*x="([\d.]+)"[^>]*>(\d\d Nov)<', chart)
    # A quarter of seven days is 1.75 days, half of them 3.5, three quarters 5.25.
    days = {"18 Nov": 0, "20 Nov": 2, "22 Nov": 4, "23 Nov": 5, "25 Nov": 7}
    assert labels == [(dots[number], name) for name, number in days.items()]


def test_less_than_a_day_over_midnight_has_both_days_within_the_chart() -> None:
    evening = datetime(2026, 11, 18, 20, tzinfo=UTC)
    places = [Place(evening, 1.0, "first"), Place(evening + timedelta(hours=12), 2.0, "last")]
    chart = line_chart("Values", [Curve(places)], Axis()) or ""
    dots = re.findall(r'<circle[^>]*cx="([\d.]+)"', chart)
    labels = re.findall(r'<text[^>]*x="([\d.]+)"[^>]*>(\d\d Nov)<', chart)
    assert labels == [(dots[0], "18 Nov"), (dots[1], "19 Nov")]
