"""Prices of API requests: of a table, of an own file, and what one request costs by them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from operator import mul
from typing import Annotated, Any, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_MILLION = 1_000_000


class Tokens(NamedTuple):
    """Tokens of one request, each counted once.

    ``cache_write_1h`` are those that the cache keeps for an hour, ``cache_write`` the others.
    """

    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_1h: int = 0


class UsdPerMillion(NamedTuple):
    """US dollars per million tokens of each kind of ``Tokens``."""

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal
    cache_write_1h: Decimal


def usd_per_million(
    usual: Decimal,
    output: Decimal,
    cache_read: Decimal | None = None,
    cache_write: Decimal | None = None,
    cache_write_1h: Decimal | None = None,
) -> UsdPerMillion:
    """Return the prices of all kinds: without its own, a cached token costs as a usual input."""
    read, write = (usual if price is None else price for price in (cache_read, cache_write))
    write_1h = write if cache_write_1h is None else cache_write_1h
    return UsdPerMillion(usual, output, read, write, write_1h)


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices of one model at one time.

    Attributes:
        usd: Prices of tokens.
        steps: Pairs of a number and prices, ascending: a request with more input tokens than the
            number, cached ones included, has these prices for all of its tokens.
        request_usd: Price of a request itself.
        is_own: True for prices of the installation's own file.
    """

    usd: UsdPerMillion
    steps: tuple[tuple[int, UsdPerMillion], ...] = ()
    request_usd: Decimal = Decimal(0)
    is_own: bool = False

    def cost_usd(self, tokens: Tokens) -> float:
        """Return the price of one request."""
        usd, size = self.usd, sum(tokens) - tokens.output
        for above, larger in self.steps:
            if size > above:
                usd = larger
        return float(sum(map(mul, usd, tokens), Decimal(0)) / _MILLION + self.request_usd)


@dataclass(frozen=True, slots=True)
class Served:
    """What a price depends on, apart from time and tokens.

    Attributes:
        forms: Names of the model, see ``ModelName``.
        provider: Who serves it; None if that is not known.
        service_tier: Tier that is not the usual one, such as ``flex`` or ``batch``.
        speed: Speed that is not the usual one, such as ``fast``.
    """

    forms: tuple[str, ...]
    provider: str | None = None
    service_tier: str | None = None
    speed: str | None = None


class Prices(Protocol):
    """Providers and list prices of models."""

    def provider_of(self, model: str) -> str | None:
        """Return the provider id of a model name; None if the table lacks it."""

    def rates(self, served: Served, at_us: int) -> Rates | None:
        """Return the prices at a time (microseconds since 1970); None if they are not known."""


_Usd = Annotated[Decimal, Field(ge=0, le=100_000, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _UsdPerMillion(_Strict):
    input: _Usd
    output: _Usd
    cache_read: _Usd | None = None
    cache_write: _Usd | None = None
    cache_write_1h: _Usd | None = None


class OwnPrice(_Strict):
    """Price of the models whose name matches a pattern, from a day (UTC) on."""

    model: str = Field(min_length=1, max_length=200)
    valid_from: date = date.min
    usd_per_million: _UsdPerMillion

    @cached_property
    def rates(self) -> Rates:
        """The prices of one request."""
        usd = self.usd_per_million
        cached = (usd.cache_read, usd.cache_write, usd.cache_write_1h)
        return Rates(usd_per_million(usd.input, usd.output, *cached), is_own=True)

    def matches(self, name: str) -> bool:
        """Return True if a name matches; ``*`` matches any text."""
        parts = map(re.escape, self.model.split("*"))
        return re.fullmatch(".*".join(parts), name, re.IGNORECASE | re.DOTALL) is not None


@dataclass(frozen=True, slots=True)
class OwnPrices:
    """Prices of a file, those that begin last first, and what is wrong with the others."""

    prices: tuple[OwnPrice, ...] = ()
    faults: tuple[str, ...] = ()

    def rates(self, forms: Sequence[str], day: date) -> Rates | None:
        """Return the price of a model on a day, by any of its names; None without one."""
        for price in self.prices:
            if price.valid_from <= day and any(map(price.matches, forms)):
                return price.rates
        return None


NO_OWN_PRICES = OwnPrices()


def parse_own_prices(values: Any, source: str) -> OwnPrices:
    """Return the prices of a file; a wrong entry is a fault, and the others count.

    Args:
        values: What the YAML file says.
        source: Name of the file, for messages.
    """
    if values is None:
        return NO_OWN_PRICES
    entries = values.get("prices") if isinstance(values, dict) and len(values) == 1 else None
    if not isinstance(entries, list):
        return OwnPrices(faults=(f"{source} must have one list, prices",))
    found, faults = [], []
    for number, entry in enumerate(entries, 1):
        try:
            found.append(OwnPrice.model_validate(entry))
        except ValidationError as error:
            for details in error.errors():
                where = ".".join(map(str, details["loc"])) or "it"
                faults.append(f"{source}, entry {number}: {where}: {details['msg']}")
    found.sort(key=lambda price: price.valid_from, reverse=True)
    return OwnPrices(tuple(found), tuple(faults))
