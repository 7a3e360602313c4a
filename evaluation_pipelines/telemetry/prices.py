"""Providers and prices of models: own ones, and those of the installed ``genai-prices``."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml

from evaluation_pipelines.telemetry.domain.prices import (
    NO_OWN_PRICES,
    OwnPrices,
    Rates,
    Served,
    UsdPerMillion,
    parse_own_prices,
    usd_per_million,
)

_MINUTE_US = 60_000_000

_PRICES = (
    *("input_mtok", "output_mtok"),
    *("cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok"),
)


@dataclass(frozen=True, slots=True)
class PriceTable:
    """The shipped price table, and the prices that count before it."""

    own: OwnPrices = NO_OWN_PRICES

    def provider_of(self, model: str) -> str | None:
        """Return the provider id ("anthropic", "openai" ...) of a model name; None if unknown."""
        return _provider_of(model)

    def rates(self, served: Served, at_us: int) -> Rates | None:
        """Return the prices at a time (microseconds since 1970); None if they are not known."""
        own = None
        if self.own.prices:
            day = datetime.fromtimestamp(at_us / 1e6, UTC).date()
            own = self.own.rates(served.forms, day)
        return own or _listed(served, at_us // _MINUTE_US)


@cache
def _provider_of(model: str) -> str | None:
    # Imported here and below: loading the table is slower than the rest of a command.
    from genai_prices.data_snapshot import get_snapshot

    try:
        provider, _ = get_snapshot().find_provider_model(model, None, None, None)
    except LookupError:
        return None
    return provider.id


@lru_cache(maxsize=16384)
def _listed(served: Served, minute: int) -> Rates | None:
    """Return the prices of the table; some of its prices begin at a time of the day."""
    found = _find(served.forms, served.provider)
    if found is None:
        return None
    when = datetime.fromtimestamp(minute * 60, UTC)
    context = _context(served)
    provider, model = found
    usual = model.get_prices(when)
    if not context:
        return _rates(usual)
    # A model that is listed with another provider has the variants of that one.
    is_its_own = any(model is other for other in provider.models)
    asked = model.get_prices(when, context) if is_its_own else usual
    # A tier that the table has no price for does not cost what the usual one costs.
    return None if asked == usual else _rates(asked)


def _context(served: Served) -> dict[str, str]:
    """Return the service tier and speed as the table names them."""
    named = {"service_tier": served.service_tier, "speed": served.speed}
    found = {name: value for name, value in named.items() if value is not None}
    return {**found, "processing": "batch"} if served.service_tier == "batch" else found


@cache
def _find(forms: tuple[str, ...], provider: str | None) -> tuple[Any, Any] | None:
    """Return provider and model of the table; None if the provider lists none of these names."""
    from genai_prices.data_snapshot import get_snapshot

    for form in forms:
        try:
            return get_snapshot().find_provider_model(form, None, provider, None)
        except LookupError:
            continue
    return None


def _rates(prices: Any) -> Rates | None:
    """Return the prices of a model of the table; None for one that is not priced by tokens."""
    listed = vars(prices)
    if listed.get("input_mtok") is None:
        return None
    starts = {tier.start for price in listed.values() for tier in getattr(price, "tiers", ())}
    return Rates(
        _prices_above(0, listed),
        tuple((start, _prices_above(start + 1, listed)) for start in sorted(starts)),
        (listed.get("requests_kcount") or Decimal(0)) / 1000,
    )


def _prices_above(size: int, listed: dict[str, Any]) -> UsdPerMillion:
    """Return the prices in a request with this number of input tokens."""
    found: list[Any] = []
    for name in _PRICES:
        price = listed.get(name)
        reached = [tier.price for tier in getattr(price, "tiers", ()) if size > tier.start]
        found.append(reached[-1] if reached else getattr(price, "base", price))
    usual, output, *cached = found
    return usd_per_million(usual, output or Decimal(0), *cached)


_MAX_BYTES = 1_000_000
# Most builds of PyYAML include the fast loader; both loaders read plain data only.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_own_prices(path: Path) -> OwnPrices:
    """Return the prices of a file, which need not exist, and what is wrong with it."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return NO_OWN_PRICES
    except OSError as error:
        return OwnPrices(faults=(f"{path} cannot be read: {error.strerror or error}",))
    if len(content) > _MAX_BYTES:
        return OwnPrices(faults=(f"{path} is larger than {_MAX_BYTES} bytes, the limit",))
    try:
        # Aliases are refused: with them a small file can expand to any size.
        events = yaml.parse(content, Loader=_LOADER)
        if any(isinstance(event, yaml.AliasEvent) for event in events):
            return OwnPrices(faults=(f"{path} has YAML aliases (*name). Write out the values",))
        values = yaml.load(content, Loader=_LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return OwnPrices(faults=(f"{path} is not YAML: {error}",))
    return parse_own_prices(values, str(path))
