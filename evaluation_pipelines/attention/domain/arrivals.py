"""Telemetry of each agent program: how much arrives, what is missing, odd costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from evaluation_pipelines.formatting import pluralize
from evaluation_pipelines.telemetry.domain.dialects.registry import LIBRARIES, PROGRAMS
from evaluation_pipelines.telemetry.domain.spans import IS_TRANSCRIPT
from evaluation_pipelines.telemetry.domain.subagents import TRACE

DAYS = 7
"""Days that are looked at."""

EVENT_COLUMNS = (
    *("source_cli", "event_name", "event_time", "has_content", "has_parameters", "model"),
    *("cost_source", "list_price_usd", "input_tokens", "agent_id", "span_scope"),
    *("source_event_name", "session_id"),
)
SESSION_COLUMNS = (
    *("source_cli", "person_id", "user_id", "user_email", "repository", "team"),
    *("session_id", "agent_id"),
)

_RARE = 0.05
"""Share of the events up to which something counts as missing: a switch is off."""

_RARE_OF_SESSIONS = 0.5
"""The same of sessions: who sends an attribute for some of them does not for the others."""

_MOST_MODELS = 5
"""Number of models without a price to name. More are only counted."""

_ROWS, _NEWEST, _TRANSCRIPTS = "rows", "event_time", "transcripts"

_TRANSCRIPT_TEXTS = "EVAL_TRANSCRIPT_TEXTS=true, for lines read after that"
_PROMPTS, _PARAMETERS = (
    {
        program.logs.source_cli: switch
        for program in PROGRAMS
        if program.logs is not None and (switch := getattr(program, name)) is not None
    }
    for name in ("prompts_switch", "parameters_switch")
)

_SESSION_LINES = {
    scope: library.session or f"nothing: each run of {library.title} is a session"
    for library in LIBRARIES.values()
    for scope in library.scopes
}
"""Scope of spans -> line of code that gives them a session id."""


@dataclass(frozen=True, slots=True)
class Gap:
    """What a program does not send, the figures that lack it, and what switches it on.

    ``lack`` says how much of it is missing.
    """

    what: str
    figures: str
    switch: str
    lack: str = "not sent"

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.what} {self.lack} (affects {self.figures})"


@dataclass(frozen=True, slots=True)
class Arrival:
    """Telemetry of one agent program in the last days.

    Attributes:
        program: Its name, one of SOURCE_CLIS.
        last_event: Time of the newest event.
        events_per_day: Mean over the days.
        gaps: What is missing.
    """

    program: str
    last_event: datetime
    events_per_day: float
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class _Rule:
    """What is there if an expression is true of more than a few rows."""

    what: str
    figures: str
    is_there: pl.Expr
    switches: dict[str, str]
    otherwise: str | None
    event: str | None = None


_OF_EVENTS = (
    _Rule(
        "prompt text",
        "judge scores, transcripts, reviews",
        pl.col("has_content"),
        _PROMPTS,
        None,
        "user_prompt",
    ),
    _Rule(
        "tool call parameters",
        "repeats, loops and corrections in tool reports",
        pl.col("has_parameters"),
        _PARAMETERS,
        None,
        "tool_result",
    ),
    _Rule(
        "model",
        "model comparison",
        pl.col("model").is_not_null(),
        {},
        "the model's name (attribute gen_ai.request.model)",
        "api_request",
    ),
    _Rule(
        "tokens",
        "token efficiency, cost",
        pl.col("input_tokens").is_not_null(),
        {},
        "a newer version of the program",
        "api_request",
    ),
)
_OF_SESSIONS = (
    _Rule(
        "person",
        "people, confidence of comparisons",
        pl.any_horizontal(pl.col("user_id", "user_email").is_not_null()),
        {},
        "a user id or email (resource attribute enduser.id or user.email, see docs/people.md), or "
        "the account id in the identities file",
    ),
    _Rule(
        "repository",
        "filters and comparisons by repository",
        pl.col("repository").is_not_null(),
        {},
        "its name (resource attribute vcs.repository.name)",
    ),
    _Rule(
        "team",
        "results by team",
        pl.col("team").is_not_null(),
        {},
        "its name (resource attribute team.id), or teams in the identities file",
    ),
)


def arrivals(events: pl.DataFrame, sessions: pl.DataFrame) -> list[Arrival]:
    """Return the telemetry of each program, by name.

    Args:
        events: EVENT_COLUMNS of the last DAYS.
        sessions: SESSION_COLUMNS of these days.
    """
    also = pl.max(_NEWEST), IS_TRANSCRIPT.sum().alias(_TRANSCRIPTS)
    of_events = _counted(events, _OF_EVENTS, ["source_cli", "event_name"], *also)
    of_sessions = _counted(sessions, _OF_SESSIONS, ["source_cli"])
    scopes = events.select("agent_id", pl.col("span_scope").alias("scope")).drop_nulls().unique()
    found = []
    for program in of_events["source_cli"].drop_nulls().unique().sort():
        counts, sessions_of = (
            frame.filter(source_cli=program) for frame in (of_events, of_sessions)
        )
        is_local = int(counts[_TRANSCRIPTS].sum()) == int(counts[_ROWS].sum())
        rules = () if is_local else _OF_SESSIONS  # transcripts have no attributes to set
        gaps = (
            *_gaps(_OF_EVENTS, program, counts, _RARE),
            *_gaps(rules, program, sessions_of, _RARE_OF_SESSIONS),
            *_without_price(events.filter(source_cli=program)),
            *_without_session(sessions.filter(source_cli=program), scopes),
        )
        (newest,) = counts.select(pl.max(_NEWEST)).to_series()
        found.append(Arrival(program, newest, int(counts[_ROWS].sum()) / DAYS, gaps))
    return found


def _without_price(events: pl.DataFrame) -> list[Gap]:
    """Return gaps for the models whose requests have tokens, and hardly any a cost or price.

    The models of most sessions are first.
    """
    is_reported = pl.col("cost_source").eq_missing("reported")
    is_known = is_reported | pl.col("list_price_usd").is_not_null()
    requests = events.filter(event_name="api_request").drop_nulls(["input_tokens", "model"])
    of_models = requests.group_by("model").agg(
        share=is_known.mean(), sessions=pl.col("session_id").filter(~is_known).n_unique()
    )
    lacking = of_models.filter(pl.col("share") <= _RARE).sort(
        "sessions", "model", descending=[True, False]
    )
    lacks = [
        (model, f"unknown: {pluralize(number, 'session lacks', 'sessions lack')} costs")
        for model, _, number in lacking.head(_MOST_MODELS).iter_rows()
    ]
    if more := lacking.height - len(lacks):
        lacks.append((pluralize(more, "more model"), "unknown"))
    switch = "its price in data/prices.yaml (EVAL_PRICES_PATH), for telemetry read after that"
    return [
        Gap(f"price of {model}", "cost efficiency, points per dollar", switch, lack)
        for model, lack in lacks
    ]


def _without_session(sessions: pl.DataFrame, scopes: pl.DataFrame) -> list[Gap]:
    """Return a gap for each agent with traces that name no session: each is one of its own."""
    is_trace = pl.col("session_id").str.starts_with(TRACE)
    agents = sessions.group_by("agent_id").agg(pl.len().alias(_ROWS), traces=is_trace.sum())
    gaps = []
    for agent, number, traces in agents.sort("agent_id").iter_rows():
        if traces <= _RARE * number:
            continue
        of_agent = scopes.filter(agent_id=agent)["scope"].sort()
        lines = " or ".join(_SESSION_LINES[scope] for scope in of_agent if scope in _SESSION_LINES)
        switch = lines or "attribute gen_ai.conversation.id on its outermost span"
        lack = f"missing in {traces:,} of {number:,} sessions"
        gaps.append(Gap(f"session id of {agent}", "sessions with several prompts", switch, lack))
    return gaps


def _counted(
    rows: pl.DataFrame, rules: Sequence[_Rule], group: list[str], *also: pl.Expr
) -> pl.DataFrame:
    """Return the number of rows of each group, and of those of which each rule is true."""
    there = {rule.what: rule.is_there.fill_null(value=False) for rule in rules}
    return (
        rows.lazy()
        .with_columns(**there)  # before the groups, which takes half of the time
        .group_by(group)
        .agg(pl.len().alias(_ROWS), pl.col(list(there)).sum(), *also)
        .collect()
    )


def _gaps(rules: Sequence[_Rule], program: str, counts: pl.DataFrame, rare: float) -> list[Gap]:
    gaps = []
    for rule in rules:
        chosen = counts if rule.event is None else counts.filter(event_name=rule.event)
        number, there = int(chosen[_ROWS].sum()), int(chosen[rule.what].sum())
        switch = _switch(rule, program, chosen)
        if number == 0 or switch is None:  # nothing to measure, or nothing to be done
            continue
        if there <= rare * number:
            of_which = "sessions" if rule.event is None else f"events {rule.event}"
            some = f"missing in {number - there:,} of {number:,} {of_which}"
            gaps.append(Gap(rule.what, rule.figures, switch, *([some] if there else [])))
    return gaps


def _switch(rule: _Rule, program: str, counts: pl.DataFrame) -> str | None:
    """Return the setting that switches it on, for transcripts one of this program."""
    switch = rule.switches.get(program, rule.otherwise)
    if rule.otherwise is not None or not (of_transcripts := counts[_TRANSCRIPTS].sum()):
        return switch
    if switch is None or of_transcripts == counts[_ROWS].sum():
        return _TRANSCRIPT_TEXTS
    return f"{switch}, of transcripts {_TRANSCRIPT_TEXTS}"


COST_COLUMNS = (
    *("source_cli", "organization_id", "session_id"),
    *("cost_source", "cost_usd", "list_price_usd"),
)

IS_CHECKED = (pl.col("cost_source") == "reported") & pl.col("list_price_usd").is_not_null()
"""Whether a request has both a reported cost and a list price."""

_TOLERANCE = 0.1
"""Share of the list price by which a cost may differ."""

_ROUNDING_USD = 1e-9


@dataclass(frozen=True, slots=True)
class CostCheck:
    """Number of sessions with both costs, and of those whose costs differ by more than a tenth."""

    sessions: int = 0
    off: int = 0


def cost_checks(requests: pl.DataFrame) -> dict[str, CostCheck]:
    """Return the check of each agent program.

    Args:
        requests: COST_COLUMNS of events that are IS_CHECKED.
    """
    cost, price = pl.col("cost_usd").sum(), pl.col("list_price_usd").sum()
    found = (
        requests.drop_nulls("source_cli")
        .group_by("source_cli", "organization_id", "session_id")
        .agg(is_off=(cost - price).abs() > _TOLERANCE * price + _ROUNDING_USD)
        .group_by("source_cli")
        .agg(sessions=pl.len(), off=pl.col("is_off").sum())
    )
    return {program: CostCheck(number, off) for program, number, off in found.iter_rows()}
