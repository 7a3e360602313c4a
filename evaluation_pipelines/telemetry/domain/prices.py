"""Prices of API requests: what a price table says, and what one request costs by it."""

from dataclasses import dataclass
from decimal import Decimal
from operator import mul
from typing import NamedTuple, Protocol

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
    read, write = (usual if each is None else each for each in (cache_read, cache_write))
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
