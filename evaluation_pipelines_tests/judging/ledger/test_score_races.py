"""Replies that arrive at the same time, on each database."""

import operator
from concurrent.futures import ThreadPoolExecutor
from functools import reduce

import pytest

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines_tests.judging.ledger.score_builders import started
from evaluation_pipelines_tests.judging.ledger.score_workers import log_turns


def test_concurrent_replies_are_all_stored(url: str, ledger: Ledger) -> None:
    score = started(ledger)
    names = [[f"score-{who}-{number}" for number in range(10)] for who in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(log_turns, [url] * 3, [score.score_id] * 3, names))

    logged = ScoreStore(ledger).get(score.score_id)
    assert sorted(each.turn for each in logged.turn_log) == sorted(reduce(operator.iadd, names, []))
    # 3 x 10 replies of 0.01 USD and 200 tokens
    assert logged.judge_cost_usd == pytest.approx(0.30)
    assert logged.output_tokens == 6_000
