"""The judge that the settings name, its price and its budget."""

from datetime import datetime

from evaluation_pipelines.adapters.judge_client import CallLimits, Endpoint, JudgeClient
from evaluation_pipelines.adapters.prices import ListPrice
from evaluation_pipelines.domain.judging.budget import Limits
from evaluation_pipelines.domain.judging.pricing import Price, Pricing
from evaluation_pipelines.settings import Settings


def judge_pricing(settings: Settings, model: str, now: datetime) -> Pricing:
    """The price that is set for ``EVAL_JUDGE_MODEL``; of any other model the list price."""
    paid, output = settings.judge_input_usd_per_mtok, settings.judge_output_usd_per_mtok
    if model == settings.judge_model and paid is not None and output is not None:
        return Price(paid, output, settings.judge_cached_usd_per_mtok)
    return ListPrice(model, int(now.timestamp() * 1_000_000))


def judge_client(settings: Settings, now: datetime, model: str | None = None) -> JudgeClient | None:
    """A client of the judge, another model than the one that is set if wanted.

    None when no judge is configured: ``settings.why_no_judge`` says what to set.
    """
    found = settings.judge_endpoint
    if found is None:
        return None
    key = None if found.api_key is None else found.api_key.get_secret_value()
    endpoint = Endpoint(found.base_url, model or found.model, key)
    limits = CallLimits(
        concurrency=settings.judge_concurrency,
        requests_per_minute=settings.judge_requests_per_minute,
        tokens_per_minute=settings.judge_tokens_per_minute,
        timeout_s=settings.judge_timeout_seconds,
        max_output_tokens=settings.judge_max_output_tokens,
        temperature=settings.judge_temperature,
        breaker_failures=settings.judge_breaker_failures,
    )
    return JudgeClient(endpoint, limits, judge_pricing(settings, endpoint.model, now))


def judge_budget_limits(settings: Settings) -> Limits:
    """The limits of a run, as they are set."""
    return Limits(
        max_sessions=settings.judge_max_sessions,
        max_run_usd=settings.judge_max_cost_usd,
        max_day_usd=settings.judge_max_cost_per_day_usd,
    )
