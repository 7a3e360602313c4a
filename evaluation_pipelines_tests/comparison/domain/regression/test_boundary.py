"""The boundary of the watch: how far by chance in a quarter."""

import pytest

from evaluation_pipelines.comparison.domain.score_change import boundary, chance_in_quarter


def test_the_chance_is_the_fitted_curve_and_does_not_depend_on_the_direction() -> None:
    # 90 / 4^1.5 * exp(-8) / sqrt(2 pi) = 11.25 * 0.00033546 * 0.39894 = 0.0015056
    assert chance_in_quarter(4.0, 4) == pytest.approx(1 - 0.9984955, abs=1e-6)
    assert chance_in_quarter(-4.0, 4) == chance_in_quarter(4.0, 4)


def test_models_that_do_not_change_miss_it_each_by_itself() -> None:
    one = chance_in_quarter(3.0, 1)
    assert chance_in_quarter(3.0, 1, 5) == pytest.approx(1 - (1 - one) ** 5)


def test_without_any_change_it_is_certain() -> None:
    assert chance_in_quarter(0.0, 1) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    ("chance", "weeks", "models"), [(0.05, 1, 1), (0.05, 4, 5), (0.025, 2, 40)]
)
def test_the_boundary_is_where_the_chance_is_reached(
    chance: float, weeks: int, models: int
) -> None:
    found = boundary(chance, weeks, models)
    assert chance_in_quarter(found, weeks, models) == pytest.approx(chance)


def test_short_windows_must_go_farther() -> None:
    assert [round(boundary(0.05, weeks, 5), 2) for weeks in (1, 4)] == [4.04, 3.49]
