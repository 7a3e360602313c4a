"""Inputs of the cards and evaluations of some dates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

import polars as pl

from evaluation_pipelines.profiles.domain.matching import assign
from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.profiles.domain.registry import Registry
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    JUDGE_SCORES,
    SCORECARDS,
    SESSION_KEY,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
    UTC_TIME,
)
from evaluation_pipelines.scorecards.domain.disqualifiers import (
    EVENT_COLUMNS,
    TRIGGERED,
    triggered,
    written_texts,
)
from evaluation_pipelines.scorecards.domain.heuristics import evidence
from evaluation_pipelines.scorecards.domain.judged import JUDGE_RESULTS
from evaluation_pipelines.scorecards.ledger.override_store import OverrideStore
from evaluation_pipelines.sessions.domain.ended import is_terminal
from evaluation_pipelines.sessions.domain.exclusions import excluded_by
from evaluation_pipelines.storage.daily_table import Batch
from evaluation_pipelines.storage.stores import Stores


class SeveralDatesError(ValueError):
    """A session has rows on several dates, so these dates cannot be scored together."""


@dataclass(frozen=True, slots=True)
class ScoringInputs:
    """Data of the lake and the ledger for some dates; no session is on two of the dates.

    Attributes:
        sessions: Evidence of all windows with ``is_terminal`` and ``excluded_by``.
        assigned: ASSIGNMENTS.
        results: JUDGE_RESULTS.
        cards: SCORECARDS as stored in the lake.
        overrides: OVERRIDE_ROWS.
        registry: All profiles.
    """

    sessions: pl.DataFrame
    assigned: pl.DataFrame
    results: pl.DataFrame
    cards: pl.DataFrame
    overrides: pl.DataFrame
    registry: Registry

    @classmethod
    def read(cls, batch: Batch, registry: Registry) -> "ScoringInputs":
        """Read the inputs of a batch.

        Raises:
            SeveralDatesError: A session is on two of the dates.
            LakeError: A file cannot be read.
        """
        stores, days = batch.stores, batch.days
        if batch.evidence is None:
            batch.evidence = _evidence(batch)
        sessions = batch.evidence
        results = judge_results(stores, days)
        cards = stores.lake.read(SCORECARDS, days)
        overrides = OverrideStore(stores.ledger).of_dates(days)
        if len(days) > 1:
            _refuse_several_dates(sessions, results, cards, overrides)
        assigned = assign(sessions, registry)
        return cls(
            sessions, assigned, results.select(JUDGE_RESULTS.names()), cards, overrides, registry
        )

    def by_profile(self) -> Iterator[tuple[JudgeProfile, pl.DataFrame]]:
        """Yield each profile version that scores ended sessions, with their evidence.

        Sessions that a rule excludes are left out.
        """
        ended = self.sessions.filter("is_terminal", pl.col("excluded_by").is_null())
        versions = self.assigned.select("profile_id", "profile_version").unique().sort(pl.all())
        for profile_id, version in versions.iter_rows():
            assigned = self.assigned.filter(
                pl.col("profile_id") == profile_id, pl.col("profile_version") == version
            ).select(*SESSION_KEY, "is_best_match")
            sessions = ended.join(assigned, on=SESSION_KEY, how="inner", maintain_order="left")
            if not sessions.is_empty():
                yield self.registry.find(profile_id, version).profile, sessions


@dataclass(slots=True)
class WrittenTexts:
    """Texts that agents wrote on some dates, read from the lake once and only if needed."""

    stores: Stores
    sessions: pl.DataFrame
    _read: dict[date, pl.DataFrame] = field(default_factory=dict)

    def search(self, profile: JudgeProfile, sessions: pl.DataFrame) -> pl.DataFrame:
        """Return TRIGGERED of ``sessions``; empty for a profile without disqualifiers."""
        found = [TRIGGERED.to_frame()]
        if profile.disqualifiers:
            for (day,), of_day in sessions.partition_by("session_date", as_dict=True).items():
                texts = self._of(day).join(of_day, on=SESSION_KEY, how="semi")
                found.append(triggered(texts, profile.disqualifiers))
        return pl.concat(found)

    def _of(self, day: date) -> pl.DataFrame:
        if day not in self._read:
            events = self.stores.lake.read(AGENT_EVENTS, [day], EVENT_COLUMNS)
            self._read[day] = written_texts(events, self.sessions.filter(session_date=day))
        return self._read[day]


def judge_results(stores: Stores, days: Sequence[date]) -> pl.DataFrame:
    """Return JUDGE_RESULTS and ``session_date`` of the rows of ``judge_scores`` on ``days``."""
    schema = pl.Schema({**JUDGE_RESULTS, "session_date": pl.Date()})
    return stores.lake.read(JUDGE_SCORES, days, schema.names()).cast(schema)


def tool_effectiveness(stores: Stores, days: Sequence[date]) -> pl.DataFrame:
    """Return ``effectiveness_score`` of the tool reports on ``days``, with key and date."""
    columns = [*SESSION_KEY, "session_date", "effectiveness_score"]
    return stores.lake.read(TOOL_REPORTS, days, columns)


def _evidence(batch: Batch) -> pl.DataFrame:
    stores, days = batch.stores, batch.days
    sessions = stores.lake.read(AGENT_SESSIONS, days)
    performance = stores.lake.read(SESSION_PERFORMANCE, days)
    effectiveness = tool_effectiveness(stores, days)
    if len(days) > 1:
        _refuse_several_dates(sessions, performance, effectiveness)
    return evidence(sessions, performance, effectiveness).with_columns(
        is_terminal(pl.lit(batch.now).cast(UTC_TIME), stores.settings.session_idle_minutes),
        excluded_by(stores.settings.exclude_sessions),
    )


def _refuse_several_dates(*frames: pl.DataFrame) -> None:
    dated = pl.concat([each.select(*SESSION_KEY, "session_date") for each in frames]).unique()
    repeated = dated.filter(pl.struct(SESSION_KEY).is_duplicated())
    if not repeated.is_empty():
        organization_id, session_key, day = repeated.sort(*SESSION_KEY, "session_date").row(0)
        raise SeveralDatesError(f"{session_key} of {organization_id} is on {day} and another date")
