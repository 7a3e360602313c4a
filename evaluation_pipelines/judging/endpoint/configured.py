"""Client, prices and budget limits of the judge, built from the settings."""

import time
from datetime import datetime

from evaluation_pipelines.judging.domain.budget import BudgetLimits, Price, Pricing
from evaluation_pipelines.judging.domain.budget import Usage as JudgeUsage
from evaluation_pipelines.judging.endpoint.client import CallLimits, Endpoint, JudgeClient, Wire
from evaluation_pipelines.judging.endpoint.limits import CircuitBreaker
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.telemetry.domain.prices import Served, Tokens
from evaluation_pipelines.telemetry.prices import PriceTable


def endpoint_of(settings: Settings) -> str | None:
    """Return the address of the judge; ``None`` if no judge is configured."""
    found = settings.judge_endpoint
    return None if found is None else found.base_url


def judge_pricing(settings: Settings, model: str, now: datetime) -> Pricing:
    """Return the configured price of ``EVAL_JUDGE_MODEL``, or the list price of another model."""
    paid, output = settings.judge_input_usd_per_mtok, settings.judge_output_usd_per_mtok
    if model == settings.judge_model and paid is not None and output is not None:
        return Price(paid, output, settings.judge_cached_usd_per_mtok)
    return ListPrice(model, int(now.timestamp() * 1_000_000))


class SharedBreakers:
    """Circuit breakers for all runs of one process: one per model; threads may share them."""

    def __init__(self, settings: Settings) -> None:
        """Open and close them as ``settings`` say."""
        self._limits = call_limits(settings)
        self._by_model: dict[str, CircuitBreaker] = {}

    def of(self, model: str) -> CircuitBreaker:
        """Return the breaker of a model."""
        failures, pause_s = self._limits.breaker_failures, self._limits.breaker_pause_s
        new = CircuitBreaker(failures, pause_s, time.monotonic, counts_requests=True)
        return self._by_model.setdefault(model, new)


def judge_client(
    settings: Settings,
    now: datetime,
    model: str,
    wire: Wire | None = None,
    breakers: SharedBreakers | None = None,
) -> JudgeClient | None:
    """Return a client of the judge.

    Args:
        settings: The settings.
        now: The time that selects the list price.
        model: The model to ask.
        wire: Answers all requests in place of the network, if given.
        breakers: Those of the process; ``None`` for one of this client alone.

    Returns:
        The client, not yet open; ``None`` if no judge is configured. ``settings.why_no_judge`` says
        what to set.
    """
    found = settings.judge_endpoint
    if found is None:
        return None
    key = None if found.api_key is None else found.api_key.get_secret_value()
    endpoint = Endpoint(found.base_url, model, key, wire)
    pricing = judge_pricing(settings, model, now)
    breaker = None if breakers is None else breakers.of(model)
    return JudgeClient(endpoint, call_limits(settings), pricing, breaker=breaker)


def call_limits(settings: Settings) -> CallLimits:
    """Return the limits of single calls."""
    return CallLimits(
        # The permits of a run are fewer: one request is left to people who wait meanwhile.
        concurrency=settings.judge_concurrency + 1,
        requests_per_minute=settings.judge_requests_per_minute,
        tokens_per_minute=settings.judge_tokens_per_minute,
        timeout_s=settings.judge_timeout_seconds,
        max_output_tokens=settings.judge_max_output_tokens,
        temperature=settings.judge_temperature,
    )


def judge_budget_limits(settings: Settings) -> BudgetLimits:
    """Return the budget limits of a run."""
    return BudgetLimits(
        max_sessions=settings.judge_max_sessions,
        max_run_usd=settings.judge_max_cost_usd,
        max_day_usd=settings.judge_max_cost_per_day_usd,
    )


class ListPrice:
    """List price of one model at one time; implements ``Pricing``."""

    def __init__(self, model: str, at_us: int) -> None:
        """Use the price that is valid at ``at_us`` (microseconds since 1970)."""
        self._model = model
        self._at_us = at_us

    def cost_usd(self, usage: JudgeUsage) -> float | None:
        """Return the cost of one call in US dollars; ``None`` if the table lacks the model."""
        rates = PriceTable().rates(Served((self._model,)), self._at_us)
        tokens = Tokens(
            usage.input_tokens - usage.cache_write_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            usage.cache_write_tokens,
        )
        return None if rates is None else rates.cost_usd(tokens)
