"""The verdict on money: which models are tested, and which is the cheapest that is not worse."""

import math
from dataclasses import replace
from typing import Any

import pytest

from evaluation_pipelines_tests.builders import Row
from evaluation_pipelines_tests.comparison_builders import (
    QUESTION,
    compared,
    model,
    sample,
    scores,
)


def named(name: str, mean: float, cost: float, seed: int, **columns: Any) -> list[Row]:
    """96 runs of a model by 12 people."""
    values = scores(mean, 96, 8, seed)
    return sample(name, values, 1000 * seed, **({"provider": None, "cost_usd": cost} | columns))


def test_the_cheapest_model_that_is_as_good_is_the_best_value() -> None:
    found = compared([*named("a", 80, 0.9, 1), *named("b", 80, 0.3, 2), *named("c", 60, 0.1, 3)])
    a, b, c = (model(found, name) for name in "abc")
    # Logarithms relative to c: 9 and 3 times as much.
    costs = [row["relative_cost"] for row in (a, b, c)]
    assert costs == [pytest.approx(9), pytest.approx(3), pytest.approx(1)]
    # The costliest model is no candidate: it has nothing to save.
    assert (a["is_not_worse"], a["not_worse_p"], a["is_best_value"]) == (None, None, False)
    assert (b["is_not_worse"], b["is_best_value"], b["not_worse_reason"]) == (True, True, None)
    assert (c["is_not_worse"], c["is_best_value"]) == (False, False)
    assert c["not_worse_p"] > 0.99
    # Two tests: Holm's first step doubles the smaller p-value.
    assert b["not_worse_p_holm"] == pytest.approx(2 * b["not_worse_p"])
    assert {row["margin"] for row in (a, b, c)} == {5.0}


def test_a_model_is_not_worse_than_the_best_if_it_is_not_worse_than_any() -> None:
    found = compared([*named("a", 80, 0.9, 1), *named("b", 77, 0.3, 2), *named("c", 70, 0.5, 3)])
    pairs = {(row["model_a"], row["model_b"]): row for row in found.pairs.to_dicts()}
    # b is second in the pair with a, and first in that with c.
    largest = max(pairs["a", "b"]["not_worse_b_p"], pairs["b", "c"]["not_worse_a_p"])
    assert model(found, "b")["not_worse_p"] == largest


def test_a_wider_margin_is_shown_sooner() -> None:
    rows = [*named("a", 80, 0.9, 1), *named("b", 74, 0.3, 2)]
    assert not model(compared(rows), "b")["is_best_value"]
    wide = compared(rows, replace(QUESTION, margin=15.0))
    assert (model(wide, "b")["is_best_value"], model(wide, "b")["margin"]) == (True, 15.0)


def test_models_of_few_people_are_left_out_and_hinder_no_other() -> None:
    few = [row | {"person": f"user {at % 3}"} for at, row in enumerate(named("few", 95, 0.01, 3))]
    found = compared([*named("a", 80, 0.9, 1), *named("b", 80, 0.3, 2), *few])
    assert model(found, "b")["is_best_value"]
    assert model(found, "few")["relative_cost"] is None
    assert model(found, "few")["is_not_worse"] is None


def test_what_cannot_be_compared_is_not_called_as_good() -> None:
    # b and c share no task class; each shares one with a.
    tasks = ("debug", "review")
    a = [row | {"task_class": tasks[at % 2]} for at, row in enumerate(named("a", 80, 0.9, 1))]
    b, c = (named(name, 80, 0.1, 2 + at, task_class=tasks[at]) for at, name in enumerate("bc"))
    found = compared([*a, *b, *c])
    # A cost that cannot be compared for the same tasks gives no order of costs.
    assert model(found, "b")["relative_cost"] is None
    assert model(found, "b")["is_not_worse"] is None


def test_all_labels_of_a_report_share_the_error_unless_asked_otherwise() -> None:
    rows = [
        row
        for at, label in enumerate(("code", "simple"))
        for row in (
            *named("a", 80, 0.9, 10 * at + 1, classification_label=label),
            *named("b", 79, 0.3, 10 * at + 2, classification_label=label),
        )
    ]
    together, alone = compared(rows), compared(rows, replace(QUESTION, alone=True))
    p = [
        model(found, "b", classification_label="code")["not_worse_p_holm"]
        for found in (together, alone)
    ]
    raw = model(alone, "b", classification_label="code")["not_worse_p"]
    other = model(alone, "b", classification_label="simple")["not_worse_p"]
    assert p[1] == raw
    assert p[0] == pytest.approx(max(raw, 2 * min(raw, other)) if raw > other else 2 * raw)


def test_costs_of_unlike_runs_are_compared_by_geometric_means() -> None:
    # a costs 1 and 4 in turn: a geometric mean of 2; b costs 1.
    a = [
        row | {"cost_usd": (1.0, 4.0)[at // 12 % 2]} for at, row in enumerate(named("a", 80, 1, 1))
    ]
    found = compared([*a, *named("b", 80, 1.0, 2)])
    assert model(found, "a")["relative_cost"] == pytest.approx(math.sqrt(4))


def test_a_model_that_costs_nothing_is_cheaper_than_any_that_costs_something() -> None:
    found = compared([*named("a", 83, 0.0, 1), *named("b", 80, 0.9, 2), *named("c", 80, 0.3, 3)])
    a, b, c = (model(found, name) for name in "abc")
    # The others are relative to the cheapest one that costs anything: 0.9 / 0.3.
    assert [row["relative_cost"] for row in (a, b, c)] == [0, pytest.approx(3), pytest.approx(1)]
    assert [row["is_best_value"] for row in (a, b, c)] == [True, False, False]
    assert (a["zero_cost_runs"], b["zero_cost_runs"]) == (96, 0)
    # Of two, it needs no ratio at all.
    two = compared([*named("a", 80, 0.0, 1), *named("b", 80, 0.3, 2)])
    assert [model(two, name)["is_best_value"] for name in "ab"] == [True, False]


@pytest.mark.parametrize(("free", "relative"), [(9, 3.0), (10, None)])
def test_up_to_a_tenth_of_free_runs_are_left_out_of_the_ratio(
    free: int, relative: float | None
) -> None:
    # A tenth of 96 is 9.6.
    b = [
        row | {"cost_usd": 0.0 if at < free else 0.3} for at, row in enumerate(named("b", 80, 1, 2))
    ]
    found = compared([*named("a", 80, 0.9, 1), *b])
    expected = None if relative is None else pytest.approx(relative)
    assert model(found, "a")["relative_cost"] == expected
    assert model(found, "b")["is_best_value"] is (relative is not None)
    assert model(found, "b")["zero_cost_runs"] == free


def with_tail(name: str, usual: float, seed: int) -> list[Row]:
    """96 runs of a model by 12 people: one of 8 costs 8 dollars, the others the usual."""
    rows = named(name, 80, usual, seed)
    return [row | ({"cost_usd": 8.0} if at // 12 == 0 else {}) for at, row in enumerate(rows)]


def test_then_the_next_one_that_saves_on_both_is_named() -> None:
    found = compared([*with_tail("a", 0.1, 1), *named("b", 80, 0.3, 2), *named("c", 80, 2.0, 3)])
    assert [model(found, name)["is_best_value"] for name in "abc"] == [False, True, False]


def test_the_lower_bill_of_a_worse_model_does_not_matter() -> None:
    # The bill of b is lower than that of a; c costs more by both.
    found = compared([*with_tail("a", 0.1, 1), *named("b", 60, 0.3, 2), *named("c", 80, 2.0, 3)])
    assert [model(found, name)["is_best_value"] for name in "abc"] == [True, False, False]
