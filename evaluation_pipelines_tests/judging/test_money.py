"""Budgets of runs and days, and that they are never exceeded."""

from datetime import timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.judging.domain.budget import DayReservation, worst_case_usd
from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.endpoint.configured import judge_pricing
from evaluation_pipelines.judging.find_due import find_due
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.scoring import prepare
from evaluation_pipelines.judging.session_windows import read_events, window_key
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import Scripted, http_error, prose_score
from evaluation_pipelines_tests.judged import Judged, fill, open_judged, session_with_texts
from evaluation_pipelines_tests.judging.ledger.score_builders import begun

# 10,000 input tokens at 1 USD per million and 300 output tokens at 10 are 0.01 + 0.003 USD; a
# session has two such calls: 2.6 cents. The most that it can cost is more: 1,000 output tokens, and
# the estimated prompt.
EXPENSIVE = {"prompt_tokens": 10_000, "completion_tokens": 300}
SESSION_USD = 0.026


def spent(judged: Judged) -> float:
    """Return the cost of all replies in the ledger."""
    return sum(score.judge_cost_usd or 0.0 for score in judged.all_scores())


def test_a_night_stops_below_its_budget_and_the_next_one_continues(
    judge: JudgeEndpoint, tmp_path: Path
) -> None:
    judge.always(Scripted(usage=EXPENSIVE))
    with open_judged(tmp_path, judge.base_url, judge_max_cost_per_day_usd=1.0) as judged:
        text = "word " * 6_000  # so that the estimate of the prompt is not below its price
        fill(judged.workplace, *(session_with_texts(f"s{n}", n, text=text) for n in range(60)))

        first = judged.run()
        assert first.stop_reason is None or "max_cost_of_day" in first.stop_reason
        done = len(first.totals)
        assert done * SESSION_USD <= first.cost_usd + 1e-9
        # 38 sessions are 0.988; a 39th starts only if the most that it can cost fits.
        assert 30 <= done <= 38
        assert first.deferred.total() == 60 - done
        assert first.deferred.keys() <= {"max_cost_of_day", "no_money"}
        assert spent(judged) < 1.0

        judged.now += timedelta(minutes=10)
        assert judged.run().totals == []  # the same day: nothing fits
        judged.now += timedelta(days=1)
        second = judged.run()
        assert len(second.totals) == 60 - done
        oldest = [f"s{n}#baseline-1" for n in range(done)]
        assert all(len(judged.scores(key)) == 1 for key in oldest)


def test_money_reserved_by_a_dead_process_is_available_to_others(
    judge: JudgeEndpoint, tmp_path: Path
) -> None:
    with open_judged(tmp_path, judge.base_url, judge_max_cost_per_day_usd=1.0) as judged:
        fill(judged.workplace, session_with_texts("s1"))
        scores, elsewhere = ScoreStore(judged.workplace.ledger), begun("other#baseline-1")
        scores.create(elsewhere, judged.now, DayReservation(0.125, 0.875, 1.0))

        assert len(judged.run().totals) == 1
        left = scores.get(elsewhere.score_id)
        # A call may have been in flight when it died: its cost stays booked.
        assert (left.booked_cost_usd, left.is_open) == (0.125, True)


def test_the_limits_of_a_run_and_of_the_settings_both_apply(
    judge: JudgeEndpoint, tmp_path: Path
) -> None:
    judge.always(Scripted(usage=EXPENSIVE))
    with open_judged(tmp_path, judge.base_url, judge_max_cost_usd=0.5) as judged:
        text = "word " * 6_000
        fill(judged.workplace, *(session_with_texts(f"s{n}", n, text=text) for n in range(20)))

        tight = judged.run(max_cost_usd=0.1)
        assert 1 <= len(tight.totals) <= 3  # 3 x 2.6 cents
        assert tight.deferred.keys() <= {"max_cost_of_run", "no_money"}
        loose = judged.run(max_cost_usd=9)
        assert len(loose.totals) == 20 - len(tight.totals)  # 17 x 2.6 cents are below 0.5


def test_a_model_of_unknown_price_is_refused_under_a_limit_on_money_and_else_unpriced(
    judge: JudgeEndpoint, tmp_path: Path
) -> None:
    unknown = {"judge_input_usd_per_mtok": None, "judge_output_usd_per_mtok": None}
    with open_judged(tmp_path, judge.base_url, judge_max_cost_usd=5.0, **unknown) as judged:
        fill(judged.workplace, session_with_texts("s1"))

        report = judged.run()
        assert report.deferred == {"unknown_price": 1}
        assert "EVAL_JUDGE_INPUT_USD_PER_MTOK" in (report.stop_reason or "")
        assert (judge.requests, judged.all_scores()) == ([], [])

        report = judged.with_settings(judge_max_cost_usd=None).run()
        assert (report.unpriced, report.cost_usd) == (2, 0.0)
        assert "$0.0000 and 2 unpriced" in report.summary()
        score = judged.score("s1#baseline-1")
        money = (score.judge_cost_usd, score.booked_cost_usd)
        assert (score.status, *money) == ("completed", None, None)


@pytest.mark.parametrize("limit_of", ["run", "day"])
def test_a_reminder_that_does_not_fit_leaves_the_session_for_another_run(
    judge: JudgeEndpoint, tmp_path: Path, limit_of: str
) -> None:
    judge.script(prose_score())
    judge.always(Scripted(usage={"prompt_tokens": 4_000, "completion_tokens": 900}))
    with open_judged(tmp_path, judge.base_url) as judged:
        fill(judged.workplace, session_with_texts("s1"))
        # The smallest limit under which the first turn is admitted.
        limit = least_that_fits(judged)

        if limit_of == "run":
            report = judged.run(max_cost_usd=limit)
        else:
            report = judged.with_settings(judge_max_cost_per_day_usd=limit).run()
        assert report.deferred == {"no_money": 1}
        assert judge.turns() == ["score"]
        left = judged.score("s1#baseline-1")
        assert (left.status, len(left.turn_log)) == ("pending", 1)
        assert left.booked_cost_usd == pytest.approx(left.judge_cost_usd, abs=1e-8)

        again = judged.run()
        assert (len(again.totals), again.continued) == (1, 1)
        assert judge.turns() == ["score", "reminder", "missing-tools"]


def test_a_retry_that_may_be_charged_twice_must_fit_into_the_daily_budget(
    judge: JudgeEndpoint, tmp_path: Path
) -> None:
    judge.script(http_error(500))
    with open_judged(tmp_path, judge.base_url) as judged:
        fill(judged.workplace, session_with_texts("s1"))
        limit = least_that_fits(judged)

        report = judged.with_settings(judge_max_cost_per_day_usd=limit).run()
        assert report.deferred == {"no_money": 1}
        assert judge.turns() == ["score"]
        left = judged.score("s1#baseline-1")
        # The call may have been charged.
        assert (left.status, left.turn_log, left.reserved_cost_usd) == ("pending", (), None)
        assert 0.9 * limit < (left.booked_cost_usd or 0.0) < limit

        again = judged.with_settings(judge_max_cost_per_day_usd=9 * limit).run()
        assert len(again.totals) == 1


def least_that_fits(judged: Judged) -> float:
    """Return the smallest run limit under which its one session is admitted."""
    stores = judged.workplace.stores
    days = stores.lake.partitions(AGENT_SESSIONS)
    found = find_due(stores, load_plans(stores, judged.now), days, judged.now, ExtraDue())
    (candidate,) = found.candidates
    events = read_events(stores.lake, candidate.window.session_date, [candidate.window])[
        window_key(candidate.window)
    ]
    calls = prepare(candidate, events, stores.settings).open_calls(1000)
    most = worst_case_usd(calls, judge_pricing(stores.settings, "judge-1", judged.now))
    assert most is not None
    return most * 1.02  # the fence differs each time, and the estimate with it
