"""Score: from telemetry files straight to scores, in memory, with nothing stored.

The same decoding, the same SQL and the same formulas as the lake, so that both give the same
numbers for the same telemetry.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.sessions.domain.performance import score_sessions
from evaluation_pipelines.sessions.session_queries import query_events, query_sessions
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.landing import Landing, RawLine, cut_at_lines
from evaluation_pipelines.telemetry.documents import Documents
from evaluation_pipelines.telemetry.domain.counts import IngestCounts
from evaluation_pipelines.telemetry.domain.prefilter import mention_of, session_ids_of
from evaluation_pipelines.telemetry.domain.reader import EventBatch, QuarantinedLine
from evaluation_pipelines.telemetry.reading import (
    event_reader,
    few_collections,
    open_documents,
    read_line,
)
from evaluation_pipelines.telemetry.session_dates import assign_session_dates

SessionRow = Mapping[str, Any]
"""A row of ``agent_sessions`` joined with its row of ``session_performance``."""


class SessionNotFoundError(UserError, LookupError):
    """No window, or more than one, fits what was asked for; the message lists what there is."""


@dataclass(slots=True)
class Scored:
    """Session windows with their scores, in the order they started, and what was read.

    ``quarantined`` holds (file, what could not be read).
    """

    sessions: list[SessionRow]
    counts: IngestCounts
    quarantined: list[tuple[str, QuarantinedLine]] = field(default_factory=list)


def score_files(
    files: Iterable[tuple[str, BinaryIO]],
    settings: Settings,
    progress: Progress | None = None,
    only: str | None = None,
) -> Scored:
    """Score all session windows in some files, or those of one session.

    Args:
        files: Name and open binary file (or stream) of each.
        settings: Idle limit, line limit and first partition.
        progress: Told of the bytes read.
        only: A session key or session id. Lines that cannot tell of it are not looked at.
    """
    scored = Scored([], IngestCounts())
    batches = [AGENT_EVENTS_LANDED.schema.to_frame()]
    with few_collections():
        for name, handle in files:
            for batch in _batches(name, handle, settings, progress or Silent(), only):
                scored.counts.add(batch.counts)
                scored.quarantined += [(name, line) for line in batch.quarantined]
                batches.append(_without_texts(_of_session(batch.events, only)))
    filed = assign_session_dates(pl.concat(batches), None, settings.start_date)
    sessions = query_sessions(query_events(filed.events), settings)
    scored.sessions = session_rows(sessions, score_sessions(sessions))
    return scored


def session_rows(sessions: pl.DataFrame, performance: pl.DataFrame) -> list[SessionRow]:
    """Rows of both tables side by side, in the order the windows started."""
    keys = ["organization_id", "session_key"]
    scores = performance.select(
        *keys, *(name for name in performance.columns if name not in sessions.columns)
    )
    joined = sessions.join(scores, on=keys, how="inner", validate="1:1")
    return list(joined.sort("started_at", "ended_at", "session_key").iter_rows(named=True))


def find_session(rows: list[SessionRow], wanted: str | None) -> SessionRow:
    """The window with a session key, or the only one of a session id; the newest for None.

    Raises:
        SessionNotFoundError: none or several fit.
    """
    if not rows:
        raise SessionNotFoundError("There is no session in this telemetry.")
    if wanted is None:
        return rows[-1]
    for name in ("session_key", "session_id"):
        found = [row for row in rows if row[name] == wanted]
        if len(found) == 1:
            return found[0]
        if found:
            keys = ", ".join(f"{row['session_key']} of {row['organization_id']}" for row in found)
            raise SessionNotFoundError(f"{wanted} has several windows; name one of: {keys}")
    raise SessionNotFoundError(
        f"There is no session {wanted} among the {len(rows)} in this telemetry. "
        "Use --all to see them."
    )


def _batches(
    name: str, handle: BinaryIO, settings: Settings, progress: Progress, only: str | None
) -> Iterator[EventBatch]:
    reader = event_reader(settings, datetime.now(UTC))
    documents = open_documents(handle, name, settings)
    mentions = None if only is None else mention_of(only)
    stretch_bytes = settings.batch_bytes // 2
    lines = _lines_that(mentions, documents, stretch_bytes) if mentions else documents.read(0)
    start = end = 0
    for line in lines:
        read_line(reader, line, name, settings.max_line_bytes)
        end = line.next_offset
        if end - start >= settings.batch_bytes:
            yield reader.take(end - start)
            progress.advance(end - start)
            start = end
    yield reader.take(end - start)
    progress.advance(end - start)


def _lines_that(
    mentions: Callable[[bytes], bool], documents: Documents, stretch_bytes: int
) -> Iterator[RawLine]:
    """The lines that may tell of the session; most of a large file is never cut into lines."""
    start = end = 0
    if documents.is_lines:
        for start, end in cut_at_lines(documents.handle, 0, stretch_bytes):
            size = end - start
            has_long_line = size > 2 * stretch_bytes
            if has_long_line or mentions(os.pread(documents.handle.fileno(), size, start)):
                before_end = takewhile(partial(_is_before, end), documents.read(start))
                yield from (line for line in before_end if mentions(line.text))
    yield from (line for line in documents.read(end) if mentions(line.text))


def _is_before(offset: int, line: RawLine) -> bool:
    return line.offset < offset


def _of_session(events: pl.DataFrame, key: str | None) -> pl.DataFrame:
    if key is None:
        return events
    return events.filter(pl.col("session_id").is_in(sorted(session_ids_of(key))))


def _without_texts(events: pl.DataFrame) -> pl.DataFrame:
    """Whether a text was logged counts, what it says does not: a large file fits in memory."""
    texts = ("content", "tool_parameters")
    blank = [pl.when(pl.col(name).is_not_null()).then(pl.lit("")).alias(name) for name in texts]
    nothing = [pl.lit(None, pl.String).alias(name) for name in ("attributes", "error")]
    return events.with_columns(*blank, *nothing)


def open_telemetry(path: str, standard_input: BinaryIO) -> tuple[str, BinaryIO]:
    """Open a file, or standard input for ``-``; the name goes with it.

    Raises:
        OSError: the file cannot be opened.
    """
    return ("-", standard_input) if path == "-" else (path, Path(path).open("rb"))


def telemetry_files(paths: Iterable[str]) -> Iterator[str]:
    """The files named, and those in the folders named."""
    for path in paths:
        if Path(path).is_dir():
            files, _ = Landing(Path(path)).list_files()
            yield from (str(Path(path) / file.path) for file in files)
        else:
            yield path
