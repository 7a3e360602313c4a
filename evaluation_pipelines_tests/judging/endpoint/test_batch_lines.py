"""Lines of the files of a batch, and its price."""

import json

import pytest

from evaluation_pipelines.judging.domain.budget import BatchPrice, Price, Usage
from evaluation_pipelines.judging.endpoint.batch_api import (
    BatchResult,
    read_result,
    request_line,
)


def test_a_request_is_one_line_known_by_scoring_and_turn() -> None:
    line = request_line("5f-1", "score-1-reminder", {"model": "m", "messages": ["a\nb"]})
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "custom_id": "5f-1:score-1-reminder",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "m", "messages": ["a\nb"]},
    }


@pytest.mark.parametrize(
    ("line", "result"),
    [
        (
            '{"custom_id": "5f:score-1", "response": {"status_code": 200, "body": {"a": 1}}}',
            BatchResult("5f", "score-1", 200, {"a": 1}),
        ),
        (
            '{"custom_id": "5f:score-1", "response": null, "error": {"message": "expired"}}',
            BatchResult("5f", "score-1", None, reason="expired"),
        ),
        (
            '{"custom_id": "5f:score-1", "response": {"status_code": "200"}, "error": "gone"}',
            BatchResult("5f", "score-1", None, reason="no answer in the batch"),
        ),
        ('{"custom_id": "5f", "response": null}', None),
        ('{"custom_id": 5}', None),
        ("[]", None),
        ("not json", None),
        ('{"response": {}}', None),
    ],
)
def test_a_line_that_is_no_result_is_recognized(line: str, result: BatchResult | None) -> None:
    assert read_result(line) == result
    assert result is None or result.custom_id == f"{result.score_id}:{result.turn}"


def test_a_request_in_a_batch_costs_a_share_of_the_direct_price() -> None:
    # A million tokens each at 1 and 10 US dollars: 11, half of it is 5.5.
    used = Usage(1_000_000, 0, 1_000_000)
    assert BatchPrice(Price(1.0, 10.0), 0.5).cost_usd(used) == 5.5
    assert BatchPrice(_Unknown(), 0.5).cost_usd(used) is None


class _Unknown:
    def cost_usd(self, usage: Usage) -> float | None:
        return None
