"""Impossible token counts are noticed."""

import pytest

from evaluation_pipelines.judging.domain.budget import Exchange, Usage

EXCHANGE = Exchange(
    sent_bytes=8_000, sent_tokens=2_100, reply_bytes=1_000, reply_tokens=260, max_output_tokens=500
)


@pytest.mark.parametrize(
    "usage",
    [
        Usage(2_000, 0, 250),
        Usage(100, 1_900, 250),
        Usage(10_000, 0, 1),  # a byte for each token, and a long template of the server
        Usage(2_000, 0, 1_000),  # the server ignored the limit
        Usage(2_000, 0, 900, reasoning_tokens=500),
        Usage(2_000, 0, 30_000, reasoning_tokens=29_750),
        Usage(2_000, 0, 200_250, reasoning_tokens=200_000),
    ],
)
def test_counts_of_such_an_exchange_are_possible(usage: Usage) -> None:
    assert EXCHANGE.is_possible(usage)


@pytest.mark.parametrize(
    "usage",
    [
        Usage(0, 0, 0),
        Usage(2_000, 0, 0),
        Usage(0, 0, 250),
        Usage(10_001, 0, 250),
        Usage(0, 10**9, 250),
        Usage(2_000, 0, 1_001),
        Usage(2_000, 0, 10**9),
        Usage(2_000, 0, 10**9, reasoning_tokens=10**9),
        Usage(2_000, 0, 200_251, reasoning_tokens=200_001),
    ],
)
def test_nothing_for_text_and_more_than_was_sent_or_allowed_is_impossible(usage: Usage) -> None:
    assert not EXCHANGE.is_possible(usage)


def test_an_empty_reply_may_have_no_tokens() -> None:
    assert Exchange(8_000, 2_100, 0, 0, 500).is_possible(Usage(2_000, 0, 0))


def test_the_estimate_takes_nothing_from_the_cache() -> None:
    assert EXCHANGE.estimate() == Usage(2_100, 0, 260)
