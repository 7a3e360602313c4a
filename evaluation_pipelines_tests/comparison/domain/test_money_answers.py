"""The answer to which model to take for the money."""

import re

import pytest

from evaluation_pipelines_tests.comparison.domain.test_answers import (
    COST,
    MONEY,
    QUALITY,
    SURE,
    answers,
    named,
    said,
)
from evaluation_pipelines_tests.comparison_builders import (
    compared,
    run,
    sample,
    scores,
)


def test_a_cheaper_model_that_is_as_good_is_taken_for_the_money() -> None:
    rows = [*named("a", 85.5, 1, 96, cost_usd=0.4), *named("b", 85, 0, 96, cost_usd=0.1)]
    costs = [float(str(row["cost_usd"])) * (1 + at % 5 / 10) for at, row in enumerate(rows)]
    found = said([row | {"cost_usd": cost} for row, cost in zip(rows, costs, strict=True)])
    # 1 - 0.1 / 0.4, and the same five costs on both sides, dealt to people in another order.
    assert found[MONEY].startswith("b. It costs 75% less than a (7")
    assert found[MONEY].endswith(" and is at most 5 points behind every other model.")
    assert found[SURE].startswith(
        "high: at most 5 of 100 such reports name a best value that is not one. Based on 12 people"
    )


def test_the_best_model_is_taken_for_the_money_too_if_it_costs_least() -> None:
    found = said([*named("a", 85, 0, cost_usd=0.1), *named("b", 60, 1, cost_usd=0.4)])
    assert found[QUALITY].startswith("a. ")
    assert found[MONEY].startswith("a. It costs 75% less than b and is at most")


def test_a_cheaper_model_that_is_worse_is_not_taken() -> None:
    found = said([*named("a", 85, 0, cost_usd=0.4), *named("b", 70, 1, cost_usd=0.1)])
    assert found[MONEY].startswith("no cheaper alternative. b costs 75% less than a but scores 1")
    assert " points less than a (" in found[MONEY]
    assert "more sessions" not in found[MONEY]


def test_a_cheaper_model_that_may_be_as_good_is_not_ruled_out() -> None:
    values = scores(60, 40, 25, seed=4)
    rows = [
        *sample("a", [each + 7 for each in values], 0, 8, provider=None, cost_usd=0.4),
        *sample("b", values[::-1], 100, 8, provider=None, cost_usd=0.1),
    ]
    found = said(rows)
    # More than the margin behind, but that may be chance: both answers say so.
    assert found[QUALITY].startswith("inconclusive: a and b may be equally good")
    start = "inconclusive. b costs 75% less than a but may be more than 5 points worse than the "
    assert re.match(rf"{start}best. It scores [5-9]\.\d points less than a \(", found[MONEY])


def test_a_cheaper_model_that_is_worse_hides_no_other_that_may_be_as_good() -> None:
    values = scores(60, 40, 15, seed=4)
    rows = [
        *sample("a", [each + 1 for each in values], 0, 8, provider=None, cost_usd=0.8),
        *sample("b", values[::-1], 100, 8, provider=None, cost_usd=0.4),
        *named("c", 20, 2, 40, cost_usd=0.1),
    ]
    assert said(rows)[MONEY].startswith("inconclusive. b costs 50% less than a but may be more ")


@pytest.mark.parametrize(
    ("seed", "needed"),
    [(4, r"About \d+ people would settle it"), (0, r"About \d+ more sessions per model would")],
)
def test_it_is_said_what_would_show_that_a_cheaper_model_is_as_good(seed: int, needed: str) -> None:
    # Eight people, who differ by more than their runs in one sample and by less in the other.
    values = scores(60, 80, 25, seed)
    wide = [
        *sample("a", [each + 1 for each in values], 0, 8, provider=None, cost_usd=0.4),
        *sample("b", values[::-1], 100, 8, provider=None, cost_usd=0.1),
    ]
    found = said(wide)[MONEY]
    assert found.startswith("inconclusive. b costs 75% less than a but may be more than ")
    assert re.search(f" {needed}", found)


def test_the_cheapest_one_may_lead_without_being_shown_to_be_as_good() -> None:
    values = scores(60, 40, 25, seed=4)
    rows = [
        *sample("a", [each + 1 for each in values], 0, 8, provider=None, cost_usd=0.1),
        *sample("b", values[::-1], 100, 8, provider=None, cost_usd=0.4),
    ]
    assert said(rows)[MONEY].startswith("inconclusive. a costs least and scores highest so far")


def test_a_model_that_is_disqualified_more_is_not_taken_for_the_money() -> None:
    out = [
        run(5000 + at, 10.0, model="b", provider=None, person=f"user {at}", is_disqualified=True)
        for at in range(12)
    ]
    rows = [*named("a", 85.5, 1, 96, cost_usd=0.4), *named("b", 85, 0, 96, cost_usd=0.1), *out]
    assert said(rows)[MONEY].endswith(
        " More sessions cannot settle it: it is disqualified more often than another model."
    )


def test_a_model_whose_bill_is_higher_is_not_taken_for_the_money() -> None:
    a = [
        row | ({"cost_usd": 8.0} if at // 12 == 0 else {})
        for at, row in enumerate(named("a", 85, 0, 96, cost_usd=0.1))
    ]
    found = said([*a, *named("b", 85.5, 1, 96, cost_usd=0.3)])
    # 0.1^(7/8) * 8^(1/8) = 0.1729 of 0.3 is 42% less; (7 * 0.1 + 8) / 8 = 1.0875.
    assert found[MONEY].startswith("inconclusive. A usual session with a costs 42% less than b")
    assert found[MONEY].endswith(
        "but its mean is not lower ($1.09, $0.30 with b). A few of its sessions are very "
        "expensive, or its tasks cost more."
    )
    assert "best value" not in found[SURE]


def test_a_free_model_may_be_taken_for_the_money() -> None:
    found = said([*named("a", 85, 0, 96, cost_usd=0.0), *named("b", 85.5, 1, 96, cost_usd=0.3)])
    assert found[MONEY].startswith("a. It costs nothing and is at most 5 points behind ")


@pytest.mark.parametrize(
    ("free", "begin", "end"),
    [
        # 9 of 96 are less than a tenth.
        (9, "b. It ", " Not in the ratio: 9 of 96 sessions with b, which cost nothing."),
        (
            10,
            "unknown: 10 of 96 sessions with b cost nothing, and a ratio needs costs above 0",
            "",
        ),
    ],
)
def test_sessions_that_cost_nothing_are_said(free: int, begin: str, end: str) -> None:
    b = named("b", 85, 0, 96, cost_usd=0.1)
    some = [row | ({"cost_usd": 0.0} if at < free else {}) for at, row in enumerate(b)]
    found = said([*named("a", 85.5, 1, 96, cost_usd=0.4), *some])[MONEY]
    assert found.startswith(begin)
    assert found.endswith(end)


def test_the_cheapest_model_comes_first() -> None:
    found = compared([*named("a", 85, 0, cost_usd=0.4), *named("b", 70, 1, cost_usd=0.1)])
    assert answers(found)[COST] == "b $0.10 · a $0.40"


def test_unknown_costs_are_said() -> None:
    rows = [*named("a", 85, 0, cost_usd=0.4), *named("b", 70, 1, cost_usd=None)]
    found = said(rows)
    assert found[MONEY] == "unknown: too few sessions with b have a known cost."
    assert found[COST] == "a $0.40"
    free = said([row | {"cost_usd": 0.0} for row in rows])
    # Those of b are known, now.
    assert free[MONEY] == "no difference: sessions with these models cost nothing."
    none = said([row | {"cost_usd": None} for row in rows])
    assert none[COST] == "unknown: too few sessions have a known cost."
    assert none[MONEY] == "unknown: too few sessions with a or b have a known cost."
