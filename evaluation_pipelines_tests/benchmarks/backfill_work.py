"""What the backfill is measured on, and the ways to do it."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import polars as pl

from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import (
    AGENT_EVENTS_LANDED,
    EVENT_TEXTS_LANDED,
    SCORECARDS,
    SESSION_EVALUATIONS,
)
from evaluation_pipelines.scorecards.domain.criteria import JUDGE_RESULTS, TRIGGERED, evidence
from evaluation_pipelines.scorecards.domain.scorecard import score_cards
from evaluation_pipelines.scorecards.scorecard_tables import tool_effectiveness
from evaluation_pipelines.sessions.domain.performance import score_sessions
from evaluation_pipelines.sessions.session_queries import query_events, query_sessions
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.lock import INGEST, held
from evaluation_pipelines.storage.parts import BUCKET, NewPart, buckets_of
from evaluation_pipelines.storage.stores import Stores, open_stores
from evaluation_pipelines.telemetry.domain.shapes import IngestCounts
from evaluation_pipelines.telemetry.domain.subagents import SessionStart
from evaluation_pipelines.telemetry.ledger.ingest_batches import (
    IngestBatch,
    IngestBatches,
    SourceFile,
    SourceFiles,
)
from evaluation_pipelines_tests.benchmarks.telemetry_file import END
from evaluation_pipelines_tests.world.lake_files import root_of

EVENTS = 100
"""Of a session, unless another number is asked for: 4 prompts, 48 tool calls, 48 requests."""

_FILE = "file-1"

Event = Mapping[str, Any]


def land(
    folder: str, days: int, sessions: int, events: int = EVENTS, parameters: str | None = None
) -> dict[str, int]:
    """Landed events of some dates, named by the ledger, as after an ingest.

    Args:
        folder: The data folder.
        days: Dates, up to the last one.
        sessions: Of each date.
        events: Of each session.
        parameters: Those of the tool calls, all different: ``unlike`` each other, or ``alike``.
    """
    with open_stores(_settings(folder)) as stores:
        parts = []
        for number in range(days):
            day = END - timedelta(days=days - number)
            rows = events_of(day, sessions, events)
            parts.append(stores.lake.write_part(rows, AGENT_EVENTS_LANDED, day, "landed"))
            if parameters:
                texts = _texts_of(rows, parameters)
                parts.append(stores.lake.write_part(texts, EVENT_TEXTS_LANDED, day, "landed"))
        commit_parts(stores, parts)
    return {"events": days * sessions * events}


def made(folder: str, first: str, last: str) -> dict[str, float]:
    """What a run has come to, read from the lake."""
    with open_stores(_settings(folder)) as stores:
        dates = _dates(first, last)
        evaluations = stores.lake.read(SESSION_EVALUATIONS, dates)
        return {
            "cards": stores.lake.read(SCORECARDS, dates).height,
            "effective": round(float(evaluations["effective_100"].sum()) / 1000, 3),
        }


def loop(folder: str, first: str, last: str) -> dict[str, float]:
    """The same scores, session by session in plain Python, written a file a date."""
    cards, effective = 0, 0.0
    with open_stores(_settings(folder)) as stores:
        for day in _dates(first, last):
            (part,) = Manifest(stores.ledger).current(AGENT_EVENTS_LANDED.name, day)
            rows = [
                _scored(key, events)
                for key, events in _by_session(root_of(stores.lake) / part.path).items()
            ]
            cards += 2 * len(rows)
            effective += sum(row["effective_100"] for row in rows)
            target = Path(folder) / "loop" / f"{day}.json"
            target.parent.mkdir(exist_ok=True)
            target.write_text(json.dumps(rows))
    return {"cards": cards, "effective": round(effective / 1000, 3)}


def one_by_one(folder: str, day: str, sessions: int) -> dict[str, float]:
    """The program's own steps, called for one session at a time."""
    effective = 0.0
    with open_stores(_settings(folder)) as stores:
        (part,) = Manifest(stores.ledger).current(AGENT_EVENTS_LANDED.name, date.fromisoformat(day))
        profile = ProfileStore(stores.ledger).registry().find("efficiency-simple").profile
        landed = pl.scan_parquet(root_of(stores.lake) / part.path)
        for number in range(sessions):
            mine = landed.filter(session_id=f"s-{day}-{number}").collect()
            windows = query_sessions(query_events(mine), stores.settings)
            tools = tool_effectiveness(stores, [date.fromisoformat(day)])
            seen = evidence(windows, score_sessions(windows), tools)
            best = seen.with_columns(is_best_match=pl.lit(value=True))
            made = score_cards(profile, best, JUDGE_RESULTS.to_frame(), TRIGGERED.to_frame())
            effective += float(made.cards["overall_score"].sum())
        stored = stores.lake.read(SESSION_EVALUATIONS, [date.fromisoformat(day)]).filter(
            pl.col("session_id").is_in([f"s-{day}-{number}" for number in range(sessions)])
        )
        assert abs(effective - float(stored["effective_100"].sum())) < 1e-6
    return {"effective": round(effective, 3)}


def _by_session(path: Path) -> dict[tuple[str, str], list[Event]]:
    columns = (
        "event_id organization_id session_id event_name event_time success model input_tokens "
        "output_tokens cache_read_tokens cache_creation_tokens cost_usd tool_class duration_ms"
    ).split()
    seen: set[bytes] = set()
    sessions: defaultdict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in pl.read_parquet(path, columns=columns).iter_rows(named=True):
        if event["event_id"] not in seen:
            seen.add(event["event_id"])
            sessions[event["organization_id"], event["session_id"]].append(event)
    return sessions


def _scored(key: tuple[str, str], unsorted: Iterable[Event]) -> dict[str, Any]:
    events = sorted(unsorted, key=itemgetter("event_time"))
    prompts = ok = total = tokens_in = tokens_out = cached = 0
    cost = active_s = 0.0
    before = events[0]["event_time"]
    for event in events:
        active_s += min((event["event_time"] - before).total_seconds(), 1800)
        before = event["event_time"]
        if event["event_name"] == "user_prompt":
            prompts += 1
        elif event["event_name"] == "tool_result":
            total += 1
            ok += event["success"]
        else:
            cached += event["cache_read_tokens"]
            tokens_in += event["input_tokens"] + event["cache_read_tokens"]
            tokens_in += event["cache_creation_tokens"]
            tokens_out += event["output_tokens"]
            cost += event["cost_usd"]
    dimensions = (
        ok / total * 10,
        total / max(prompts, 1) * 2,
        ok / max(active_s / 60, 1) * 10,
        cached / (tokens_in + tokens_out) * 10,
        10 - cost / max(ok, 1) * 100,
    )
    weights = (0.30, 0.25, 0.20, 0.15, 0.10)
    composite = sum(min(max(d, 0), 10) * w for d, w in zip(dimensions, weights, strict=True))
    criteria = (
        ok / total,  # one tool, and no logged parameters: only failures are lost
        (300 - active_s / prompts) / 240,
        (20 - total / prompts) / 12,
    )
    shares = [min(max(criterion, 0), 1) for criterion in criteria]
    efficiency = (shares[0] * 60 + shares[1] * 25 + shares[2] * 15) / 100
    return {
        "session": key,
        "composite": composite,
        "general-performance": composite * 5 + ok / total * 50,
        "efficiency-simple": efficiency * 100,
        "effective_100": efficiency * 100,
    }


def events_of(day: date, sessions: int, events: int = EVENTS) -> pl.DataFrame:
    """Events of each session, some seconds apart; no two sessions are alike."""
    count = sessions * events
    began = datetime(day.year, day.month, day.day, 8, tzinfo=UTC)
    number = pl.int_range(count, eager=True)
    frame = pl.DataFrame({"n": number, "session": number // events, "place": number % events})
    is_prompt = pl.col("place") % 25 == 0
    is_call = ~is_prompt & (pl.col("place") % 2 == 1)
    is_request = ~is_prompt & ~is_call
    seconds = pl.col("session") % 600 * 60 + pl.col("place") * (2 + pl.col("session") % 7)
    time = pl.lit(began) + pl.duration(seconds=seconds)
    ids = [hashlib.blake2b(f"{day}-{n}".encode(), digest_size=16).digest() for n in range(count)]

    def of(when: pl.Expr, value: pl.Expr | float | str) -> pl.Expr:
        return pl.when(when).then(value if isinstance(value, pl.Expr) else pl.lit(value))

    name_of_call = pl.when(is_call).then(pl.lit("tool_result")).otherwise(pl.lit("api_request"))
    given: dict[str, pl.Expr] = {
        "event_id": pl.lit(pl.Series(ids, dtype=pl.Binary)),
        "event_time": time,
        "observed_time": time,
        "session_id": pl.format("s-{}-{}", pl.lit(str(day)), pl.col("session")),
        "session_date": pl.lit(day),
        "organization_id": pl.lit("default"),
        "source_cli": pl.lit("claude_code"),
        "service_name": pl.lit("claude-code"),
        "event_name": pl.when(is_prompt).then(pl.lit("user_prompt")).otherwise(name_of_call),
        "model": of(is_request, "model-a"),
        "provider": of(is_request, "provider-a"),
        "tool_name": of(is_call, "Read"),
        "tool_class": of(is_call, "read"),
        "success": of(is_call, (pl.col("n") * 7919 % 10 != 0)),
        "duration_ms": of(~is_prompt, pl.col("n") % 977),
        "cost_usd": of(is_request, 0.001),
        "cost_source": of(is_request, "reported"),
        "input_tokens": of(is_request, pl.col("n") % 500 + 10),
        "output_tokens": of(is_request, pl.col("n") * 31 % 700),
        "cache_read_tokens": of(is_request, pl.col("n") * 17 % 900),
        "cache_creation_tokens": of(is_request, pl.lit(0)),
        "classification_label": pl.lit("simple"),
        "time_anomaly": pl.lit(value=False),
        "source_file_id": pl.lit(_FILE),
        "source_offset": pl.col("n"),
    }
    schema = AGENT_EVENTS_LANDED.schema
    rows = frame.select(
        given.get(name, pl.lit(None)).cast(dtype).alias(name) for name, dtype in schema.items()
    )
    return rows.with_columns(buckets_of(rows["session_id"])).sort(BUCKET, maintain_order=True)


def _texts_of(events: pl.DataFrame, parameters: str) -> pl.DataFrame:
    """The logged parameters of each tool call."""
    calls = events.filter(event_name="tool_result")
    number = pl.col("source_offset")
    path = {
        "alike": pl.format("/home/dev/shop/src/checkout/invoice_{}.py", number),
        "unlike": number.hash().cast(pl.String) + number.hash(1).cast(pl.String),
    }[parameters]
    given = {"tool_parameters": pl.lit('{"file_path": "') + path + '"}'}
    return calls.with_columns(**given).select(
        (pl.col(name) if name in {*calls.columns, *given} else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in EVENT_TEXTS_LANDED.schema.items()
    )


def commit_parts(
    stores: Stores, parts: list[NewPart], sessions: Sequence[SessionStart] = ()
) -> None:
    """Let the ledger name landed parts and the sessions in them, as after an ingest."""
    now = datetime.now(UTC)
    events = [part for part in parts if part.table_name == AGENT_EVENTS_LANDED.name]
    SourceFiles(stores.ledger).add(
        SourceFile(
            file_id=_FILE,
            device=1,
            inode=1,
            head_bytes=1,
            head_sha256="0",
            path="made-up.jsonl",
            size_bytes=1,
            first_seen_at=now,
        )
    )
    landed = IngestBatch(
        file_id=_FILE,
        from_offset=0,
        to_offset=1,
        head_bytes=1,
        head_sha256="0",
        ingested_at=now,
        parts=tuple(parts),
        sessions=tuple(sessions),
        counts=IngestCounts(events=sum(event.row_count for event in events)),
    )
    with held(stores.ledger, INGEST) as hold:
        IngestBatches(stores.ledger).commit_batch(landed, hold)


def _dates(first: str, last: str) -> list[date]:
    start, end = date.fromisoformat(first), date.fromisoformat(last)
    return [start + timedelta(days=number) for number in range((end - start).days + 1)]


def _settings(folder: str) -> Settings:
    # Settings of the person who measures must not change what is measured.
    return Settings(data_dir=Path(folder))
