"""Anchors from the drawing to the bridge, with an endpoint that answers over HTTP."""

from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from evaluation_pipelines.judge_changes.cost import estimate_cost
from evaluation_pipelines_tests.judge_changes.changed import (
    changed_judge,
    measured,
    only_change,
    run_anchors,
)
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import http_error


def test_both_judges_score_the_same_sessions_and_the_shift_is_the_judges(
    tmp_path: Path, judge: JudgeEndpoint
) -> None:
    with changed_judge(tmp_path, judge) as judged:
        before = len(judge.requests)
        _, change = only_change(judged)
        assert (change.former.model, change.new.model) == ("judge-1", "judge-2")
        assert change.changed_on == date(2026, 6, 7)
        assert measured(judged).state == "not drawn"

        report = run_anchors(judged)
        # 36 sessions of six days, two judges, three samples; nothing is asked about missing tools.
        assert (report.anchors, report.finished, report.calls) == (36, 36, 216)
        asked = judge.requests[before:]
        assert Counter((each.body["model"], each.turn) for each in asked) == {
            ("judge-1", "score"): 108,
            ("judge-2", "score"): 108,
        }
        found = measured(judged)

    assert (found.state, found.is_bridged) == ("measured", True)
    parts = found.split
    assert parts is not None
    # 60 and 70 points from every judgment: all of the shift is the judge's, without any error.
    assert (parts.former.value, parts.new.value) == (60, 70)
    assert parts.judges_part.estimate.value == pytest.approx(10)
    assert parts.judges_part.half_width == pytest.approx(0)
    assert parts.shift is not None
    assert parts.shift.value == pytest.approx(10)
    assert parts.agents_part is not None
    assert parts.agents_part.value == pytest.approx(0)
    assert (parts.judges_part.people, parts.clustered_by) == (6, "person")
    assert (parts.before is not None and parts.before.sessions) == 36
    assert (parts.after is not None and parts.after.sessions) == 24


def test_a_run_continues_where_the_budget_ended_the_last_one(
    tmp_path: Path, judge: JudgeEndpoint
) -> None:
    with changed_judge(tmp_path, judge) as judged:
        history, change = only_change(judged)
        stores = judged.workplace.stores
        estimate = estimate_cost(stores, history, change, judged.now)
        assert (estimate.anchors, estimate.calls) == (36, 216)
        # judge-1 has no list price: its cost, and with it the sum, is unknown.
        assert estimate.cost_usd is None

        first = run_anchors(judged, max_cost_usd=0.0)
        assert (first.calls, first.finished) == (0, 0)
        assert "the price of the model is unknown" in first.problems[0]
        assert measured(judged).state == "incomplete"
        assert run_anchors(judged).is_finished
        requests = len(judge.requests)
        assert run_anchors(judged).is_finished
        assert len(judge.requests) == requests
        assert estimate_cost(stores, history, change, judged.now).calls == 0


def test_a_former_model_that_the_endpoint_refuses_cuts_the_trend(
    tmp_path: Path, judge: JudgeEndpoint
) -> None:
    with changed_judge(tmp_path, judge) as judged:
        judge.always_as("judge-1", http_error(404, "no such model"))
        report = run_anchors(judged)
        assert report.refusal is not None
        assert report.refusal.startswith("the former judge, judge-1, was refused: ")
        found = measured(judged)
        assert (found.state, found.is_bridged) == ("impossible", False)
        assert found.reason == report.refusal


def test_an_endpoint_that_is_down_refuses_no_judge(tmp_path: Path, judge: JudgeEndpoint) -> None:
    with changed_judge(tmp_path, judge) as judged:
        for model in ("judge-1", "judge-2"):
            judge.always_as(model, http_error(401, "bad key"))
        report = run_anchors(judged)
        assert (report.refusal, report.calls) == (None, 0)
        assert "bad key" in report.problems[0]
        assert measured(judged).state == "incomplete"
