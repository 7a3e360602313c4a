"""The portable score, worked out by hand."""

from collections.abc import Iterable
from datetime import timedelta

import polars as pl
import pytest

from evaluation_pipelines.reputation.domain.agent_rating import (
    agent_ratings,
    agent_record,
    agent_scores_are_in_range,
    credible_interval,
    lifecycle,
    pass_history,
    reputation_is_in_range,
    score_history,
    score_parts,
    unknown_agent,
    withheld,
)
from evaluation_pipelines.reputation.domain.signals import identity_id, unknown_identity
from evaluation_pipelines.schemas import AGENT_SCORES, AGENT_WINDOWS, REPUTATION_SCORES
from evaluation_pipelines_tests.reputation.reputation_signals import at
from evaluation_pipelines_tests.world.rows import Row, frame

NOW = at("2026-11-20T12:00:00")


def window(
    passed: Iterable[bool], latency_ms: float | None = None, in_all: int | None = None
) -> pl.DataFrame:
    """Evaluations of one agent, the newest first, a minute apart; the budget is 100 ms."""
    outcomes = list(passed)
    same: Row = {
        "organization_id": "org",
        "agent_id": "scout",
        "model": "m",
        "latency_ms": latency_ms,
    }
    same |= {"latency_budget_ms": 100.0, "evaluations_in_all": in_all or len(outcomes)}
    rows = (
        {
            "evaluation_id": f"e{index:04}",
            "evaluated_at": NOW - timedelta(minutes=index),
            "passed": outcome,
            **same,
        }
        for index, outcome in enumerate(outcomes)
    )
    return frame(AGENT_WINDOWS.schema, rows)


def score_of(evaluations: pl.DataFrame) -> dict[str, object]:
    return agent_ratings(evaluations, window([]), NOW).to_dicts()[0]


def passes(number: int, latency_ms: float | None = None, **more: int) -> pl.DataFrame:
    return window([True] * number, latency_ms, **more)


@pytest.mark.parametrize(
    ("evaluations", "score", "state", "streak"),
    [
        # Always at half of the budget: 400 * 1 + 250 * 0.5 + 200 * min(n, 50) / 50 + 150 * n / 500
        (passes(1, 50.0), 529, "calibrating", 1),  # 400 + 125 + 4 + 0.3 = 529.3
        (passes(49, 50.0), 735, "calibrating", 49),  # 400 + 125 + 196 + 14.7 = 735.7
        (passes(50, 50.0), 740, "active", 50),  # 400 + 125 + 200 + 15 = 740
        (passes(499, 50.0), 874, "active", 499),  # 400 + 125 + 200 + 149.7 = 874.7
        (passes(500, 50.0), 875, "mature", 500),  # 400 + 125 + 200 + 150
        # The 501st pushes the oldest out; no latency is known: 400 + 0 + 200 + 150.
        (passes(500, in_all=501), 750, "mature", 500),
        # Newest first: 10 passes, a failure, 89 passes: 400 * 0.99 + 200 * 10 / 50 + 150 / 5
        (window([True] * 10 + [False] + [True] * 89), 466, "active", 10),
        # Beyond the budget it is worth nothing: 400 + 250 * max(0, 1 - 3) + 4 + 0.3 = 404.3
        (passes(1, 300.0), 404, "calibrating", 1),
        # Only known latencies count: 400 + 250 * 0.8 + 200 * 3 / 50 + 150 * 3 / 500 = 612.9
        (pl.concat([passes(2, 20.0), passes(2)[1:]]), 612, "calibrating", 3),
        # 400 * 0.7 + 0 + 0 + 150 * 10 / 500 = 283, though 0.7 * 400 is a little less in binary.
        (window([False] * 3 + [True] * 7), 283, "calibrating", 0),
    ],
)
def test_a_score_is_of_passes_latency_streak_and_number(
    evaluations: pl.DataFrame, score: int, state: str, streak: int
) -> None:
    row = score_of(evaluations)
    assert (row["score"], row["lifecycle"], row["streak"]) == (score, state, streak)
    assert row["identity_id"] == str(identity_id("org", "scout"))
    counts = evaluations.height, evaluations["evaluations_in_all"][0]
    assert (row["eval_count"], row["evaluations_in_all"]) == counts
    known = evaluations["latency_ms"].drop_nulls()
    assert row["avg_latency_ms"] == (known[0] if len(known) else None)


def test_streaks_of_agents_are_apart() -> None:
    # The newest of all failed, and is of the other agent.
    other = window([False, True]).with_columns(agent_id=pl.lit("critic"))
    both = pl.concat([window([True] * 3)[1:], other])
    rows = agent_ratings(both, window([]), NOW).select("agent_id", "streak", "eval_count").rows()
    assert rows == [("critic", 0, 2), ("scout", 2, 2)]


def test_the_order_of_arrival_does_not_matter_and_ties_are_broken_by_the_id() -> None:
    evaluations = window([True, True, False, True]).with_columns(evaluated_at=pl.lit(NOW))
    # All at one time: the newest is the greatest id, e0003, then e0002, which failed.
    expected = score_of(evaluations)
    assert expected["streak"] == 1
    assert score_of(evaluations.sample(fraction=1, shuffle=True, seed=3)) == expected


def test_the_interval_of_the_pass_rate_is_that_of_the_beta_distribution() -> None:
    row = score_of(window([True]))
    # Beta(2, 1) has the distribution function x^2: its quantile is 0.05^(1/2). All passed.
    assert (row["pass_rate_low"], row["pass_rate_high"]) == (pytest.approx(0.05**0.5), 1.0)
    row = score_of(window([False]))
    # Beta(1, 2) is 1 minus that. None passed.
    assert (row["pass_rate_low"], row["pass_rate_high"]) == (0.0, pytest.approx(1 - 0.05**0.5))
    row = score_of(window([True, False]))
    # Beta(2, 2) has the distribution function 3 x^2 - 2 x^3, which is 0.05 at 0.135350.
    ends = row["pass_rate_low"], row["pass_rate_high"]
    assert ends == (pytest.approx(0.135350, abs=1e-6), pytest.approx(0.864650, abs=1e-6))


def test_the_interval_of_every_pass_rate_contains_it() -> None:
    numbers = [(passed, every) for every in (1, 2, 3, 10, 50, 500) for passed in range(every + 1)]
    passes, evaluations = (pl.Series(counts) for counts in zip(*numbers, strict=True))
    low, high = credible_interval(passes, evaluations)
    rate = passes / evaluations
    assert ((low <= rate) & (rate <= high)).all()


def test_the_window_is_split_by_model_and_compared_with_30_days_before() -> None:
    evaluations = pl.concat(
        [
            window([True, False]),
            window([True] * 4)[2:].with_columns(model=pl.lit("n")),
            window([True] * 7)[4:].with_columns(model=pl.lit("o")),
        ]
    )
    row = agent_ratings(evaluations, window([True] * 50), NOW).to_dicts()[0]
    assert row["by_model"] == [
        {"model": "o", "evaluations": 3, "pass_rate": 1.0},
        {"model": "m", "evaluations": 2, "pass_rate": 0.5},
        {"model": "n", "evaluations": 2, "pass_rate": 1.0},
    ]
    assert row["score_30d_ago"] == 615  # 400 + 0 + 200 + 150 * 50 / 500


def test_the_number_is_withheld_while_an_agent_is_calibrating_now_or_was_30_days_before() -> None:
    row = agent_ratings(window([True] * 50), window([True] * 49), NOW)
    assert withheld(row)["score"].to_list() == [615]
    assert row["score_30d_ago"].to_list() == [None]
    assert withheld(agent_ratings(window([True] * 49), window([]), NOW))["score"].to_list() == [
        None
    ]


def test_the_record_has_the_same_fields_for_a_known_and_an_unknown_agent() -> None:
    unknown = unknown_agent("org", "scout", NOW)
    known = agent_record(agent_ratings(window([True] * 50), window([]), NOW).to_dicts()[0])
    assert list(known) == list(unknown)
    assert unknown == {
        "agent_id": "scout",
        "organization_id": "org",
        "score": None,
        "lifecycle": "new",
        "eval_count": 0,
        "progress": "0/50",
        "window_size": 500,
        "pass_rate": 0.0,
        "avg_latency_ms": None,
        "streak": 0,
        "updated_at": NOW,
    }


def test_an_agent_without_evaluations_is_new() -> None:
    assert lifecycle(0) == "new"
    assert agent_ratings(window([]), window([]), NOW).is_empty()


def test_the_parts_of_a_score_add_up_to_it() -> None:
    # 20 passes since the only failure of 100, 30 of 100 ms.
    found = window([*[True] * 20, False, *[True] * 79], 30.0)
    parts = score_parts(found).drop("organization_id", "agent_id").row(0, named=True)
    assert parts == pytest.approx({"passed": 396, "latency": 175, "streak": 80, "volume": 30})
    assert agent_ratings(found, found.clear(), NOW)["score"].item() == 681


def test_the_history_of_a_score_is_what_was_shown_at_each_time() -> None:
    found = window([*[True] * 20, False, *[True] * 49])
    history = score_history(found, 30)
    assert history["evaluated_at"][0] == NOW - timedelta(minutes=20)  # the 50th evaluation
    # 400 * 49/50 + 150 * 50/500 = 407, the newest has failed.
    assert history["score"][0] == 407
    assert (history["evaluated_at"][-1], history.height) == (NOW, 21)
    assert history["score"][-1] == agent_ratings(found, found.clear(), NOW)["score"].item()
    assert score_history(found, 2)["score"].to_list() == [407, history["score"][-1]]
    # From the 50th to the 70th in at most three steps: every seventh, and the last.
    minutes = [(NOW - then).seconds // 60 for then in score_history(found, 4)["evaluated_at"]]
    assert minutes == [20, 13, 6, 0]


def test_a_calibrating_agent_has_no_history() -> None:
    assert score_history(window([True] * 49), 30).is_empty()
    assert score_history(window([]), 30).is_empty()
    assert pass_history(window([True] * 49), 30).is_empty()


def test_scores_that_rest_on_older_evaluations_are_not_known() -> None:
    mature = window([True] * 500, in_all=520)
    assert score_history(mature, 30)["evaluated_at"].to_list() == [NOW]
    shares = pass_history(mature, 10)
    assert shares.height == 10
    assert shares["pass_rate"].unique().to_list() == [1.0]
    assert shares["evaluated_at"][-1] == NOW


def test_passes_are_shared_out_over_the_50_evaluations_before() -> None:
    # The oldest 50: 10 passes, 25 failures, 15 passes. Then a pass leaves as often as one comes.
    shares = pass_history(window([*[True] * 25, *[False] * 25, *[True] * 10]), 100)
    assert shares["pass_rate"].to_list()[:2] == [0.5, 0.5]
    assert (shares.height, shares["pass_rate"][-1]) == (11, 0.5)


AGENT = {
    "organization_id": "default",
    "agent_id": "scout",
    "score": 1000,
    "lifecycle": "active",
    "eval_count": 50,
    "evaluations_in_all": 50,
    "pass_rate": 1.0,
    "streak": 50,
}


def identities(**changes: object) -> pl.DataFrame:
    rows = [unknown_identity("a", NOW), unknown_identity("b", NOW) | changes]
    return pl.DataFrame(rows, schema=REPUTATION_SCORES.schema)


def agents(**changes: object) -> pl.DataFrame:
    return frame(AGENT_SCORES.schema, [AGENT, AGENT | changes])


@pytest.mark.parametrize(
    ("changes", "passed"),
    [
        ({"overall_score": -1.0, "confidence": 1.0}, True),
        ({"overall_score": 1.1}, False),
        ({"score_7d_ago": -1.1}, False),
        ({"confidence": 1.1}, False),
        ({"confidence": None}, False),
        ({"total_events": None}, False),
        ({"total_events": 1, "positive_events": 1, "negative_events": 1}, False),
    ],
)
def test_reputation_outside_its_range_is_found(changes: dict[str, object], passed: bool) -> None:
    result = reputation_is_in_range(identities(**changes))
    assert result.passed is passed
    assert passed or result.found == "1 identities outside"


ONE = {"score": None, "evaluations_in_all": 1, "eval_count": 1, "streak": 1}


@pytest.mark.parametrize(
    ("changes", "passed"),
    [
        ({"score": 0, "pass_rate": 0.0, "streak": 0}, True),
        (ONE, True),
        (ONE | {"evaluations_in_all": 49, "eval_count": 49, "streak": 0}, True),
        ({"score": 1001}, False),
        ({"score": None}, False),
        ({"score": 700, "evaluations_in_all": 49, "eval_count": 49, "streak": 1}, False),
        ({"pass_rate": 1.1}, False),
        ({"pass_rate": None}, False),
        ({"eval_count": 501}, False),
        ({"eval_count": 0, "streak": 0}, False),
        ({"streak": 51}, False),
    ],
)
def test_an_agent_rating_outside_its_range_is_found(
    changes: dict[str, object], passed: bool
) -> None:
    result = agent_scores_are_in_range(agents(**changes))
    assert result.passed is passed
    assert passed or result.found == "1 agents outside"
