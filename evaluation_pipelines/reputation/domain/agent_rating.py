"""The portable score of an agent: 0 to 1000 over its last 500 evaluations.

``score = floor(400 pass_rate + 250 latency_score + 200 streak_score + 150 volume_score)``, where
``latency_score = max(0, 1 - mean(latency_ms / latency_budget_ms))`` over the evaluations that have
a latency (0 when none has), ``streak_score = min(streak, 50) / 50`` and
``volume_score = min(evaluations, 500) / 500``.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl

from evaluation_pipelines.reputation.domain.signals import identity_id
from evaluation_pipelines.schemas import AGENT_SCORES, REPUTATION_SCORES, UTC_TIME
from evaluation_pipelines.schemas.table import CheckResult, examples_of

WINDOW_SIZE = 500
CALIBRATED_AT = 50
"""Evaluations below which the score is withheld."""

PARTS = {"passed": 400, "latency": 250, "streak": 200, "volume": 150}
"""Part of the score -> the most that it can be."""

_FULL_STREAK = 50
_AGENT = ("organization_id", "agent_id")


def lifecycle(evaluations_in_all: int) -> str:
    """Return new, calibrating, active or mature by the number of evaluations ever."""
    if evaluations_in_all == 0:
        return "new"
    if evaluations_in_all < CALIBRATED_AT:
        return "calibrating"
    return "active" if evaluations_in_all < WINDOW_SIZE else "mature"


def unknown_agent(organization_id: str, agent_id: str, as_of: datetime) -> dict[str, Any]:
    """Return the record of an agent without evaluations: no score yet, not an error.

    ``progress`` has evaluations of those that a score takes, and is None once there is a score.
    """
    return {
        "agent_id": agent_id,
        "organization_id": organization_id,
        "score": None,
        "lifecycle": lifecycle(0),
        "eval_count": 0,
        "progress": f"0/{CALIBRATED_AT}",
        "window_size": WINDOW_SIZE,
        "pass_rate": 0.0,
        "avg_latency_ms": None,
        "streak": 0,
        "updated_at": as_of,
    }


def agent_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of an agent from its row of AGENT_SCORES, with its ``progress``."""
    with_progress = {**row, "progress": progress(row)}
    return {name: with_progress[name] for name in unknown_agent("", "", row["updated_at"])}


def progress(row: Mapping[str, Any]) -> str | None:
    """Return evaluations of those that a score takes, such as ``48/50``; None with a score."""
    is_shown = row["lifecycle"] not in {"new", "calibrating"}
    return None if is_shown else f"{row['eval_count']}/{CALIBRATED_AT}"


def withheld(scores: pl.DataFrame) -> pl.DataFrame:
    """Return AGENT_SCORES as shown to users: no score while an agent is calibrating."""
    calibrating = pl.col("lifecycle") == "calibrating"
    return scores.with_columns(score=pl.when(~calibrating).then("score"))


def agent_ratings(evaluations: pl.DataFrame, before: pl.DataFrame, as_of: datetime) -> pl.DataFrame:
    """Return one row (AGENT_SCORES) per agent.

    Args:
        evaluations: The newest 500 evaluations of each agent up to ``as_of``, in any order, with
            ``organization_id, agent_id, evaluation_id, evaluated_at, passed, latency_ms,
            latency_budget_ms, model, evaluations_in_all``.
        before: The same 30 days earlier; the score of agents that were calibrating then is null.
        as_of: Time of the scores.
    """
    scores = _scores(evaluations)
    calibrated = pl.col("evaluations_in_all") >= CALIBRATED_AT
    earlier = _scores(before).filter(calibrated).select(*_AGENT, score_30d_ago="score")
    low, high = credible_interval(scores["passes"], scores["eval_count"])
    identities = [str(identity_id(*names)) for names in scores.select(_AGENT).iter_rows()]
    states = [lifecycle(number) for number in scores["evaluations_in_all"]]
    return (
        scores.with_columns(
            low.alias("pass_rate_low"),
            high.alias("pass_rate_high"),
            pl.Series("lifecycle", states, dtype=pl.String),
            pl.Series("identity_id", identities, dtype=pl.String),
            window_size=pl.lit(WINDOW_SIZE, dtype=pl.Int64),
            updated_at=pl.lit(as_of).cast(UTC_TIME),
        )
        .join(earlier, on=_AGENT, how="left")
        .join(_by_model(evaluations), on=_AGENT, how="left")
        .select(AGENT_SCORES.schema.names())
        .sort(_AGENT)
    )


def credible_interval(passes: pl.Series, evaluations: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return the equal-tailed 90% interval of the pass rate: Beta(1 + passes, 1 + failures).

    It contains the rate: where all passed it ends at 1, and where none did it begins at 0, as in
    Brown, Cai and DasGupta, "Interval estimation for a binomial proportion", 2001.
    """
    from scipy.special import betaincinv  # takes a while to import

    passed = passes.to_numpy()
    failed = evaluations.to_numpy() - passed
    low, high = (betaincinv(1 + passed, 1 + failed, level) for level in (0.05, 0.95))
    low[passed == 0], high[failed == 0] = 0.0, 1.0
    return pl.Series(low), pl.Series(high)


def score_parts(evaluations: pl.DataFrame) -> pl.DataFrame:
    """Return the parts that the score of each agent is the sum of, before it is rounded down.

    Args:
        evaluations: As for :func:`agent_ratings`.

    Returns:
        ``organization_id, agent_id`` and a column for each name in PARTS.
    """
    scores = _scores(evaluations)
    return scores.select(*_AGENT, **_parts()).sort(_AGENT)


def score_history(window: pl.DataFrame, number: int) -> pl.DataFrame:
    """Return the scores of an agent at up to ``number`` of its evaluations, in order of time.

    Args:
        window: Its newest evaluations, AGENT_WINDOWS. The scores of times when older evaluations
            counted as well cannot be known.
        number: How many scores at most, 2 or more.

    Returns:
        ``evaluated_at, score``; no rows before the agent was calibrated.
    """
    newest_last = window.sort("evaluated_at", "evaluation_id")
    last = newest_last.height
    first = CALIBRATED_AT if newest_last["evaluations_in_all"].max() == last else last
    step = max(-(-(last - first) // (number - 1)), 1)
    ends = sorted({last, *range(first, last + 1, step)}) if last >= CALIBRATED_AT else []
    if not ends:
        return pl.DataFrame(schema={"evaluated_at": UTC_TIME, "score": pl.Int64})
    # All times at once, each as if it were another agent.
    windows = [newest_last.head(end).with_columns(agent_id=pl.lit(f"{end:09}")) for end in ends]
    scores = _scores(pl.concat(windows)).sort("agent_id")["score"]
    return newest_last.select("evaluated_at")[[end - 1 for end in ends]].with_columns(scores)


def pass_history(window: pl.DataFrame, number: int) -> pl.DataFrame:
    """Return the share of passes among the 50 evaluations up to each of up to ``number`` times.

    Args:
        window: Evaluations of an agent, AGENT_WINDOWS.
        number: How many times at most.

    Returns:
        ``evaluated_at, pass_rate`` in order of time, the newest among them.
    """
    shares = window.sort("evaluated_at", "evaluation_id").select(
        "evaluated_at", pass_rate=pl.col("passed").cast(pl.Float64).rolling_mean(CALIBRATED_AT)
    )
    known = shares.drop_nulls()
    return known.reverse().gather_every(max(-(-known.height // number), 1)).reverse()


def _scores(evaluations: pl.DataFrame) -> pl.DataFrame:
    newest_first = evaluations.sort("evaluated_at", "evaluation_id", descending=True)
    unbroken = pl.col("passed").cast(pl.Int64).cum_min().over(_AGENT)
    use = pl.col("latency_ms") / pl.col("latency_budget_ms")
    return (
        newest_first.with_columns(unbroken=unbroken)
        .group_by(_AGENT)
        .agg(
            eval_count=pl.len().cast(pl.Int64),
            evaluations_in_all=pl.col("evaluations_in_all").max(),
            passes=pl.col("passed").sum().cast(pl.Int64),
            pass_rate=pl.col("passed").mean(),
            streak=pl.col("unbroken").sum(),
            avg_latency_ms=pl.col("latency_ms").mean(),
            latency_score=(1 - use.mean()).clip(lower_bound=0).fill_null(0.0),
        )
        .with_columns(score=_score())
    )


def _parts() -> dict[str, pl.Expr]:
    streak_score = pl.min_horizontal("streak", pl.lit(_FULL_STREAK)) / _FULL_STREAK
    volume_score = pl.min_horizontal("eval_count", pl.lit(WINDOW_SIZE)) / WINDOW_SIZE
    of_score = (pl.col("pass_rate"), pl.col("latency_score"), streak_score, volume_score)
    return {name: PARTS[name] * part for name, part in zip(PARTS, of_score, strict=True)}


def _score() -> pl.Expr:
    passed, latency, streak, volume = _parts().values()
    # Rounding first undoes noise of floating point: 699.9999999999999 is 700.
    return (passed + latency + streak + volume).round(9).floor().cast(pl.Int64)


def _by_model(evaluations: pl.DataFrame) -> pl.DataFrame:
    """Return evaluations and pass rate by model, most used first."""
    return (
        evaluations.group_by(*_AGENT, "model")
        .agg(evaluations=pl.len().cast(pl.Int64), pass_rate=pl.col("passed").mean())
        .sort("evaluations", "model", descending=[True, False])
        .group_by(_AGENT)
        .agg(by_model=pl.struct("model", "evaluations", "pass_rate"))
    )


_SIGNED = (
    "overall_score",
    "task_quality_score",
    "economic_score",
    "identity_hygiene_score",
    "score_7d_ago",
    "score_30d_ago",
    "overall_observed",
    "weighted_overall",
)


def reputation_is_in_range(scores: pl.DataFrame) -> CheckResult:
    """Every score is from -1 to 1 (or null), confidence from 0 to 1, no more signs than signals."""
    signed = [pl.col(name).is_null() | pl.col(name).is_between(-1, 1) for name in _SIGNED]
    counted = pl.col("positive_events") + pl.col("negative_events") <= pl.col("total_events")
    fits = pl.all_horizontal(*signed, pl.col("confidence").is_between(0, 1), counted)
    broken = scores.filter(~fits.fill_null(value=False)).select("identity_id", *_SIGNED[:4])
    return CheckResult(
        REPUTATION_SCORES.name,
        "reputation_is_in_range",
        broken.is_empty(),
        "scores from -1 to 1, confidence from 0 to 1",
        f"{broken.height:,} identities outside",
        examples_of(broken),
    )


def agent_scores_are_in_range(scores: pl.DataFrame) -> CheckResult:
    """Scores are from 0 to 1000 where there are enough evaluations and null where there are not."""
    score, rate = pl.col("score"), pl.col("pass_rate")
    calibrated = pl.col("evaluations_in_all") >= CALIBRATED_AT
    fits = pl.all_horizontal(
        pl.when(calibrated).then(score.is_between(0, 1000)).otherwise(score.is_null()),
        rate.is_between(0, 1),
        pl.col("eval_count").is_between(1, WINDOW_SIZE),
        pl.col("streak").is_between(0, pl.col("eval_count")),
    )
    key = AGENT_SCORES.key
    broken = scores.filter(~fits.fill_null(value=False)).select(*key, "score", "lifecycle")
    return CheckResult(
        AGENT_SCORES.name,
        "agent_scores_are_in_range",
        broken.is_empty(),
        f"0 to 1000 with at least {CALIBRATED_AT} evaluations, null below",
        f"{broken.height:,} agents outside",
        examples_of(broken),
    )
