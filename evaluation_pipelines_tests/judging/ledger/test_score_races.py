"""No session is scored twice by concurrent threads or processes, on each database."""

import multiprocessing
import operator
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial, reduce

import pytest

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines_tests.judging.ledger.score_builders import started
from evaluation_pipelines_tests.judging.ledger.score_workers import (
    log_turns,
    score_all,
    take_over_all,
)

SPAWN = multiprocessing.get_context("spawn")
EXECUTORS: list[Callable[[], Executor]] = [
    partial(ThreadPoolExecutor, 3),
    partial(ProcessPoolExecutor, 3, mp_context=SPAWN),
]
concurrent = pytest.mark.parametrize("executors", EXECUTORS, ids=["threads", "processes"])


@concurrent
def test_three_scorers_of_the_same_sessions_score_each_once(
    url: str, ledger: Ledger, executors: Callable[[], Executor]
) -> None:
    with executors() as pool:
        scored = list(pool.map(score_all, [url] * 3, ["a", "b", "c"], [20] * 3))

    keys = [f"s{number}#baseline-1" for number in range(20)]
    assert sorted(reduce(operator.iadd, scored, [])) == sorted(keys)
    for key in keys:
        scores = ScoreStore(ledger).by_session("acme", key)
        assert [each.status for each in scores] == ["completed"]


@concurrent
def test_three_scorers_that_take_over_the_same_scorings_get_each_once(
    url: str, ledger: Ledger, executors: Callable[[], Executor]
) -> None:
    left = [started(ledger, f"s{number}#baseline-1").score_id for number in range(20)]
    with executors() as pool:
        scored = list(pool.map(take_over_all, [url] * 3, ["a", "b", "c"], [left] * 3))

    assert sorted(reduce(operator.iadd, scored, [])) == sorted(left)
    assert {ScoreStore(ledger).get(each).status for each in left} == {"completed"}


def test_concurrent_replies_are_all_stored(url: str, ledger: Ledger) -> None:
    score = started(ledger)
    names = [[f"score-{who}-{number}" for number in range(10)] for who in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(log_turns, [url] * 3, [score.score_id] * 3, ["me"] * 3, names))

    logged = ScoreStore(ledger).get(score.score_id)
    assert sorted(each.turn for each in logged.turn_log) == sorted(reduce(operator.iadd, names, []))
    # 3 x 10 replies of 0.01 USD and 200 tokens
    assert logged.judge_cost_usd == pytest.approx(0.30)
    assert logged.output_tokens == 6_000
