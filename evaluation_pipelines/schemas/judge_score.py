"""A judge score: its one declaration, from which table, lake and answers are derived.

The ledger has one row of ``Score`` for each judgment, ``judge_scores`` in the lake has its public
fields and three that are computed, and the service answers with these. A new field is declared
here, and needs a migration.

Tables of missing tools are derived as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_type_hints

import polars as pl

from evaluation_pipelines.schemas.table import UTC_TIME, Table, columns, estimate

ScoreStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]

OPEN: tuple[ScoreStatus, ...] = ("pending", "in_progress")
"""States of a judgment in progress; a session has at most one per profile and model."""

TERMINAL: tuple[ScoreStatus, ...] = ("completed", "failed")
"""Final states."""

NOT_SCORED, SCORING = "Not scored", "Scoring"
"""Values of ``judge_badge`` for programs. People read ``shown_badge``."""


def shown_badge(badge: str) -> str:
    """Return a value of ``judge_badge`` in the words of the glossary."""
    return {NOT_SCORED: "Not judged", SCORING: "Being judged"}.get(badge, badge)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a field is, with its unit, and what its name and type do not tell.

    Attributes:
        text: What it is.
        kind: ``text`` may be long, a ``hash`` has 64 characters, a ``count`` may exceed 31 bits, a
            ``flag`` marks a score as doubtful when it is true.
        lake: Type in the lake, where another one than that of Python is wanted.
        is_in_lake: Whether ``judge_scores`` has it.
        is_public: Whether answers have it.
    """

    text: str
    kind: Literal["text", "hash", "count", "flag", ""] = ""
    lake: pl.DataType | None = None
    is_in_lake: bool = True
    is_public: bool = True


def _ledger_only(text: str) -> Meaning:
    return Meaning(text, is_in_lake=False)


def _internal(text: str) -> Meaning:
    return Meaning(text, is_in_lake=False, is_public=False)


@dataclass(frozen=True, slots=True)
class LoggedTurn:
    """A reply of the judge, stored as soon as it arrives.

    ``cost_usd`` and the token counts are ``None`` if the endpoint or the price table does not
    provide them. ``latency_ms`` is ``None`` for a reply in a batch. ``input_tokens`` excludes
    tokens read from the cache. ``at_us`` is the time of arrival in microseconds since 1970.
    ``is_usage_estimated`` says that the reported counts were impossible and replaced.
    """

    turn: str
    text: str
    finish_reason: str
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float | None
    attempts: int
    at_us: int
    is_usage_estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A judgment of one content of one session window.

    Times are in microseconds since 1970, money is in US dollars, unknown values are ``None``.
    """

    score_id: Annotated[str, Meaning("id of the judgment")]
    organization_id: Annotated[str, Meaning("organization")]
    session_key: Annotated[
        str, Meaning("session.id#slug-n: slug of masque or baseline, and a count")
    ]
    session_id: Annotated[str, Meaning("session.id as sent by the agent")]
    content_hash: Annotated[str, Meaning("scored content")]
    agent_id: Annotated[str | None, Meaning("agent.id, else the masque, else service.name")] = None
    agent_model: Annotated[str | None, Meaning("model of the agent. The judge is never told")] = (
        None
    )
    session_date: Annotated[date, Meaning("UTC day the session started: the partition")]
    judge_profile_id: Annotated[str, Meaning("judge profile")]
    judge_profile_version: Annotated[int, Meaning("version of the judge profile")]
    judge_model: Annotated[str, Meaning("model that judged")]
    rubric: Annotated[str, Meaning("name of the rubric")]
    prompt_hash: Annotated[str, Meaning("SHA-256 of the rubric: templates and criteria", "hash")]
    samples: Annotated[int, _ledger_only("how many times the score turn is asked")]
    status: Annotated[ScoreStatus, Meaning("pending, in_progress, completed or failed")]
    total_score: Annotated[
        int | None, Meaning("0-100, null until completed", lake=pl.Float64())
    ] = None
    criteria_scores: Annotated[
        Mapping[str, int | None] | None,
        Meaning("JSON: criterion -> points, null if the judge gave none"),
    ] = None
    failure_tags: Annotated[
        Sequence[str] | None,
        Meaning("faults that the judge found, null when not given", lake=pl.List(pl.String)),
    ] = None
    sample_totals: Annotated[Sequence[int] | None, Meaning("JSON: totals of all samples")] = None
    sample_errors: Annotated[
        Sequence[str] | None, _ledger_only("why other samples gave no total")
    ] = None
    score_spread: Annotated[
        float | None, Meaning("standard deviation of the samples, null for one")
    ] = None
    score_analysis: Annotated[
        str | None, Meaning("the judge's words about the way of working", "text")
    ] = None
    missing_tools_analysis: Annotated[
        str | None, Meaning("tools that should have been used, whole", "text")
    ] = None
    missing_tools_error: Annotated[
        str | None, Meaning("why there is no answer about missing tools", "text")
    ] = None
    inconsistent_total: Annotated[
        bool | None, Meaning("total and criteria differ by more than 5", "flag")
    ] = None
    outcome: Annotated[
        str | None,
        Meaning("right, partly right, wrong or unknown. Null if the rubric does not ask for it"),
    ] = None
    outside_ceiling: Annotated[
        bool | None,
        Meaning("the outcome does not allow the judge's total, the nearest one counts", "flag"),
    ] = None
    injection_suspected: Annotated[
        bool | None, Meaning("text of the session addresses the judge", "flag")
    ] = None
    truncated: Annotated[bool | None, Meaning("parts of the session were cut to fit", "flag")] = (
        None
    )
    incomplete_criteria: Annotated[
        bool | None, Meaning("the judge gave no points for a criterion", "flag")
    ] = None
    short_analysis: Annotated[
        bool | None, Meaning("the analysis has fewer than 200 words", "flag")
    ] = None
    numbers_from_reminder: Annotated[
        bool | None,
        Meaning("numbers come from the answer to a reminder, the text from the first", "flag"),
    ] = None
    estimated_usage: Annotated[
        bool | None,
        Meaning("the endpoint reported impossible token counts. They are estimated", "flag"),
    ] = None
    content_level: Annotated[
        str | None, Meaning("full, prompts or none: how much text was logged")
    ] = None
    redactions: Annotated[
        Mapping[str, int] | None, Meaning("JSON: kind of secret -> how often it was taken out")
    ] = None
    score_triggered_by: Annotated[str, Meaning("a person, 'schedule', 'sensor' or a run id")]
    requested_by: Annotated[
        str | None, _ledger_only("who asked for this session, null for a run")
    ] = None
    scored_at_us: Annotated[int, Meaning("when it was asked for")]
    started_at_us: Annotated[int | None, Meaning("when work on it started")] = None
    completed_at_us: Annotated[int | None, Meaning("when it was completed or failed")] = None
    attempt: Annotated[int, Meaning("which attempt at this content, from 1")]
    retriable: Annotated[bool | None, Meaning("whether another attempt may help, when failed")] = (
        None
    )
    error_message: Annotated[str | None, Meaning("why it failed", "text")] = None
    input_tokens: Annotated[
        int | None, Meaning("tokens sent, cached ones left out, null when unknown", "count")
    ] = None
    cached_tokens: Annotated[
        int | None, Meaning("tokens sent that the provider had in its cache", "count")
    ] = None
    output_tokens: Annotated[int | None, Meaning("tokens of all replies", "count")] = None
    judge_cost_usd: Annotated[float | None, Meaning("price of all replies, null when unknown")] = (
        None
    )
    latency_ms: Annotated[
        float | None, Meaning("time spent waiting for replies, null if one was in a batch")
    ] = None
    turn_log: Annotated[tuple[LoggedTurn, ...], _internal("every reply as soon as it arrived")] = ()
    booked_cost_usd: Annotated[
        float | None,
        _internal("counted against the budget: replies, and calls without one or in flight"),
    ] = None
    reserved_cost_usd: Annotated[
        float | None, _internal("added to it: requests of a batch that may not exist yet")
    ] = None
    booked_at_us: Annotated[int | None, _internal("when booked or reserved cost changed last")] = (
        None
    )
    crashes: Annotated[int, _internal("how often a process died while it worked on it")] = 0
    batch_id: Annotated[str | None, _internal("batch in which its requests are out")] = None
    endpoint: Annotated[str | None, _internal("address of the judge that a person asked for")] = (
        None
    )
    waits: Annotated[int, _internal("how often a request could not be finished")] = 0
    next_try_at_us: Annotated[
        int | None, _internal("when a request is tried again, null at once")
    ] = None

    @property
    def is_open(self) -> bool:
        """True if the judgment has not ended."""
        return self.status in OPEN

    @property
    def is_request(self) -> bool:
        """True if a person waits for the judgment; a run's own ones stay due."""
        return self.requested_by is not None

    @property
    def is_left(self) -> bool:
        """True if a run that has ended left the judgment unfinished, and no person waits for it."""
        return self.status == "pending" and not self.is_request

    @property
    def failed_reply(self) -> str | None:
        """Last reply with text of a failed judgment, as the judge wrote it; it is not trusted."""
        texts = [turn.text for turn in self.turn_log if turn.text.strip()]
        return texts[-1] if self.status == "failed" and texts else None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of ``Score`` as declared; ``type_`` leaves out that it may be ``None``."""

    name: str
    type_: Any
    is_nullable: bool
    meaning: Meaning


def _field(name: str, hint: Any) -> Field:
    declared, meaning = get_args(hint)
    members = get_args(declared) if isinstance(declared, UnionType) else (declared,)
    (type_,) = (member for member in members if member is not NoneType)
    return Field(name, type_, NoneType in members, meaning)


FIELDS = {
    name: _field(name, hint) for name, hint in get_type_hints(Score, include_extras=True).items()
}
"""Every field of ``Score``, in the order of the lake's columns."""

SCORE_FLAGS = {
    name: field.meaning.text for name, field in FIELDS.items() if field.meaning.kind == "flag"
}
"""Fields that mark a score as doubtful when true, and their meaning."""

_COMPUTED = {
    "content_hash": ("is_current", "the session has that content still, null without a session"),
    "prompt_hash": ("current_prompt_used", "made by the rubric that would judge the session now"),
    "error_message": ("failed_reply", "last reply of a failed judgment, not trusted"),
}
"""Columns of the lake that the ledger does not have, by the field that they follow."""

_LAKE = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean, date: pl.Date}


def lake_columns() -> Iterator[tuple[str, Any, str]]:
    """Yield name, type and meaning of the columns of ``judge_scores``.

    Times in microseconds are times there. Mappings, and lists without a type, are JSON.
    """
    for name, field in FIELDS.items():
        if field.meaning.is_in_lake:
            is_time = name.endswith("_us")
            type_ = UTC_TIME if is_time else _LAKE.get(field.type_, pl.String)
            yield name.removesuffix("_us"), field.meaning.lake or type_, field.meaning.text
        if name in _COMPUTED:
            computed, meaning = _COMPUTED[name]
            yield computed, pl.String if name == "error_message" else pl.Boolean, meaning


def reader_record(score: Score, current_prompt_hash: str | None) -> dict[str, Any]:
    """Return the public fields of a score, ``failed_reply`` and ``current_prompt_used``.

    ``current_prompt_used`` says whether the rubric that would judge the session now made the score.

    Args:
        score: The row.
        current_prompt_hash: Hash of the rubric that would judge the session now; ``None`` if there
            is none.
    """
    public = {
        name: getattr(score, name) for name, field in FIELDS.items() if field.meaning.is_public
    }
    return public | {
        "failed_reply": score.failed_reply,
        "current_prompt_used": score.prompt_hash == current_prompt_hash,
    }


JUDGE_SCORES = Table(
    has_texts=True,
    name="judge_scores",
    grain="one row per judgment of a session window, as the ledger has it",
    key=("score_id",),
    order=("organization_id", "session_key", "scored_at", "score_id"),
    columns=columns(*lake_columns()),
)

TOOL_EXAMPLES = pl.List(pl.Struct({"session_key": pl.String, "rationale": pl.String}))

MISSING_TOOLS = Table(
    has_texts=True,
    name="missing_tools",
    grain="one row per tool that judges named as missing, and period of 28 days",
    key=("organization_id", "period_start", "tool"),
    columns=columns(
        ("organization_id", pl.String, "organization"),
        ("period_start", pl.Date, "first UTC day of sessions"),
        ("period_end", pl.Date, "UTC day after the last one"),
        ("tool", pl.String, "name as the judges write it, normalized by the rule of docs/judging"),
        ("sessions", pl.Int64, "session windows with it in their latest answers"),
        ("asked_sessions", pl.Int64, "session windows with a readable answer, any tool"),
        ("mentions", pl.Int64, "how often it is named in these answers"),
        ("agent_models", pl.List(pl.String), "models of the agents that lacked it, sorted"),
        ("judge_models", pl.List(pl.String), "models that named it, sorted"),
        ("masques", pl.List(pl.String), "personas that lacked it, sorted. Baseline for none"),
        ("examples", TOOL_EXAMPLES, "up to 3 sessions, latest first, with the rationale cut"),
        ("first_date", pl.Date, "session date on which it was first missed in the period"),
        ("last_date", pl.Date, "session date on which it was last missed"),
    ),
)

JUDGE_CHANGES = Table(
    name="judge_changes",
    grain="one row per change of the judge of a profile: its model, rubric or profile version",
    key=("change_id", "changed_on"),
    order=("judge_profile_id", "changed_on", "change_id"),
    columns=columns(
        ("change_id", pl.String, "hash of both judges. `judge changes --anchors` takes it"),
        ("judge_profile_id", pl.String, "judge profile"),
        ("changed_on", pl.Date, "first session date of the new judge, null: none scored yet"),
        ("former_profile_version", pl.Int64, "profile version of the previous judge"),
        ("former_model", pl.String, "its model"),
        ("former_rubric", pl.String, "its rubric"),
        ("former_prompt_hash", pl.String, "wording of its rubric"),
        ("new_profile_version", pl.Int64, "profile version of the new judge"),
        ("new_model", pl.String, "its model"),
        ("new_rubric", pl.String, "its rubric"),
        ("new_prompt_hash", pl.String, "wording of its rubric"),
        ("state", pl.String, "measured, incomplete, not drawn, or impossible"),
        ("trend", pl.String, "bridged: scores before may be shifted by judges_part, or cut"),
        ("reason", pl.String, "why the trend is cut, null if it is bridged"),
        ("anchors", pl.Int64, "sessions that both judges score, or are to score"),
        ("anchors_scored", pl.Int64, "anchors that both have scored"),
        ("anchors_replaced", pl.Int64, "drawn sessions that others had to replace"),
        ("frame_sessions", pl.Int64, "sessions that the anchors were drawn from"),
        ("people", pl.Int64, "people of the anchors, unknown ones left out"),
        ("clustered_by", pl.String, "person, or session and day if people are unknown"),
        *estimate("judges_part", "new minus previous judge on the same sessions, in points"),
        ("half_width", pl.Float64, "half of that interval: above 2 wide, above 4 the trend is cut"),
        ("former_anchor_score", pl.Float64, "mean score of the anchors by the previous judge"),
        ("new_anchor_score", pl.Float64, "mean score of the anchors by the new judge"),
        ("before_score", pl.Float64, "mean score by the previous judge, up to 28 days before"),
        ("before_sessions", pl.Int64, "sessions in it"),
        ("after_score", pl.Float64, "mean score by the new judge, up to 28 days after"),
        ("after_sessions", pl.Int64, "sessions in it"),
        ("shift", pl.Float64, "after_score - before_score"),
        *estimate("agents_part", "shift - judges_part: the change of the agents"),
        ("cost_usd", pl.Float64, "cost to judge the anchors, null if a price is unknown"),
        ("drawn_at", UTC_TIME, "when the anchors were drawn"),
        ("computed_at", UTC_TIME, "when this row was made"),
    ),
)

JUDGE_ANCHORS = Table(
    name="judge_anchors",
    grain="one row per session drawn to be scored by both judges of a change",
    key=("change_id", "organization_id", "session_key"),
    order=("change_id", "classification_label", "agent_model", "place"),
    columns=columns(
        ("change_id", pl.String, "the change"),
        ("organization_id", pl.String, "organization"),
        ("session_key", pl.String, "the session window"),
        ("session_date", pl.Date, "UTC day the session started"),
        ("classification_label", pl.String, "label: part of the stratum"),
        ("agent_model", pl.String, "model of the agent: part of the stratum"),
        ("stratum_sessions", pl.Int64, "sessions of the stratum to draw from"),
        ("stratum_anchors", pl.Int64, "anchors drawn from them"),
        ("probability", pl.Float64, "probability of being drawn: the quotient of both"),
        ("place", pl.Int64, "place in the random order of the stratum, from 0"),
        ("former_score", pl.Float64, "mean of the previous judge's samples, null until scored"),
        ("new_score", pl.Float64, "mean of the new judge's samples, null until scored"),
        ("difference", pl.Float64, "new_score - former_score"),
        ("replaced_because", pl.String, "why another session took its place, null if it counts"),
    ),
)
