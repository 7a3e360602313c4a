"""Sessions as the backfill has them, up to yesterday, with what the pages show in addition.

They have texts, several models, agents, teams and labels; some have a score by a person.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl

from evaluation_pipelines.build import Build, DateBuilt
from evaluation_pipelines.reputation.updates import (
    bridge_sessions,
    export_agent_ratings,
    export_reputation,
    open_reputation,
)
from evaluation_pipelines.schemas import (
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    EVENT_TEXTS_LANDED,
    SESSION_EVALUATIONS,
)
from evaluation_pipelines.scorecards.store import NewOverride, OverrideStore
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.storage.stores import Stores, open_stores
from evaluation_pipelines.telemetry.domain.subagents import SessionStart
from evaluation_pipelines_tests.benchmarks.backfill_work import commit_parts, events_of
from evaluation_pipelines_tests.benchmarks.measure import BenchmarkError

RARE = "seldom asked"
"""Words in one prompt of each day."""

_OVERRIDES = 200
_OF_EVALUATION = (
    *("organization_id", "session_key", "session_date", "profile_id", "profile_version"),
    "content_hash",
)
_VARIED = {
    "model": 4,
    "agent_id": 12,
    "team_id": 6,
    "user_id": 150,
    "repository": 25,
    "classification_label": 3,
}
"""Column -> number of its values."""


def fill(folder: str, days: int, sessions: int) -> dict[str, object]:
    """Build sessions of some days up to yesterday; return the key of one of the newest day."""
    now = datetime.now(UTC)
    dates = [now.date() - timedelta(days=number) for number in range(days, 0, -1)]
    with open_stores(Settings(data_dir=Path(folder))) as stores:
        parts = [part for day in dates for part in _land(stores, day, sessions)]
        commit_parts(stores, parts, [start for day in dates for start in _starts(day, sessions)])
        results = Build(stores).run(dates)
        if failed := [result for result in results if not isinstance(result, DateBuilt)]:
            raise BenchmarkError(f"{failed[0].error}")
        _override(stores, dates)
        with open_reputation(stores.settings, now) as store:
            bridge_sessions(stores, store, dates, now)
            export_reputation(stores, store)
            export_agent_ratings(stores, store, now)
        newest = stores.lake.read(AGENT_SESSIONS, dates[-1:], ["session_key"])
        return {"sessions": days * sessions, "session": newest["session_key"][0]}


def _starts(day: date, sessions: int) -> Iterable[SessionStart]:
    morning = datetime(day.year, day.month, day.day, 8, tzinfo=UTC)
    return (
        SessionStart("default", f"s-{day}-{number}", day, morning) for number in range(sessions)
    )


def _land(stores: Stores, day: date, sessions: int) -> Iterable[NewPart]:
    events = events_of(day, sessions)
    number = pl.col("session_id").str.split("-").list.last().cast(pl.Int64)
    is_prompt = pl.col("event_name") == "user_prompt"
    varied = events.with_columns(
        pl.when(pl.col("model").is_not_null() if name == "model" else pl.lit(value=True))
        .then(pl.format(f"{name.removesuffix('_id')}-{{}}", number % values))
        .alias(name)
        for name, values in _VARIED.items()
    ).with_columns(has_content=is_prompt)
    said = pl.format("{} the plan of part {}, then build it.", pl.lit("Read"), number)
    rare = pl.format("{} {}", pl.lit(RARE), number)
    texts = varied.filter(is_prompt).with_columns(
        content=pl.when(number == sessions // 2).then(rare).otherwise(said)
    )
    missing = {name: pl.lit(None, pl.String) for name in ("tool_parameters", "error", "attributes")}
    texts = texts.with_columns(**missing).select(EVENT_TEXTS_LANDED.schema.names())
    yield stores.lake.write_part(varied, AGENT_EVENTS_LANDED, day, "landed")
    yield stores.lake.write_part(texts, EVENT_TEXTS_LANDED, day, "landed")


def _override(stores: Stores, dates: list[date]) -> None:
    """Let people score some sessions of the newest days."""
    rows = stores.lake.read(SESSION_EVALUATIONS, dates[-7:]).filter(
        pl.col("profile_id").is_not_null()
    )
    new = [
        NewOverride(
            **{name: row[name] for name in _OF_EVALUATION},
            override_score=40.0,
            scale_min=0.0,
            scale_max=100.0,
            automatic_score=row["effective_100"],
            is_confirmation=False,
            source="cli",
            annotator="Ann Lee",
            reason="The plan was not found.",
        )
        for row in rows.head(_OVERRIDES).iter_rows(named=True)
    ]
    OverrideStore(stores.ledger).add(new, datetime.now(UTC))
