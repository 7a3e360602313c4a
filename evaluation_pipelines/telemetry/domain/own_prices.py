"""Prices of the installation's own file, for gateways and models that are served at home."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evaluation_pipelines.telemetry.domain.prices import Rates, usd_per_million

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
        """Return True if a name matches; ``*`` stands for any text."""
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
            for each in error.errors():
                where = ".".join(map(str, each["loc"])) or "it"
                faults.append(f"{source}, entry {number}: {where}: {each['msg']}")
    found.sort(key=lambda each: each.valid_from, reverse=True)
    return OwnPrices(tuple(found), tuple(faults))
