"""The effective score of a session, the precedence of its sources, its events and its reason."""

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import polars as pl

from evaluation_pipelines.formatting import points
from evaluation_pipelines.judging.domain.badge import GREEN_FROM, YELLOW_FROM
from evaluation_pipelines.profiles.domain.profile import DEFAULT_RISK_FRACTION
from evaluation_pipelines.profiles.domain.registry import Registry
from evaluation_pipelines.schemas import CONTENT_KEY, SESSION_EVALUATIONS, SESSION_KEY
from evaluation_pipelines.schemas.scorecards import Announcement
from evaluation_pipelines.scorecards.domain.criteria import criterion_name, newest_totals
from evaluation_pipelines.scorecards.domain.overrides import newest_by_content, to_100

PROVISIONAL = pl.Schema(
    {**dict.fromkeys(SESSION_KEY, pl.String()), "provisional_100": pl.Float64()}
)
EFFECTIVE_RANGE = (0.0, 100.0)
"""Lowest and highest effective score."""

PASSES_FROM = 50
NO_PROFILE = "no profile matches its label"
NOT_ENDED = "it has not ended yet"
FAILED_AT_START = "it failed before any tool call, which counts as 0"


def evaluate(
    sessions: pl.DataFrame,
    matches: pl.DataFrame,
    cards: pl.DataFrame,
    unscored: pl.DataFrame,
    overrides: pl.DataFrame,
    results: pl.DataFrame,
) -> pl.DataFrame:
    """Return the effective score of every session.

    The first of these that exists is the effective score:

    1. a live override
    2. the best-matching current scorecard (not a fallback) of a profile that has one
    3. the judge's newest total
    4. composite * 10
    5. 0 for a session that failed

    Sources 1 to 3 must be about the current content of the session; 4 and 5 count only after it
    has ended. A session that a rule excludes has no effective score. One that failed before any
    tool call did nothing that 2 and 3 could praise: after it has ended, only 1 counts before 5.

    The automatic score is the same without overrides: what people say of a session must not take
    it out of the runs that a comparison counts.

    Args:
        sessions: Rows of ``agent_sessions`` with ``composite``, ``is_terminal`` and
            ``excluded_by``.
        matches: ASSIGNMENTS of the sessions.
        cards: SCORECARDS of these sessions, of any profile and content.
        unscored: UNSCORED.
        overrides: OVERRIDE_ROWS.
        results: JUDGE_RESULTS.

    Returns:
        The columns of SESSION_EVALUATIONS except those of :func:`completed`, and others.
    """
    counting = matches_that_score(matches, sessions, cards)
    best = counting.filter("is_best_match").drop("is_best_match")
    frame = (
        sessions.join(best, on=SESSION_KEY, how="left", validate="1:1")
        .join(_first_choices(matches, unscored), on=SESSION_KEY, how="left", validate="1:1")
        .join(_best_cards(cards), on=[*CONTENT_KEY, "profile_id", "profile_version"], how="left")
        .join(_live(overrides), on=[*CONTENT_KEY, "profile_id"], how="left")
        .join(newest_totals(results), on=CONTENT_KEY, how="left")
        .join(unscored.rename({"reason": "why"}), on=[*SESSION_KEY, "profile_id"], how="left")
    )
    return (
        frame.with_columns(
            card_id=pl.when(~_is_excluded()).then("card_id"), automatic_source=_automatic_source()
        )
        .with_columns(*_judge_columns(), automatic_100=_automatic_score())
        .with_columns(
            effective_source=_effective(pl.lit("override"), "automatic_source"),
            effective_100=_effective(pl.col("override_100"), "automatic_100"),
        )
        .with_columns(_passed(), _color(), _confidence(), _reason())
    )


def matches_that_score(
    matches: pl.DataFrame, sessions: pl.DataFrame, cards: pl.DataFrame
) -> pl.DataFrame:
    """Return ASSIGNMENTS in which the best match is the first one that has a scorecard.

    A profile that cannot score a session, for want of an endpoint or of texts, does not stand in
    the way of those that did. Without any scorecard the best match is the one by labels.

    Args:
        matches: ASSIGNMENTS.
        sessions: CONTENT_KEY of the sessions.
        cards: SCORECARDS.
    """
    card_key = [*CONTENT_KEY, "profile_id", "profile_version"]
    scored = cards.filter(~pl.col("fallback")).select(card_key).unique()
    first = pl.col("rank").min().over(SESSION_KEY)
    first_with_card = pl.col("rank").filter("has_card").min().over(SESSION_KEY)
    return (
        matches.join(sessions.select(CONTENT_KEY), on=SESSION_KEY, how="left")
        .join(scored.with_columns(has_card=pl.lit(value=True)), on=card_key, how="left")
        .with_columns(is_best_match=pl.col("rank") == pl.coalesce(first_with_card, first))
        .select(matches.columns)
        .sort(*SESSION_KEY, "profile_id")
    )


def _first_choices(matches: pl.DataFrame, unscored: pl.DataFrame) -> pl.DataFrame:
    """Return the best match of each session by labels, and why it has no card."""
    by_label = matches.filter("is_best_match").select(*SESSION_KEY, first_id="profile_id")
    why = unscored.select(*SESSION_KEY, first_id="profile_id", first_why="reason")
    return by_label.join(why, on=[*SESSION_KEY, "first_id"], how="left")


def with_newest_overrides(evaluations: pl.DataFrame, overrides: pl.DataFrame) -> pl.DataFrame:
    """Apply the newest overrides to evaluations of sessions without a card.

    Args:
        evaluations: SESSION_EVALUATIONS. Effective and provisional scores and sources change, and
            what follows from them: ``passed``, ``colour`` and ``confidence``.
        overrides: OVERRIDE_ROWS.

    Returns:
        The same columns, and ``annotator`` of the override that counts.
    """
    newest = newest_by_content(overrides).select(
        *CONTENT_KEY, "profile_id", "annotator", newest_100=to_100("override_score")
    )
    is_overridden = pl.col("newest_100").is_not_null() & ~_is_excluded()
    return (
        evaluations.join(newest, on=[*CONTENT_KEY, "profile_id"], how="left", maintain_order="left")
        .with_columns(
            annotator=pl.when(is_overridden).then("annotator"),
            provisional_100=pl.when(~is_overridden).then("provisional_100"),
            effective_100=pl.when(is_overridden).then("newest_100").otherwise("effective_100"),
            effective_source=pl.when(is_overridden)
            .then(pl.lit("override"))
            .otherwise("effective_source"),
        )
        .with_columns(
            pl.when(is_overridden).then(now).otherwise(now.meta.output_name())
            for now in (_passed(), _color(), pl.lit(1.0).alias("confidence"))
        )
        .drop("newest_100")
    )


def is_risk(registry: Registry) -> pl.Expr:
    """Return whether the effective score is a risk by the newest version of its profile."""
    fractions = {
        registered.profile.id: registered.profile.quality_risk_fraction
        for registered in registry.newest()
    }
    fraction = pl.col("profile_id").replace_strict(
        fractions, default=DEFAULT_RISK_FRACTION, return_dtype=pl.Float64
    )
    return pl.col("effective_100") < 100 * fraction


def completed(
    evaluations: pl.DataFrame, provisional: pl.DataFrame, registry: Registry
) -> pl.DataFrame:
    """Add ``quality_risk`` and ``provisional_100``: complete SESSION_EVALUATIONS.

    This is the one rule about provisional scores: they are a column of their own, and those of a
    session that has an effective score are left out. Means, comparisons, digests, alerts and
    reputation take ``effective_100``, which stays null until the session has ended.

    Args:
        evaluations: From :func:`evaluate`.
        provisional: PROVISIONAL of open sessions.
        registry: All profiles.
    """
    table = SESSION_EVALUATIONS
    counts = pl.col("effective_100").is_not_null()
    return (
        evaluations.join(provisional, on=SESSION_KEY, how="left", validate="1:1")
        .with_columns(
            quality_risk=is_risk(registry),
            provisional_100=pl.when(~counts).then("provisional_100"),
        )
        .select(table.schema.names())
        .cast(table.schema)
        .sort(table.order)
    )


def _best_cards(cards: pl.DataFrame) -> pl.DataFrame:
    return cards.filter(~pl.col("fallback")).select(
        *CONTENT_KEY,
        "profile_id",
        "profile_version",
        "card_id",
        "disqualified",
        card_confidence="confidence",
        card_judge_model="judge_model",
        card_judge_flags="judge_flags",
        scorecard_100=to_100("overall_score"),
    )


def _live(overrides: pl.DataFrame) -> pl.DataFrame:
    return newest_by_content(overrides).select(
        *CONTENT_KEY,
        "profile_id",
        override_id=pl.col("override_id").cast(pl.String),
        override_100=to_100("override_score"),
    )


def failed_at_start() -> pl.Expr:
    """Return whether a session failed before any tool call; calls that were denied do not count.

    The columns are those of ``agent_sessions``.
    """
    calls = pl.sum_horizontal(
        pl.col(column).fill_null(0) for column in ("tools_ok", "tools_failed", "tools_unknown")
    )
    return (pl.col("status") == "failed") & (calls == 0)


def _is_excluded() -> pl.Expr:
    return pl.col("excluded_by").is_not_null()


def _automatic_source() -> pl.Expr:
    return (
        pl.when(_is_excluded())
        .then(pl.lit("none"))
        .when(failed_at_start() & pl.col("is_terminal"))
        .then(pl.lit("status"))
        .when(pl.col("scorecard_100").is_not_null())
        .then(pl.lit("scorecard"))
        .when(pl.col("judge_total").is_not_null())
        .then(pl.lit("judge"))
        .when(~pl.col("is_terminal"))
        .then(pl.lit("none"))
        .when(pl.col("composite").is_not_null())
        .then(pl.lit("composite"))
        .when(pl.col("status") == "failed")
        .then(pl.lit("status"))
        .otherwise(pl.lit("none"))
    )


def _automatic_score() -> pl.Expr:
    source = pl.col("automatic_source")
    return (
        pl.when(source == "scorecard")
        .then("scorecard_100")
        .when(source == "judge")
        .then("judge_total")
        .when(source == "composite")
        .then(pl.col("composite") * 10)
        .when(source == "status")
        .then(0.0)
    )


def _judge_columns() -> Iterator[pl.Expr]:
    """Yield the judge behind the automatic score, from the card or the total that it comes from."""
    source = pl.col("automatic_source")
    for name in ("model", "flags"):
        of_card = pl.when(source == "scorecard").then(f"card_judge_{name}")
        yield of_card.when(source == "judge").then(f"judge_total_{name}").alias(f"judge_{name}")


def _effective(by_person: pl.Expr, automatic: str) -> pl.Expr:
    """Return what a person said, else what was computed."""
    is_overridden = pl.col("override_100").is_not_null() & ~_is_excluded()
    return pl.when(is_overridden).then(by_person).otherwise(automatic)


def _passed() -> pl.Expr:
    """A session without a result does not pass by what was measured of it."""
    has_result = ~pl.col("status").is_in(["failed", "cancelled"])
    is_decided = pl.col("effective_source") == "override"
    score = pl.col("effective_100")
    passes = (score >= PASSES_FROM) & (has_result | is_decided)
    return pl.when(score.is_not_null()).then(passes).alias("passed")


def _color() -> pl.Expr:
    score = pl.col("effective_100")
    return (
        pl.when(score >= GREEN_FROM)
        .then(pl.lit("green"))
        .when(score >= YELLOW_FROM)
        .then(pl.lit("yellow"))
        .when(score.is_not_null())
        .then(pl.lit("red"))
        .otherwise(pl.lit("not scored"))
        .alias("colour")
    )


def _confidence() -> pl.Expr:
    source = pl.col("effective_source")
    return (
        pl.when(source == "override")
        .then(1.0)
        .when(source == "scorecard")
        .then("card_confidence")
        .alias("confidence")
    )


def _reason() -> pl.Expr:
    return (
        pl.when(_is_excluded())
        .then(pl.format("left out by the rule {}", pl.col("excluded_by")))
        .when(failed_at_start(), pl.col("effective_source") == "status")
        .then(pl.lit(FAILED_AT_START))
        .when(pl.col("card_id").is_not_null(), pl.col("rank") > 0)
        .then(
            pl.format(
                "{} counts until {} scores it: {}",
                "profile_id",
                "first_id",
                pl.col("first_why").fill_null("it has no card"),
            )
        )
        .when(pl.col("card_id").is_not_null())
        .then(None)
        .when(~pl.col("is_terminal"))
        .then(pl.lit(NOT_ENDED))
        .when(pl.col("profile_id").is_null())
        .then(pl.lit(NO_PROFILE))
        .otherwise("why")
        .alias("reason")
    )


MODEL_FEEDBACK = "evaluation.model_feedback"
QUALITY_RISK = "evaluation.quality_risk"

_NAMESPACE = uuid.UUID("b6a1c5b2-3d0d-5b5e-8a43-0c7b9a5c2c7e")
_PAYLOAD = (
    "session_key",
    "session_id",
    "organization_id",
    "agent_id",
    "masque",
    "model",
    "provider",
    "classification_label",
    "task_class",
    "status",
    "effective_100",
    "effective_source",
    "confidence",
    "override_100",
    "scorecard_100",
    "judge_total",
    "composite",
    "disqualified",
    "profile_id",
    "profile_version",
    "card_id",
    "override_id",
    "content_hash",
)


def announcements(evaluations: pl.DataFrame) -> Iterator[Announcement]:
    """Yield a feedback event for every effective score, and a risk event for every low one.

    A session that no profile matches has no evaluation by a profile to report.

    Args:
        evaluations: SESSION_EVALUATIONS.
    """
    scored = evaluations.drop_nulls(["effective_100", "profile_id"])
    for row in scored.select("session_date", "quality_risk", *_PAYLOAD).iter_rows(named=True):
        yield _announcement(MODEL_FEEDBACK, row)
        if row["quality_risk"]:
            yield _announcement(QUALITY_RISK, row)


def labels_without_profile(evaluations: pl.DataFrame) -> dict[str, int]:
    """Return how many sessions no profile matches, by label."""
    unmatched = evaluations.filter(pl.col("profile_id").is_null())
    return dict(unmatched.group_by("classification_label").len().sort(pl.all()).iter_rows())


def event_id(kind: str, row: Mapping[str, Any]) -> str:
    """Return a UUID (version 5) of card, content and override: equal events have the same id.

    If there is no card, the source of the score takes its place.
    """
    parts = (
        kind,
        row["organization_id"],
        row["session_key"],
        row["card_id"] or row["effective_source"],
        row["content_hash"],
        row["override_id"] or "",
    )
    return str(uuid.uuid5(_NAMESPACE, "\0".join(parts)))


def _announcement(kind: str, row: Mapping[str, Any]) -> Announcement:
    payload = {"event": kind, **{name: row[name] for name in _PAYLOAD}}
    return Announcement(
        event_id=event_id(kind, row),
        kind=kind,
        session_date=row["session_date"],
        organization_id=row["organization_id"],
        session_key=row["session_key"],
        agent_id=row["agent_id"],
        effective_100=row["effective_100"],
        payload=msgspec.json.encode(payload, order="sorted").decode(),
    )


DIMENSIONS = ("quality", "autonomy", "productivity", "token_efficiency", "cost_efficiency")

CARD_COLUMNS = ("card_id", "scale_min", "scale_max", "criteria_scores", "disqualifier_triggered")
"""Columns of SCORECARDS that :func:`worst_criteria` needs."""

TAG_COLUMNS = (*CONTENT_KEY, "completed_at", "failure_tags")
"""Columns of JUDGE_SCORES that :func:`judge_tags` needs."""

_MOST_TAGS = 2
_MANY_FAILED = 0.25


def worst_criteria(cards: pl.DataFrame) -> pl.DataFrame:
    """Return ``card_id``, its lowest criterion, that score as 0-100, and the disqualifier.

    Args:
        cards: CARD_COLUMNS of SCORECARDS.
    """
    scores = cards.select("card_id", "scale_min", "scale_max", "criteria_scores")
    criteria = scores.explode("criteria_scores").unnest("criteria_scores")
    span = pl.col("scale_max") - pl.col("scale_min")
    lowest = (
        criteria.filter(pl.col("value").is_not_null(), span > 0)
        .with_columns(worst_100=100 * (pl.col("value") - pl.col("scale_min")) / span)
        .sort("card_id", "worst_100", "key")
        .unique("card_id", keep="first")
        .select("card_id", "worst_100", worst_criterion="key")
    )
    found = cards.select("card_id", "disqualifier_triggered")
    return found.join(lowest, on="card_id", how="left")


def judge_tags(scores: pl.DataFrame) -> pl.DataFrame:
    """Return CONTENT_KEY and ``judge_tags``: what the newest judgment found wrong, with commas.

    Args:
        scores: TAG_COLUMNS of JUDGE_SCORES.
    """
    tags = pl.col("failure_tags").list.head(_MOST_TAGS).list.join(", ").str.replace_all("_", " ")
    return (
        scores.filter(pl.col("failure_tags").list.len() > 0)
        .sort("completed_at", nulls_last=False)
        .unique(CONTENT_KEY, keep="last", maintain_order=True)
        .select(*CONTENT_KEY, judge_tags=tags)
    )


def needs_reason() -> pl.Expr:
    """Return whether :func:`why_low` says something: failed, or a red score, or none."""
    score = pl.col("effective_100")
    return (pl.col("status") == "failed") | (score < YELLOW_FROM) | score.is_null()


def why_low(row: Mapping[str, Any]) -> str | None:
    """Return why a session has a low score or none, or failed; ``None`` if nothing is so.

    Args:
        row: Stored columns of SESSIONS, and those of :func:`worst_criteria` and
            :func:`judge_tags`.
    """
    score = row["effective_100"]
    if row["status"] == "failed":
        by_person = _corrected(row) if row["effective_source"] == "override" else None
        return _joined(_failed(row), by_person, _failed_calls(row))
    if score is None:
        reason: str | None = row["state_reason"]
        return reason
    if score >= YELLOW_FROM:
        return None
    if row["effective_source"] == "override":
        return _corrected(row)
    if row["disqualified"]:
        return f"disqualified: {row['disqualifier_triggered'] or 'by an unknown rule'}"
    # What a judge found wrong explains no score that it has no part in.
    tags = row["judge_tags"] if row["automatic_judge_model"] is not None else None
    return _joined(_worst(row), tags, _failed_calls(row))


def _corrected(row: Mapping[str, Any]) -> str:
    """Return the human and the automatic score; the reason of the person is not for all."""
    human, before = f"human score {points(row['effective_100'])}", row["automatic_100"]
    return f"{human} (automatic: {'none' if before is None else points(before)})"


def _failed(row: Mapping[str, Any]) -> str:
    return f"failed{model_api_errors(row)}{_failure_effect(row)}"


def shown_recommendation() -> pl.Expr:
    """Return ``recommendation`` by the composite, or null where the score says otherwise.

    A session that failed, or has a score below 50, is not one to keep, whatever its counts.
    """
    is_low = (pl.col("effective_100") < PASSES_FROM).fill_null(value=False)
    is_wrong = (pl.col("status") == "failed") | (is_low & (pl.col("recommendation") == "keep"))
    return pl.when(~is_wrong).then("recommendation").alias("recommendation")


def model_api_errors(row: Mapping[str, Any]) -> str:
    """Return the model API errors of a session in parentheses, after a space; or nothing."""
    errors = row["api_errors"]
    return f" ({errors} model API error{'' if errors == 1 else 's'})" if errors else ""


def _failure_effect(row: Mapping[str, Any]) -> str:
    """Return what a failure does to a score that would look wrong without this; or nothing."""
    if row["effective_source"] == "status":
        return " without any tool result: score 0"
    if row["effective_source"] != "override" and (row["effective_100"] or 0) >= PASSES_FROM:
        return ": does not count as passed"
    return ""


def _worst(row: Mapping[str, Any]) -> str | None:
    if row["effective_source"] == "scorecard" and row["worst_criterion"] is not None:
        return f"{criterion_name(row['worst_criterion']).lower()} {row['worst_100']:.0f} of 100"
    if row["effective_source"] == "judge":
        return "judge score only"
    known = [(row[name], name) for name in DIMENSIONS if row[name] is not None]
    if not known:
        return None
    value, name = min(known)
    return f"{name.replace('_', ' ')} {value:.1f} of 10"


def _failed_calls(row: Mapping[str, Any]) -> str | None:
    failed, calls = row["tools_failed"], row["total_tools"]
    if not failed or failed < _MANY_FAILED * calls:
        return None
    return f"{failed} of {calls} calls failed"


def _joined(*parts: str | None) -> str | None:
    return " · ".join(part for part in parts if part) or None
