"""Prices as charged: by provider, region, tier, size, lifetime in the cache; own prices first.

Prices of ``genai-prices`` 0.2.3, in US dollars per million tokens.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.telemetry.domain.model_columns import read_model_name
from evaluation_pipelines.telemetry.domain.prices import Served, Tokens
from evaluation_pipelines.telemetry.prices import PriceTable, read_own_prices

_SONNET = "anthropic.claude-sonnet-4-5-20250929-v1:0"
_PROFILE = "arn:aws:bedrock:us-east-1:123456789012:inference-profile"
_LARGE = Tokens(1_000_000, 0, 0, 0)


def cost(
    sent: str,
    tokens: Tokens,
    *,
    table: PriceTable | None = None,
    day: str = "2026-11-26",
    **how: str,
) -> float | None:
    table, name = table or PriceTable(), read_model_name(sent)
    provider = how.pop("provider", None) or name.provider or table.provider_of(name.model)
    at = datetime.fromisoformat(day).replace(tzinfo=UTC)
    rates = table.rates(Served(name.forms, provider, **how), round(at.timestamp() * 1e6))
    return None if rates is None else rates.cost_usd(tokens)


@pytest.mark.parametrize(
    ("sent", "how", "tokens", "usd"),
    [
        # On Bedrock a region costs a tenth more than all of them.
        (f"us.{_SONNET}", {}, _LARGE, 3.3),
        (f"{_PROFILE}/us.{_SONNET}", {}, _LARGE, 3.3),
        (f"global.{_SONNET}", {}, _LARGE, 3.0),
        # Vertex and OpenRouter as the maker, up to 200 000 input tokens: 0.1 * 3.
        ("claude-sonnet-4-5@20250929", {}, Tokens(100_000, 0, 0, 0), 0.3),
        ("anthropic/claude-sonnet-4.5", {"provider": "openrouter"}, Tokens(100_000, 0, 0, 0), 0.3),
        # A larger context: 0.2 * 1.25, and above it 0.200001 * 2.5 + 0.001 * 15.
        ("models/gemini-2.5-pro", {}, Tokens(200_000, 0, 0, 0), 0.25),
        ("gemini-2.5-pro", {}, Tokens(100_001, 1000, 0, 100_000), 0.5150025),
        # 0.1 * 5 + 0.001 * 30, half of it, and 2.5 times that.
        ("gpt-5.5", {}, Tokens(100_000, 1000, 0, 0), 0.53),
        ("gpt-5.5", {"service_tier": "flex"}, Tokens(100_000, 1000, 0, 0), 0.265),
        ("gpt-5.5", {"service_tier": "batch"}, Tokens(100_000, 1000, 0, 0), 0.265),
        ("gpt-5.5", {"service_tier": "priority"}, Tokens(100_000, 1000, 0, 0), 1.325),
        # 0.1 * 16 + 0.001 * 80.
        ("claude-fable-5-2", {"speed": "fast"}, Tokens(100_000, 1000, 0, 0), 1.68),
        # Written for five minutes 6.25, for an hour 10: 0.001 * 6.25 + 0.001 * 10.
        ("claude-opus-4-7", {}, Tokens(0, 0, 0, 1000, 1000), 0.01625),
        # No price for this tier, at this provider, or of a provider that the table lacks.
        ("gpt-4o", {"service_tier": "flex"}, _LARGE, None),
        ("gpt-5.5", {"provider": "azure", "service_tier": "flex"}, _LARGE, None),
        ("gpt-5.5", {"provider": "aws"}, _LARGE, None),
        ("gpt-oss-120b", {"provider": "vllm"}, _LARGE, None),
        ("birch-4-mini", {}, _LARGE, None),
    ],
)
def test_a_request_costs_what_its_provider_charges(
    sent: str, how: dict[str, Any], tokens: Tokens, usd: float | None
) -> None:
    assert cost(sent, tokens, **how) == usd


OWN = """
prices:
  - model: birch-*
    usd_per_million: {input: 1, output: 2}
  - model: birch-*
    valid_from: 2026-11-01
    usd_per_million: {input: 3, output: 4, cache_read: 0.5, cache_write: 5, cache_write_1h: 6}
  - model: ollama/*
    usd_per_million: {input: 0, output: 0}
"""


@pytest.mark.parametrize(
    ("sent", "day", "usd"),
    [
        # 1 * 1 + 1 * 2 + (1 + 1 + 1) * 1, and later 3 + 4 + 0.5 + 5 + 6.
        ("birch-4-mini", "2026-10-31", 6.0),
        ("Birch-4-mini", "2026-11-01", 18.5),
        ("openrouter/birch-4-mini", "2026-11-01", 18.5),
        ("ollama/gpt-oss-120b", "2026-11-01", 0.0),
        ("aspen-4", "2026-11-01", None),
    ],
)
def test_own_prices_count_first(tmp_path: Path, sent: str, day: str, usd: float | None) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(OWN)
    table = PriceTable(read_own_prices(file))

    assert cost(sent, Tokens(*[1_000_000] * 5), table=table, day=day) == usd


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("prices: [", "is not YAML"),
        ("price: []", "must have one list, prices"),
        ("- 1", "must have one list, prices"),
        ("a: &x 1\nb: *x", "has YAML aliases"),
        ("prices: [{model: m}]", "entry 1: usd_per_million: Field required"),
        ("prices: [{model: m, usd_per_million: {input: -1, output: 2}}]", "input: Input should be"),
        ("prices: [{model: m, usd_per_million: {input: .nan, output: 2}}]", "entry 1: "),
        ("prices: [{model: m, usd: 1, usd_per_million: {input: 1, output: 2}}]", "entry 1: usd: "),
    ],
)
def test_a_wrong_file_of_prices_is_a_fault(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    found = read_own_prices(file)

    assert found.prices == ()
    assert len(found.faults) == 1
    assert found.faults[0].startswith(str(file))
    assert fault in found.faults[0]


def test_a_wrong_entry_stops_no_other(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(OWN + "  - model: m\n")
    found = read_own_prices(file)

    assert len(found.prices) == 3
    assert found.faults == (f"{file}, entry 4: usd_per_million: Field required",)


def test_no_file_is_no_fault(tmp_path: Path) -> None:
    assert read_own_prices(tmp_path / "prices.yaml").faults == ()
