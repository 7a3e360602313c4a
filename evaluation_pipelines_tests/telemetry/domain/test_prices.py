"""The price of a request whose program sends no cost."""

from typing import Any

import pytest

from evaluation_pipelines.telemetry.domain.prices import add_price

REQUEST = {
    "model": "m",
    "event_time": 1_780_358_400_000_000,
    "input_tokens": 4,
    "output_tokens": 3,
    "cache_read_tokens": 2,
    "cache_creation_tokens": 1,
}


class PowersOfTen:
    """Price table in which every kind of token has a price of its own."""

    def provider_of(self, model: str) -> str | None:
        """Return a provider."""
        return "p"

    def cost_usd(
        self,
        model: str,
        input_tokens: int,
        output_tokens: int,
        cache_read_tokens: int,
        cache_creation_tokens: int,
        at_us: int,
    ) -> float | None:
        """Return $1000, $100, $10 and $1 per token; None for another model or time."""
        if (model, at_us) != ("m", REQUEST["event_time"]):
            return None
        return (
            1000.0 * input_tokens
            + 100.0 * output_tokens
            + 10.0 * cache_read_tokens
            + 1.0 * cache_creation_tokens
        )


def priced(**columns: object) -> tuple[Any, Any]:
    """Return cost and source of a request."""
    row = REQUEST | columns
    add_price(row, PowersOfTen())
    return row["cost_usd"], row["cost_source"]


def test_every_kind_of_token_has_its_price() -> None:
    # 4 * 1000 + 3 * 100 + 2 * 10 + 1 * 1
    assert priced() == (4321.0, "priced")
    free = dict.fromkeys(REQUEST.keys() - {"model", "event_time"}, 0)
    assert priced(**free) == (0.0, "priced")


@pytest.mark.parametrize(
    "column",
    ["model", "input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens"],
)
def test_without_its_model_or_one_of_its_token_counts_the_cost_is_unknown(column: str) -> None:
    assert priced(**{column: None}) == (None, "unknown")


def test_a_model_without_a_price_is_unknown() -> None:
    assert priced(model="n") == (None, "unknown")


def test_a_price_that_no_request_can_have_is_unknown() -> None:
    # 9 * 1000 + 9 * 100 + 9 * 10 + 10 * 1 = 10,000; one token more is $1 more.
    most = {"input_tokens": 9, "output_tokens": 9, "cache_read_tokens": 9}
    assert priced(**most, cache_creation_tokens=10) == (10_000.0, "priced")
    assert priced(**most, cache_creation_tokens=11) == (None, "unknown")
