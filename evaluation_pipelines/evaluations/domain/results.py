"""The evaluations of sessions, one row each: effective score, judge, scorecard, tags, override."""

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import polars as pl

from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.domain.registry import Registry
from evaluation_pipelines.schemas import CONTENT_KEY, EVALUATION_EVENTS, SESSION_KEY
from evaluation_pipelines.scorecards.domain.overrides import newest_by_content, to_100

SESSION_COLUMNS = (
    *(*CONTENT_KEY, "session_id", "session_date", "agent_id", "model", "masque", "ended_at"),
    *("effective_100", "effective_source", "passed", "recommendation", "automatic_judge_model"),
    *("profile_id", "profile_version", "card_id", "judge_total", "judge_model"),
)
"""Columns of SESSIONS that :func:`evaluations` needs."""

CARD_COLUMNS = ("card_id", "criteria_scores", "scale_min", "scale_max", "scored_at", "reasoning")
"""Columns of SCORECARDS."""

JUDGMENT_COLUMNS = (
    *(*CONTENT_KEY, "judge_model", "judge_profile_id", "judge_profile_version", "prompt_hash"),
    *("total_score", "criteria_scores", "failure_tags", "score_analysis", "completed_at"),
)
"""Columns of completed JUDGE_SCORES."""

WITHDRAWN = "withdrawn"
_SESSION = (*SESSION_KEY, "session_id", "session_date", "agent_id", "model")
_CONTENT = (
    *("name", "value", "lowest", "highest", "label", "explanation"),
    *("evaluator_id", "evaluator_version", "evaluator_type", "evaluated_at"),
)
EVALUATIONS = pl.Schema(
    {column: EVALUATION_EVENTS.schema[column] for column in (*_SESSION, *_CONTENT)}
    | {"content": pl.String()}
)
"""Columns of :func:`evaluations`. ``content`` is a hash of the others."""

_LOWEST, _HIGHEST = pl.lit(0.0), pl.lit(100.0)
_VERSION = pl.format("{} {}", "profile_id", "profile_version")
_TYPES = {"override": "human", "judge": "llm", "composite": "code", "status": "code"}


def evaluations(
    sessions: pl.DataFrame,
    cards: pl.DataFrame,
    judgments: pl.DataFrame,
    overrides: pl.DataFrame,
    registry: Registry,
) -> pl.DataFrame:
    """Return the evaluations of sessions that count now: EVALUATIONS, one row each.

    Args:
        sessions: SESSION_COLUMNS, also without an effective score.
        cards: CARD_COLUMNS.
        judgments: JUDGMENT_COLUMNS.
        overrides: OVERRIDE_ROWS, whose ``annotator`` is a pseudonym.
        registry: The profiles, which have the highest points of criteria.
    """
    by_person = newest_by_content(overrides).select(
        *(*CONTENT_KEY, "profile_id", "annotator", "reason", "made_at"),
        override_100=to_100("override_score"),
    )
    scored = sessions.join(by_person, on=[*CONTENT_KEY, "profile_id"], how="left")
    scored = scored.join(cards, on="card_id", how="left")
    judged = sessions.select(*_SESSION, "content_hash", "judge_total", "judge_model").join(
        judgments, on=[*CONTENT_KEY, "judge_model"]
    )
    judged = (
        judged.filter(pl.col("total_score") == pl.col("judge_total"))
        .sort("completed_at", "judge_profile_id", "judge_profile_version")
        .unique(SESSION_KEY, keep="last", maintain_order=True)
    )
    found = [
        _effective(scored),
        _override(scored),
        _card_criteria(scored),
        _total(judged),
        _judge_criteria(judged, registry),
        _tags(judged),
    ]
    return _with_hashes(pl.concat([frame.select(*_SESSION, *_CONTENT) for frame in found]))


def _effective(scored: pl.DataFrame) -> pl.DataFrame:
    source = pl.col("effective_source")
    is_override, is_card = source == "override", source == "scorecard"
    passed = pl.when("passed").then(pl.lit("pass")).otherwise(pl.lit("fail"))
    by_judge = pl.when(pl.col("automatic_judge_model").is_not_null()).then(pl.lit("llm"))
    return scored.drop_nulls("effective_100").with_columns(
        name=pl.lit("session.effective"),
        value="effective_100",
        lowest=_LOWEST,
        highest=_HIGHEST,
        label=pl.when(pl.col("masque").is_null()).then(passed).otherwise("recommendation"),
        explanation=pl.when(is_override).then("reason").when(is_card).then("reasoning"),
        evaluator_id=pl.when(is_override)
        .then("annotator")
        .otherwise(
            pl.coalesce("automatic_judge_model", pl.when(is_card).then("profile_id"), source)
        ),
        evaluator_version=pl.when(is_card | is_override).then(_VERSION),
        evaluator_type=pl.when(is_card)
        .then(by_judge.otherwise(pl.lit("code")))
        .otherwise(source.replace_strict(_TYPES, default="code")),
        evaluated_at=pl.when(is_override)
        .then("made_at")
        .otherwise(pl.coalesce(pl.when(is_card).then("scored_at"), "ended_at")),
    )


def _override(scored: pl.DataFrame) -> pl.DataFrame:
    return scored.drop_nulls("override_100").with_columns(
        name=pl.lit("override"),
        value="override_100",
        lowest=_LOWEST,
        highest=_HIGHEST,
        label=pl.lit(None, pl.String),
        explanation="reason",
        evaluator_id="annotator",
        evaluator_version=_VERSION,
        evaluator_type=pl.lit("human"),
        evaluated_at="made_at",
    )


def _card_criteria(scored: pl.DataFrame) -> pl.DataFrame:
    by_judge = pl.when(pl.col("automatic_judge_model").is_not_null()).then(pl.lit("llm"))
    criteria = scored.filter(pl.col("criteria_scores").list.len() > 0).explode("criteria_scores")
    return (
        criteria.unnest("criteria_scores")
        .drop_nulls("value")
        .with_columns(
            name=pl.format("scorecard.{}", "key"),
            lowest="scale_min",
            highest="scale_max",
            label=pl.lit(None, pl.String),
            explanation=pl.lit(None, pl.String),
            evaluator_id="profile_id",
            evaluator_version=_VERSION,
            evaluator_type=by_judge.otherwise(pl.lit("code")),
            evaluated_at="scored_at",
        )
    )


def _by_judge(judged: pl.DataFrame) -> pl.DataFrame:
    version = pl.format(
        "{} {} {}", "judge_profile_id", "judge_profile_version", pl.col("prompt_hash").str.head(12)
    )
    return judged.with_columns(
        lowest=_LOWEST,
        highest=_HIGHEST,
        label=pl.lit(None, pl.String),
        explanation=pl.lit(None, pl.String),
        evaluator_id="judge_model",
        evaluator_version=version,
        evaluator_type=pl.lit("llm"),
        evaluated_at="completed_at",
    )


def _total(judged: pl.DataFrame) -> pl.DataFrame:
    return _by_judge(judged).with_columns(
        name=pl.lit("judge.total"), value="total_score", explanation="score_analysis"
    )


def _judge_criteria(judged: pl.DataFrame, registry: Registry) -> pl.DataFrame:
    schema = {"judged_key": pl.String, "name": pl.String, "value": pl.Float64, "points": pl.Float64}
    keyed = _by_judge(judged).with_columns(judged_key=pl.concat_str(SESSION_KEY, separator="\0"))
    rows = [
        (row["judged_key"], *point) for row in keyed.to_dicts() for point in _points(row, registry)
    ]
    points = pl.DataFrame(rows, schema, orient="row")
    return keyed.join(points, on="judged_key").with_columns(highest="points")


def _points(
    row: Mapping[str, Any], registry: Registry
) -> Iterator[tuple[str, float, float | None]]:
    """Yield name, points and the highest points of each judged criterion."""
    given = json.loads(row["criteria_scores"] or "{}")
    try:
        found = registry.find(row["judge_profile_id"], row["judge_profile_version"])
        highest = found.profile.judge_points
    except ProfileError:
        highest = {}
    for name, value in given.items():
        if value is not None:
            yield f"judge.{name}", float(value), highest.get(name)


def _tags(judged: pl.DataFrame) -> pl.DataFrame:
    tags = judged.filter(pl.col("failure_tags").list.len() > 0).explode("failure_tags")
    return _by_judge(tags.unique([*SESSION_KEY, "failure_tags"])).with_columns(
        name=pl.format("failure_tag.{}", "failure_tags"),
        value=pl.lit(None, pl.Float64),
        lowest=pl.lit(None, pl.Float64),
        highest=pl.lit(None, pl.Float64),
        label=pl.lit("fail"),
    )


def _with_hashes(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``content``: two evaluations with the same are not sent twice."""
    said = [name for name in _CONTENT if name not in ("name", "evaluated_at")]
    contents = [
        blake2b(json.dumps(row).encode(), digest_size=8).hexdigest()
        for row in rows.select(said).iter_rows()
    ]
    found = rows.with_columns(content=pl.Series(contents, dtype=pl.String))
    return found.cast(EVALUATIONS).sort(*SESSION_KEY, "name")
