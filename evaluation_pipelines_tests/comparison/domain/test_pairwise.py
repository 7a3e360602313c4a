"""What keeps the difference of a pair from being decided, and which model is the best value."""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.answers import facts
from evaluation_pipelines.comparison.domain.findings import evidence, findings
from evaluation_pipelines.comparison.domain.pairwise import has_more_disqualified, week_overlap
from evaluation_pipelines.reporting.comparison_report import html_page
from evaluation_pipelines_tests.world.rows import Row
from evaluation_pipelines_tests.world.runs import (
    QUESTION,
    UNTIL,
    arm,
    compared,
    model,
    run,
    runs,
    sample,
    scores,
)


def two(**columns: Any) -> list[Row]:
    """Forty runs of ``a`` around 85 and of ``b`` around 65, by eight people who used both."""
    return [
        row | columns
        for name, mean, seed, start in (("a", 85.0, 1, 0), ("b", 65.0, 2, 100))
        for row in sample(name, scores(mean, 40, 8, seed), start, users=8)
    ]


def pair(rows: list[Row]) -> Row:
    """The only pair."""
    (row,) = compared(rows).pairs.to_dicts()
    return row


def people(rows: list[Row], number: int, model_name: str | None = None) -> list[Row]:
    """Deal the runs of a model, or all, to a number of people."""
    return [
        row | {"person": f"user {at % number}"} if model_name in (None, row["model"]) else row
        for at, row in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("number", "indication"), [(4, "A better"), (3, "A better"), (2, None), (1, None)]
)
def test_with_fewer_than_five_people_nothing_is_decided(
    number: int, indication: str | None
) -> None:
    found = compared(people(two(), number))
    (row,) = found.pairs.to_dicts()
    assert (row["verdict"], row["indication"]) == ("too few people", indication)
    assert row["reason"] == f"too few people to decide ({number} of 5)"
    assert model(found, "a")["rank"] is model(found, "b")["rank"] is None
    (finding,) = findings(found)
    assert not finding.is_decided
    hint = f"Indication: a (provider-a) looks better, no verdict ({row['reason']})."
    assert (hint in [*facts(finding)][-1]) is (indication is not None)


def test_where_persons_are_unknown_every_verdict_is_an_indication() -> None:
    found = compared(two(person=None))
    (row,) = found.pairs.to_dicts()
    assert (row["verdict"], row["indication"]) == ("not decided", "A better")
    assert row["reason"] == "people are unknown for more than a fifth of a side's sessions"
    assert row["clustered_by"] == "session and day"
    assert (row["people_a"], row["people_b"], row["people_both"]) == (0, 0, 0)
    (finding,) = findings(found)
    assert not finding.is_decided
    hint = f"Indication: a (provider-a) looks better, no verdict ({row['reason']})."
    assert hint in [*facts(finding)][-1]


def test_people_are_counted_where_sessions_are_what_varies_together_too() -> None:
    # A quarter of the sessions of a have no person; 30 are left, by all eight.
    unknown = [row | {"person": None} for row in two()[:10]]
    row = pair([*unknown, *two()[10:]])
    assert (row["clustered_by"], row["runs_a"]) == ("session and day", 40)
    assert (row["people_a"], row["people_b"], row["people_both"]) == (8, 8, 8)


def changed(column: str, values: Sequence[object]) -> list[Row]:
    """The runs of ``two``, the first ones with other values of a column."""
    rows = two()
    for row, value in zip(rows, values, strict=False):
        row[column] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # Four used a, and not all eight of b are among them.
        (
            people(two(), 4, "a"),
            {"verdict": "too few people", "indication": None}
            | {"people_a": 4, "people_b": 8, "people_both": 4},
        ),
        (
            changed("started_at", [UNTIL - timedelta(days=20)] * 40),
            {"reason": "no week in which both were used", "counterparts": 0},
        ),
        (
            changed("task_class", ["ops"] * 12),
            {"is_paired": True, "runs_a": 40}
            | {"reason": "only 28 sessions of one of the two models can be compared (30 needed)"},
        ),
        (
            [*sample("a", scores(95, 29, 2), 0), *sample("b", scores(10, 60, 2), 100)],
            {"reason": "fewer than 30 sessions on a side", "adjusted_p_holm": None},
        ),
        (
            [*sample("a", [90.0] * 40, 0), *sample("b", [80.0] * 40, 100)],
            {"reason": "no spread to judge the difference by"},
        ),
    ],
    ids=["people", "weeks", "tasks", "runs", "spread"],
)
def test_without_enough_in_common_there_is_no_verdict(rows: list[Row], expected: Row) -> None:
    row = pair(rows)
    wanted = {"verdict": "not decided"} | expected
    assert {name: row[name] for name in wanted} == wanted


def test_what_it_takes_must_be_in_the_runs_that_are_compared() -> None:
    # Of 40 runs of a, 28 are by the seven people who used b as well: 70%, but fewer than 30.
    rows = people(two(), 7)
    rows[:12] = [row | {"person": f"other {at % 4}"} for at, row in enumerate(rows[:12])]
    found = compared(rows)
    (row,) = found.pairs.to_dicts()
    # So all 40 of both count, by eleven people and seven.
    assert (row["is_paired"], row["people_a"], row["people_both"]) == (False, 11, 7)
    assert (row["verdict"], row["runs_a"]) == ("A better", 40)
    (finding,) = findings(found)
    assert (evidence(finding, found).people, evidence(finding, found).compared) == (11, 80)
    # With 30 of 40 there are enough.
    rows[10:12] = two()[2:4]
    assert pair(rows)["is_paired"]


def test_persons_must_be_known_on_each_side() -> None:
    # 35 of the 40 runs of a have no person, none of 160 of b: 17.5% of all.
    more = sample("b", scores(65, 120, 8, 3), 300, users=8)
    rows = [row | ({"person": None} if at < 35 else {}) for at, row in enumerate(two())]
    found = compared([*rows, *more])
    (row,) = found.pairs.to_dicts()
    assert (row["verdict"], row["indication"]) == ("not decided", "A better")
    assert row["reason"] == "people are unknown for more than a fifth of a side's sessions"
    assert model(found, "a")["clustered_by"] == "session and day"
    assert model(found, "b")["clustered_by"] == "person"


def test_unknown_persons_of_one_model_do_not_keep_others_from_being_compared() -> None:
    third = sample("c", scores(75, 40, 8, 3), 300, person=None)
    found = compared([*two(), *third]).pairs
    verdicts = {(row["model_a"], row["model_b"]): row["verdict"] for row in found.to_dicts()}
    assert verdicts == {
        ("a", "b"): "A better",
        ("a", "c"): "not decided",
        ("b", "c"): "not decided",
    }


@pytest.mark.parametrize(
    ("in_first_week", "overlap"),
    # The smaller shares: 70% and 30%, 80% and 20%, all and none.
    [((28, 12), 0.6), ((32, 8), 0.4), ((40, 40), 1.0), ((20, 20), 1.0)],
)
def test_models_of_other_weeks_give_an_indication(
    in_first_week: tuple[int, int], overlap: float
) -> None:
    monday = UNTIL - timedelta(days=19)
    sizes = dict(zip("ab", in_first_week, strict=True))
    rows = [
        row | {"started_at": monday + timedelta(days=7 * (at % 40 >= sizes[str(row["model"])]))}
        for at, row in enumerate(two())
    ]
    row = pair(rows)
    sides = [
        arm([0.0] * 40, days=[4 + 7 * (at >= in_first) for at in range(40)])
        for in_first in in_first_week
    ]
    assert week_overlap(*sides) == pytest.approx(overlap)
    if overlap < 0.6:
        assert (row["verdict"], row["indication"]) == ("not decided", "A better")
        assert row["reason"] == "mostly used in different weeks"
    else:
        assert row["verdict"] == "A better"


def test_models_of_unlike_days_need_five_of_them() -> None:
    # Monday 2026-11-09 and Wednesday for a, Tuesday and Thursday for b.
    monday = UNTIL - timedelta(days=12)
    rows = [
        row | {"started_at": monday + timedelta(days=2 * (at % 2) + (row["model"] == "b"))}
        for at, row in enumerate(two())
    ]
    row = pair(rows)
    assert row["reason"] == "never used on the same day, and on fewer than 5 days"
    assert row["counterparts"] == 1
    # One run of b on Monday: there is a day of both.
    rows[-1] |= {"started_at": monday}
    assert pair(rows)["verdict"] == "A better"


def test_a_model_that_is_disqualified_more_is_not_called_better() -> None:
    out = [
        run(900 + at, 0.0, model="a", person=f"user {at % 8}", is_disqualified=True)
        for at in range(20)
    ]
    row = pair([*two(), *out])
    assert row["verdict"] == "not decided"
    assert row["reason"] == "the model with higher scores is disqualified more"
    # The worse model may be disqualified as it likes.
    out = [run | {"model": "b"} for run in out]
    assert pair([*two(), *out])["verdict"] == "A better"


@pytest.mark.parametrize(
    ("of_a", "of_b", "more"), [(10, 0, "a"), (0, 10, "b"), (1, 0, None), (5, 5, None), (0, 0, None)]
)
def test_disqualified_shares_are_tested(of_a: int, of_b: int, more: str | None) -> None:
    def side(number: int, people: int) -> pl.DataFrame:
        rows = (
            run(at, person=f"user {at % people}", is_disqualified=at < number) for at in range(50)
        )
        return runs(rows)

    # Fifty runs of each side: 20% against none is no chance, 2% is. Of one person none is proof.
    assert has_more_disqualified(side(of_a, 10), side(of_b, 10)) == more
    assert has_more_disqualified(side(of_a, 1), side(of_b, 1)) is None


def test_a_model_that_only_failed_at_the_start_has_no_difference_without_and_no_ratio() -> None:
    rows = [row | {"score": 0.0, "failed_at_start": True} for row in two()[:40]]
    row = pair([*rows, *two()[40:]])
    assert (row["without_failed"], row["cost_ratio"], row["verdict"]) == (None, None, "B better")


def test_runs_that_failed_at_the_start_count_and_the_rest_is_shown() -> None:
    failed = [
        run(900 + at, 0.0, model="a", person=f"user {at}", failed_at_start=True) for at in range(8)
    ]
    found = compared([*two(), *failed])
    (row,) = found.pairs.to_dicts()
    # Eight of 48 runs at 0 take a sixth of 85 points, evenly from eight people: 14 of 20.
    assert row["adjusted_difference"] == pytest.approx(20 - 85 / 6, abs=3)
    assert row["without_failed"] == pytest.approx(20, abs=3)
    assert (model(found, "a")["failed_at_start"], model(found, "a")["runs"]) == (8, 48)
    assert pair(two())["without_failed"] is None


def test_failed_starts_and_unknown_persons_are_said_in_the_report() -> None:
    failed = [
        run(900 + at, 0.0, model="a", person=f"user {at}", failed_at_start=True) for at in range(8)
    ]
    html = html_page(compared([*two(), *failed]))
    assert ">8 people</span>" in html
    assert ">8 failed at the start</span>" in html
    assert ">A - B, same task mix<" in html  # the heading of what follows
    assert "without failed starts +" in html
    assert ">0, failed before any tool call<" in html
    assert "people are unknown for more than a fifth of a side" in html_page(
        compared(two(person=None))
    )


def test_other_people_on_each_side_are_counted_together() -> None:
    rows = [
        row | ({"person": f"other {at % 8}"} if row["model"] == "b" else {})
        for at, row in enumerate(two())
    ]
    (finding,) = findings(compared(rows))
    assert ", based on 16 people." in next(facts(finding))


@pytest.mark.parametrize("free", [4, 5])
def test_if_more_than_a_tenth_of_the_runs_cost_nothing_there_is_no_ratio(free: int) -> None:
    # A tenth of the 40 runs of b is 4.
    rows = [
        row | {"cost_usd": 0.0 if at >= 80 - free else 0.1 if row["model"] == "b" else 1.0}
        for at, row in enumerate(two())
    ]
    assert pair(rows)["cost_ratio"] == (pytest.approx(10) if free == 4 else None)


def test_costs_are_compared_for_the_same_tasks_by_geometric_means() -> None:
    # A costs three times as much at every task and for everyone, but for one run of B.
    rows = two()
    for at, row in enumerate(rows):
        usual = (1 + at % 8) / 10
        row["cost_usd"] = 3 * usual if row["model"] == "a" else usual
    row = pair(rows)
    assert row["cost_ratio"] == pytest.approx(3)
    rows[0]["cost_usd"] = None
    assert pair(rows)["cost_ratio"] == pytest.approx(3)
    rows[0]["cost_usd"] = 0.0
    assert pair(rows)["cost_ratio"] == pytest.approx(3)


@pytest.mark.parametrize("cost", [0.0, 0.0001, None])
def test_runs_that_failed_at_the_start_are_in_the_mean_bill_but_not_in_the_ratio(
    cost: float | None,
) -> None:
    rows = [row | {"cost_usd": 0.3 if row["model"] == "a" else 0.1} for row in two()]
    failed = [
        run(900 + at, 0.0, model="a", person=f"user {at}", cost_usd=cost, failed_at_start=True)
        for at in range(8)
    ]
    found = compared([*rows, *failed])
    assert found.pairs["cost_ratio"].to_list() == [pytest.approx(3)]
    # 40 runs at 0.3 and 8 at the cost of a failure, where that is known.
    mean = 0.3 if cost is None else (40 * 0.3 + 8 * cost) / 48
    assert model(found, "a")["avg_cost_usd"] == pytest.approx(mean)


def test_a_mean_cost_of_few_runs_is_called_rough() -> None:
    few = [row | {"cost_usd": (1 + at % 7) / 10} for at, row in enumerate(two())]
    assert ", rough<" in html_page(compared(few))
    many = [
        row | {"session_key": f"{row['session_key']}-{copy}"} for copy in (1, 2, 3) for row in few
    ]
    assert ", rough<" not in html_page(compared(many))


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
