"""What a request costs by a price table, and where that is unknown."""

import json
from decimal import Decimal
from typing import Any

import pytest

from evaluation_pipelines.telemetry.domain.prices import (
    Rates,
    Served,
    Tokens,
    UsdPerMillion,
    usd_per_million,
)
from evaluation_pipelines_tests.telemetry.domain.reading import NOW_US, read_one

REQUEST = {
    "gen_ai.conversation.id": "s",
    "gen_ai.request.model": "m",
    "gen_ai.usage.input_tokens": 7,
    "gen_ai.usage.output_tokens": 3,
    "gen_ai.usage.cache_read.input_tokens": 2,
    "gen_ai.usage.cache_creation.input_tokens": 1,
}
DOLLARS = usd_per_million(*(Decimal(usd) * 1_000_000 for usd in (1000, 100, 10, 1)))
"""Prices of one input, output, read and written token."""


class PowersOfTen:
    """Price table in which every kind of token has a price of its own."""

    def provider_of(self, model: str) -> str | None:
        """Return a provider."""
        return "p"

    def rates(self, served: Served, at_us: int) -> Rates | None:
        """Return $1000, $100, $10 and $1 per token; None for another model or time."""
        return Rates(DOLLARS) if (served, at_us) == (Served(("m",), "p"), NOW_US) else None


def priced(**attributes: object) -> tuple[Any, Any]:
    """Return cost and source of a request."""
    record = {
        "timeUnixNano": f"{NOW_US * 1000}",
        "eventName": "gen_ai.client.inference.operation.details",
        "attributes": [
            {"key": key, "value": {"intValue" if isinstance(value, int) else "stringValue": value}}
            for key, value in {**REQUEST, **attributes}.items()
            if value is not None
        ],
    }
    line = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    event = read_one(json.dumps(line).encode(), prices=PowersOfTen())
    assert event["list_price_usd"] == event["cost_usd"]
    return event["cost_usd"], event["cost_source"]


def test_every_kind_of_token_has_its_price() -> None:
    # 4 of 7 were neither read from the cache nor written: 4 * 1000 + 3 * 100 + 2 * 10 + 1 * 1.
    assert priced() == (4321.0, "priced")
    free = dict.fromkeys([name for name in REQUEST if "usage" in name], 0)
    assert priced(**free) == (0.0, "priced")


@pytest.mark.parametrize(
    "name", ["gen_ai.request.model", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"]
)
def test_without_its_model_or_one_of_its_token_counts_the_cost_is_unknown(name: str) -> None:
    assert priced(**{name: None}) == (None, "unknown")


def test_the_standard_tier_is_the_usual_one() -> None:
    assert priced(**{"gen_ai.request.service_tier": "standard"}) == (4321.0, "priced")
    assert priced(**{"gen_ai.request.service_tier": "flex"}) == (None, "unknown")


def test_a_model_without_a_price_is_unknown() -> None:
    assert priced(**{"gen_ai.request.model": "n"}) == (None, "unknown")


def test_a_price_that_no_request_can_have_is_unknown() -> None:
    # 9 * 1000 + 9 * 100 + 9 * 10 + 10 * 1 = 10,000; one token more is $1 more.
    most = {
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 9,
    }
    written = "gen_ai.usage.cache_creation.input_tokens"
    assert priced(**most, **{written: 10, "gen_ai.usage.input_tokens": 28}) == (10_000.0, "priced")
    assert priced(**most, **{written: 11, "gen_ai.usage.input_tokens": 29}) == (None, "unknown")


def test_a_step_is_the_price_of_all_tokens_of_a_larger_request() -> None:
    one, two, three = (usd_per_million(*map(Decimal, [usd, usd, "0.5"])) for usd in (1, 2, 3))
    rates = Rates(one, ((100, two), (1000, three)))
    # 60 + 40 cached are not above 100: 60 * 1 + 10 * 1 + 40 * 0.5 = 90 millionths.
    assert rates.cost_usd(Tokens(60, 10, 40, 0)) == 90e-6
    # One more: 61 * 2 + 10 * 2 + 40 * 0.5 = 162 millionths.
    assert rates.cost_usd(Tokens(61, 10, 40, 0)) == 162e-6
    # 1001: 961 * 3 + 10 * 3 + 40 * 0.5 = 2933 millionths; output is no part of the size.
    assert rates.cost_usd(Tokens(961, 10, 40, 0)) == 2933e-6


def test_what_has_no_price_of_its_own_costs_as_the_kind_above() -> None:
    one, two, three = map(Decimal, (1, 2, 3))
    assert usd_per_million(one, two) == UsdPerMillion(one, two, one, one, one)
    written = usd_per_million(one, two, cache_write=three)
    assert written == UsdPerMillion(one, two, one, three, three)
