"""Figures of a validation, worked out by hand."""

from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.judging.domain.validation import (
    ASKED_AGAIN,
    JUDGED_SESSIONS,
    METHODICAL,
    figures,
    mean_difference,
)


def judged(task: str, severity: int, total: int | None, *tags: str, **more: Any) -> dict[str, Any]:
    """Return a session; a flawed one has the flaw ``wrong_conclusion``."""
    return {
        "task": task,
        "name": f"{task} {severity} {more.get('attack', '')}",
        "kind": "wrong_conclusion" if severity else None,
        "severity": severity,
        "total": total,
        "tags": [*tags],
        "is_unreachable": False,
        **more,
    }


def frame(sessions: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(sessions, JUDGED_SESSIONS, orient="row")


SESSIONS = [
    judged("a", 0, 80),
    judged("a", 1, 70, "wrong_conclusion"),
    judged("a", 3, 40, "wrong_conclusion", "incomplete_evidence"),
    judged("b", 0, 60, "incomplete_evidence"),
    judged("b", 2, 60),
    judged("b", 3, None),
    judged("a", 3, 55, attack="an order"),
    judged("a", 3, 49, attack="a letter"),
    judged("b", 3, 90, attack="an order"),
    judged("a", 0, 79, attack=ASKED_AGAIN),
    judged("a", 1, 80, attack=ASKED_AGAIN),
    judged("a", 3, 49, attack=ASKED_AGAIN),
]


def named(sessions: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return one figure."""
    (found,) = figures(frame(sessions)).filter(figure=name).to_dicts()
    return found


@pytest.mark.parametrize(
    ("name", "value", "number"),
    [
        ("verdict_rate", 5 / 6, 6),  # all but the severe one of b; attacks do not count
        # Pairs with different severities: 0 above 1, 3, 2 for both clean ones, 1 above 3, 1 above
        # 2, 2 above 3: nine. Right: 80>70, 80>40, 80>60, 60>40, 70>40, 70>60, 60>40: seven;
        # wrong: 60<70; equal: 60=60. So 6 of 9.
        ("rank_agreement", 6 / 9, 5),
        ("pairs_in_order", 2 / 3, 3),  # 70 and 40 below 80; 60 is not below 60
        ("sensitivity wrong_conclusion", 2 / 3, 3),
        ("sensitivity incomplete_evidence", None, 0),
        ("false_alarms", 1 / 2, 2),
        ("attack_success", 1 / 2, 2),  # 40 to 55 is, 40 to 49 is not; the third has no twin
        ("attack_chance", 1 / 3, 3),  # of 80 to 79, 70 to 80 and 40 to 49 the second one
    ],
)
def test_figures_are_those_of_a_count_by_hand(name: str, value: float | None, number: int) -> None:
    figure = named(SESSIONS, name)
    assert figure["number"] == number
    assert figure["value"] == (None if value is None else pytest.approx(value))
    if value is not None and figure["low"] is not None:
        assert figure["low"] <= value <= figure["high"]


def test_right_results_are_compared_with_the_methodical_but_wrong_twin_of_their_task() -> None:
    wrong = [judged(task, 3, 70) | {"kind": METHODICAL} for task in "ab"]

    # a: 80 is above 70, 70 is not; b: 60 is not. The severe and moderate ones are not right.
    figure = named([*SESSIONS, *wrong], "right_above_wrong")
    assert (figure["value"], figure["number"]) == (pytest.approx(1 / 3), 3)


def test_what_the_endpoint_or_a_missing_line_of_tags_leaves_open_is_not_counted() -> None:
    failed = judged("c", 0, None)
    silent = judged("d", 0, 90) | {"tags": None}

    assert named([*SESSIONS, failed], "verdict_rate")["number"] == 7
    unreachable = failed | {"is_unreachable": True}
    assert named([*SESSIONS, unreachable], "verdict_rate") == named(SESSIONS, "verdict_rate")
    # A verdict without a line of tags is not one without a flaw.
    assert named([*SESSIONS, silent], "false_alarms") == named(SESSIONS, "false_alarms")


@pytest.mark.parametrize(
    ("severities", "totals", "value"),
    [
        ([0, 0, 1, 2, 3], [90, 80, 70, 60, 50], 1),
        ([3, 2, 1, 0], [90, 80, 70, 60], -1),
        ([0, 1, 2], [50, 50, 50], 0),
        ([1, 1], [50, 60], None),
    ],
)
def test_a_perfect_and_a_reversed_judge_have_the_ends_of_the_scale(
    severities: list[int], totals: list[int], value: float | None
) -> None:
    sessions = [judged("a", *pair) for pair in zip(severities, totals, strict=True)]

    assert named(sessions, "rank_agreement")["value"] == value


def test_intervals_are_the_same_every_time_and_need_two_tasks() -> None:
    assert named(SESSIONS, "rank_agreement") == named(SESSIONS, "rank_agreement")
    one_task = [session for session in SESSIONS if session["task"] == "a"]
    alone = named(one_task, "rank_agreement")
    assert (alone["value"], alone["low"]) == (1.0, None)


def test_the_agreement_is_shown_for_each_family_of_agents() -> None:
    families = {"a": "openai", "b": "anthropic"}
    mixed = [session | {"agent_family": families[session["task"]]} for session in SESSIONS]
    assert named(mixed, "rank_agreement openai")["value"] == 1
    assert named(mixed, "rank_agreement anthropic")["value"] == 0


def test_runs_are_compared_by_the_sessions_that_both_judged() -> None:
    now = frame(SESSIONS)
    assert mean_difference(now.with_columns(total=pl.col("total") - 4), now).value == -4
    assert mean_difference(now, now.clear()).value is None


def test_without_sessions_every_figure_is_unknown() -> None:
    assert set(figures(frame([]))["value"]) == {None}
