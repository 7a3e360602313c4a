"""Functions that get any bytes, and seeds for them: what parses untrusted text."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import polars as pl

from evaluation_pipelines.comparison.run_file import read_runs
from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.people.domain.parse import parse_identities
from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.sync import SHIPPED, read_profile
from evaluation_pipelines.reputation.domain.signals import (
    UnusableLineError,
    evaluation_retraction,
    read_evaluation,
    read_signal,
    signal_retraction,
)
from evaluation_pipelines.schemas import AGENT_EVALUATIONS, REPUTATION_EVENTS
from evaluation_pipelines.scorecards import overrides
from evaluation_pipelines.scorecards.scorecard_queries import SessionLookup, read_session_lookup
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError
from evaluation_pipelines_tests.telemetry.domain.reading import read
from evaluation_pipelines_tests.telemetry.domain.test_every_record import records_in
from evaluation_pipelines_tests.workplace import open_workplace
from evaluation_pipelines_tests.world import claude, line

NOW = datetime(2026, 6, 2, tzinfo=UTC)
_GOOD = line(claude("user_prompt", session__id="a good session")).strip()

ATTRIBUTION = {
    "session_id": "s",
    "masque": "Codesmith",
    "donned_at": "2026-06-01T12:00:00Z",
    "doffed_at": "2026-06-01T13:00:00+01:00",
}
SIGNAL = {
    "timestamp": "2026-06-01T12:00:00Z",
    "event_type": "session_completed",
    "reference_type": "session",
    "reference_id": "r",
    "agent_id": "a",
    "attributes": {"k": "v"},
}
EVALUATION = {
    "evaluation_id": "e",
    "agent_id": "a",
    "evaluated_at": "2026-06-01T12:00:00Z",
    "passed": True,
    "source": "ci",
    "latency_ms": 5,
}


def says(error: Exception, text: str) -> None:
    """Check the message of an error."""
    assert text in str(error)


def telemetry(data: bytes) -> None:
    """Every record of a line is in one number, and a good line next to it is read."""
    batch = read(data.replace(b"\n", b" "), _GOOD, max_attributes=50)
    assert "a good session" in batch.events["session_id"]
    assert records_in(batch) >= 1
    assert batch.counts.lines in (1, 2)


def attribution(data: bytes) -> None:
    """An attribution line becomes a don, a don and a doff, or one entry in quarantine."""
    batch = read(data.replace(b"\n", b" "))
    if batch.counts.attribution_lines:
        assert set(batch.events["event_name"]) <= {"masque_don", "masque_doff"}
        assert batch.events["masque"].str.strip_chars().str.len_bytes().min() > 0  # type: ignore[operator]


def signals(data: bytes) -> None:
    """A line of signals or evaluations is a row of its table, a retraction, or refused."""
    for table, parse, retraction in (
        (
            REPUTATION_EVENTS,
            partial(read_signal, now=NOW, deltas={}),
            partial(signal_retraction, now=NOW),
        ),
        (AGENT_EVALUATIONS, partial(read_evaluation, now=NOW), evaluation_retraction),
    ):
        try:
            row = None if retraction(data) else parse(data)
        except UnusableLineError:
            continue
        if row is not None:
            pl.DataFrame([row], schema=table.schema).write_json()


def profiles(data: bytes, folder: Path) -> None:
    """A profile file is a profile or an error that names the file."""
    path = folder / "profile.yaml"
    path.write_bytes(data)
    try:
        read_profile(path)
    except ProfileError as error:
        says(error, "profile.yaml")


def identities(data: bytes) -> None:
    """A file of identities is a mapping or an error that names the file."""
    try:
        parse_identities(data.decode("utf-8", "replace"), "identities.yaml")
    except UserError as error:
        says(error, "identities.yaml")


def imports(data: bytes, lookup: SessionLookup) -> None:
    """A row of an import is an override of the session that is there, or refused with a reason."""
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    try:
        for _, row in overrides._rows(lines):
            with suppress(overrides.OverrideError, ProfileError, SessionNotFoundError):
                new = overrides._from_row(lookup, row)
                assert 0 <= new.override_score <= 100
                assert new.reason.strip()
    except overrides.OverrideError as error:
        says(error, " ")


def runs(data: bytes, folder: Path) -> None:
    """A CSV of runs has scores from 0 to 100, or is refused with an error that names the file."""
    path = folder / "runs.csv"
    path.write_bytes(data)
    try:
        assert read_runs(path)["score"].is_between(0, 100).all()
    except UserError as error:
        says(error, "runs.csv")


def a_lookup(folder: Path) -> SessionLookup:
    """Return the lookup of a lake with one session, whose id is ``s``."""
    with open_workplace(folder) as workplace:
        workplace.land("logs.jsonl", line(claude("user_prompt", session__id="s")))
        workplace.ingest()
        workplace.build()
        return read_session_lookup(workplace.stores, {"s"})


def targets(folder: Path) -> dict[str, tuple[Callable[[bytes], None], list[bytes]]]:
    """Return the function and the seeds of every target; files are written to ``folder``."""
    captured = [
        one for path in SAMPLES.rglob("*.jsonl") for one in path.read_bytes().splitlines()[:20]
    ]
    wide = json.dumps(ATTRIBUTION).encode()
    heading = b"session,score,annotator,reason,organization,profile,criterion\n"
    return {
        "telemetry": (telemetry, [*captured, _GOOD]),
        "attribution": (attribution, [wide, _GOOD]),
        "signals": (signals, [json.dumps(line).encode() for line in (SIGNAL, EVALUATION)]),
        "profiles": (
            partial(profiles, folder=folder),
            [path.read_bytes() for path in SHIPPED.glob("*.yaml")],
        ),
        "identities": (identities, [b"people:\n- id: p\n  name: P\n  user_ids: [u]\n"]),
        "imports": (
            partial(imports, lookup=a_lookup(folder / "lake")),
            [heading + b's,75,Reviewer,"right, but slow",,,\n'],
        ),
        "runs": (
            partial(runs, folder=folder),
            [b"model,score,user_id,cost_usd,started_at\nm,75,u,0.5,2026-06-01T12:00:00Z\n"],
        ),
    }
