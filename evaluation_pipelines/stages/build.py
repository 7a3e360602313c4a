"""Build: from landed parts to agent events, sessions and their performance, date by date.

Each function makes one partition of one table and can be repeated at any time: the same input
gives the same file. A date that fails leaves the other dates alone.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import polars as pl

from evaluation_pipelines.adapters.lake import Lake
from evaluation_pipelines.adapters.ledger.errors import PartsNotCurrentError
from evaluation_pipelines.adapters.ledger.ledger import Ledger
from evaluation_pipelines.adapters.ledger.records import NewPart, Part
from evaluation_pipelines.adapters.queries import Source, run_query
from evaluation_pipelines.domain.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    SESSION_PERFORMANCE,
)
from evaluation_pipelines.domain.sessions.performance import (
    HISTORY_DAYS,
    percentile_in_class,
    score_sessions,
)
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.stages.progress import Progress, Silent

_GRACE = timedelta(hours=1)
"""How long a merged-away part stays on disk: whoever read the manifest before may still open it."""


@dataclass(frozen=True, slots=True)
class DateBuilt:
    """What became of one date: rows of each table, and how many landed events were repeats."""

    session_date: date
    landed: int
    events: int
    sessions: int
    scored: int

    @property
    def duplicates(self) -> int:
        """Landed events that were there already: re-sent, or read under another name."""
        return self.landed - self.events


@dataclass(frozen=True, slots=True)
class DateFailed:
    """A date that could not be built, and why."""

    session_date: date
    error: str


@dataclass(frozen=True, slots=True)
class Build:
    """Makes the tables of the lake from the landed parts that the ledger names."""

    lake: Lake
    ledger: Ledger
    settings: Settings
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def pending_dates(self) -> list[date]:
        """Dates with landed events that are not built yet."""
        return [each.session_date for each in self.ledger.touched.pending(self.clock())]

    def run(
        self, dates: Iterable[date], progress: Progress | None = None
    ) -> list[DateBuilt | DateFailed]:
        """Build dates one by one, oldest first; a failure is noted with its date."""
        progress, dates = progress or Silent(), sorted(dates)
        versions = {each.session_date: each.version for each in self.ledger.touched.all()}
        progress.begin("building dates", len(dates))
        results: list[DateBuilt | DateFailed] = []
        for day in dates:
            results.append(self._attempt(day, versions.get(day)))
            progress.advance(1)
        return results

    def agent_events(self, day: date) -> tuple[int, int]:
        """Deduplicate the landed events of a date; gives landed and remaining rows."""
        parts = self._merge(day, self.ledger.parts.current(AGENT_EVENTS_LANDED.name, day))
        paths = [self.lake.root / part.path for part in parts]
        events = (
            run_query(
                AGENT_EVENTS.name,
                views={AGENT_EVENTS_LANDED.name: paths},
                schema=AGENT_EVENTS.schema,
            )
            if paths
            else AGENT_EVENTS.schema.to_frame()
        )
        self.lake.write(events, AGENT_EVENTS, day)
        return sum(part.row_count for part in parts), events.height

    def agent_sessions(self, day: date) -> int:
        """Cut the events of a date into session windows; gives their number."""
        sessions = query_sessions([self.lake.partition(AGENT_EVENTS, day)], self.settings)
        self.lake.write(sessions, AGENT_SESSIONS, day)
        return sessions.height

    def session_performance(self, day: date) -> int:
        """Score the session windows of a date; gives how many could be scored."""
        before = [day - timedelta(days=days) for days in range(HISTORY_DAYS, 0, -1)]
        history = score_sessions(self.lake.read(AGENT_SESSIONS, before))
        scores = score_sessions(self.lake.read(AGENT_SESSIONS, [day]))
        performance = percentile_in_class(scores, history)
        self.lake.write(performance, SESSION_PERFORMANCE, day)
        return int(performance["scorable"].sum())

    def _attempt(self, day: date, version: int | None) -> DateBuilt | DateFailed:
        try:
            landed, events = self.agent_events(day)
            result = DateBuilt(
                day, landed, events, self.agent_sessions(day), self.session_performance(day)
            )
        except Exception as error:  # noqa: BLE001 - one broken date must not stop the others
            reason = f"{type(error).__name__}: {error}"
            if version is not None:
                self.ledger.touched.mark_failed(day, version, reason, self.clock())
            return DateFailed(day, reason)
        if version is not None:
            self.ledger.touched.mark_built(day, version)
        return result

    def _merge(self, day: date, parts: list[Part]) -> list[Part]:
        """Merge the landed parts of a date when there are many; gives those to read."""
        self._tidy(day)
        if len(parts) < self.settings.compact_parts:
            return parts
        table = AGENT_EVENTS_LANDED
        merged = pl.concat([self.lake.read_part(part.path, table) for part in parts])
        name = f"merged-{parts[0].part_id}-{parts[-1].part_id}"
        path, size_bytes = self.lake.write_part(merged, table, day, name)
        new = NewPart(table.name, day, path, merged.height, size_bytes)
        # Another build may have merged them a moment earlier: its result is as good.
        with suppress(PartsNotCurrentError):
            self.ledger.parts.replace([part.part_id for part in parts], new, self.clock())
        return self.ledger.parts.current(table.name, day)

    def _tidy(self, day: date) -> None:
        """Delete parts that were merged away, and what crashes left in the folder of a date."""
        before, table = self.clock() - _GRACE, AGENT_EVENTS_LANDED
        stale = [p for p in self.ledger.parts.superseded_before(before) if p.session_date == day]
        for part in stale:
            (self.lake.root / part.path).unlink(missing_ok=True)
        self.ledger.parts.forget([part.part_id for part in stale])
        self.lake.sweep(table, day, self.ledger.parts.known_paths(table.name, day), before)


def query_sessions(events: Source, settings: Settings) -> pl.DataFrame:
    """Session windows (AGENT_SESSIONS) of deduplicated events: files of the lake, or a frame."""
    return run_query(
        AGENT_SESSIONS.name,
        views={AGENT_EVENTS.name: events},
        params={"session_idle_minutes": settings.session_idle_minutes},
        schema=AGENT_SESSIONS.schema,
    )
