"""Scores straight from telemetry files, in memory, with nothing stored.

Decoding, SQL and formulas are those of the lake, so both return the same numbers for the same
telemetry.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO

import polars as pl

from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.schemas import AGENT_EVENTS
from evaluation_pipelines.sessions.domain.find_session import SessionRow, session_rows
from evaluation_pipelines.sessions.domain.performance import score_sessions
from evaluation_pipelines.sessions.session_queries import query_events, query_sessions
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.landing import Landing, SkippedFile
from evaluation_pipelines.storage.raw_lines import RawLine, cut_at_lines, read_at
from evaluation_pipelines.telemetry.documents import Documents
from evaluation_pipelines.telemetry.domain.reader import (
    EventBatch,
    QuarantinedLine,
    line_filter,
    session_ids_of,
)
from evaluation_pipelines.telemetry.domain.shapes import IngestCounts
from evaluation_pipelines.telemetry.reading import (
    event_reader,
    infrequent_gc,
    open_documents,
    read_line,
)
from evaluation_pipelines.telemetry.session_dates import assign_session_dates


@dataclass(slots=True)
class ScoredTelemetry:
    """Scored session windows of some telemetry files.

    Attributes:
        sessions: The windows with their scores, in the order they started.
        counts: Counts of what was read.
        quarantined: File name and line of everything that could not be read.
        cut: Files whose end was not read, and why.
    """

    sessions: list[SessionRow]
    counts: IngestCounts
    quarantined: list[tuple[str, QuarantinedLine]] = field(default_factory=list)
    cut: list[SkippedFile] = field(default_factory=list)


def score_files(
    files: Iterable[tuple[str, BinaryIO]],
    settings: Settings,
    progress: Progress | None = None,
    session: str | None = None,
) -> ScoredTelemetry:
    """Score all session windows in some files, or those of one session.

    Args:
        files: Name and open binary file (or stream) of each.
        settings: Idle limit, line limit and first partition.
        progress: Advanced by the bytes read.
        session: A session key or session id. Lines that cannot belong to it are not decoded.
    """
    scored = ScoredTelemetry([], IngestCounts())
    # Without texts, the events of a large file fit in memory.
    batches = [AGENT_EVENTS.no_rows]
    with infrequent_gc():
        for name, handle in files:
            documents = open_documents(handle, settings)
            for batch in _batches(name, documents, settings, progress or Silent(), session):
                scored.counts.add(batch.counts)
                scored.quarantined += [(name, line) for line in batch.quarantined]
                events = _session_events(batch.events, session)
                batches.append(events.select(AGENT_EVENTS.schema.names()))
            if why := _why_cut(documents):
                scored.cut.append(SkippedFile(name, why))
    dated = assign_session_dates(pl.concat(batches), None, settings.start_date)
    sessions = query_sessions(query_events(dated.events), settings)
    scored.sessions = session_rows(sessions, score_sessions(sessions, settings.productivity_time))
    return scored


def _why_cut(documents: Documents) -> str | None:
    if documents.form.is_stream or not documents.cut_bytes:
        return documents.unfinished
    return f"its last line is not complete: {documents.cut_bytes:,} bytes are not read"


def _batches(
    name: str, documents: Documents, settings: Settings, progress: Progress, session: str | None
) -> Iterator[EventBatch]:
    reader = event_reader(settings, datetime.now(UTC))
    may_mention = None if session is None else line_filter(session)
    range_bytes = settings.batch_bytes // 2
    lines = _prefiltered(may_mention, documents, range_bytes) if may_mention else documents.read(0)
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


def _prefiltered(
    may_mention: Callable[[bytes], bool], documents: Documents, range_bytes: int
) -> Iterator[RawLine]:
    """Yield the lines that may mention the session.

    Byte ranges without a mention, most of a large file, are not split into lines.
    """
    start = end = 0
    if documents.is_lines:
        for start, end in cut_at_lines(documents.handle, 0, range_bytes):
            size = end - start
            has_long_line = size > 2 * range_bytes
            if has_long_line or may_mention(read_at(documents.handle, size, start)):
                before_end = takewhile(partial(_is_before, end), documents.read(start))
                yield from (line for line in before_end if may_mention(line.text))
    yield from (line for line in documents.read(end) if may_mention(line.text))


def _is_before(offset: int, line: RawLine) -> bool:
    return line.offset < offset


def _session_events(events: pl.DataFrame, session: str | None) -> pl.DataFrame:
    if session is None:
        return events
    return events.filter(pl.col("session_id").is_in(sorted(session_ids_of(session))))


def open_telemetry(path: str, standard_input: BinaryIO) -> tuple[str, BinaryIO]:
    """Return the name and the open file of a path; ``-`` is standard input.

    Raises:
        OSError: The file cannot be opened.
    """
    return ("-", standard_input) if path == "-" else (path, Path(path).open("rb"))


def telemetry_files(paths: Iterable[str]) -> Iterator[str]:
    """Yield the named files, and the telemetry files in the named folders."""
    for path in paths:
        if Path(path).is_dir():
            files, _ = Landing(Path(path)).list_files()
            yield from (str(Path(path) / file.path) for file in files)
        else:
            yield path


def files_not_read(paths: Iterable[str]) -> Iterator[SkippedFile]:
    """Yield the unread files of the named folders, and why."""
    for path in filter(os.path.isdir, paths):
        yield from Landing(Path(path)).list_files()[1]
