"""Sparklines of scores."""

from evaluation_pipelines.cli.reputation import sparkline


def test_bars_rise_with_the_values_and_unknown_ones_are_dots() -> None:
    # Eight bars over -1 to 1: 0 is at 3.5, which rounds to the even 4.
    assert sparkline([-1.0, None, 0.0, 1.0], -1, 1) == "▁·▅█"


def test_values_beyond_the_limits_are_shown_at_them() -> None:
    assert sparkline([-3.0, 3.0], -1, 1) == "▁█"
