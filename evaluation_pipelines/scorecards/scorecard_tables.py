"""The daily tables of scorecards and effective scores, and the inputs of their dates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property

import polars as pl

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.score_table import counting_scores
from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.profiles.domain.registry import Registry, assign
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.profiles.sync import Synced, sync_profiles
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    CONTENT_KEY,
    JUDGE_SCORES,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
    UTC_TIME,
    Table,
)
from evaluation_pipelines.schemas.scorecards import Announced
from evaluation_pipelines.schemas.table import keys_are_unique
from evaluation_pipelines.scorecards.domain.criteria import (
    EVENT_COLUMNS,
    IS_WRITTEN,
    JUDGE_RESULTS,
    TRIGGERED,
    evidence,
    triggered,
    written_texts,
)
from evaluation_pipelines.scorecards.domain.evaluation import (
    PROVISIONAL,
    announcements,
    completed,
    evaluate,
)
from evaluation_pipelines.scorecards.domain.overrides import (
    OVERRIDE_COLUMNS,
    OVERRIDE_ROWS,
    with_overrides,
)
from evaluation_pipelines.scorecards.domain.scorecard import (
    UNSCORED,
    cards_are_on_their_scale,
    effective_scores_have_a_source,
    every_card_has_its_session,
    every_criterion_is_known,
    kept_cards,
    profiles_are_sound,
    score_cards,
    with_scored_at,
)
from evaluation_pipelines.scorecards.store import EventStore, OverrideStore
from evaluation_pipelines.sessions.domain.checks import every_score_has_its_session
from evaluation_pipelines.sessions.domain.ended import first_end, is_terminal
from evaluation_pipelines.sessions.domain.performance import excluded_by
from evaluation_pipelines.sessions.session_queries import (
    WINDOW_COLUMNS,
    WINDOW_EVENTS,
    window_events,
)
from evaluation_pipelines.sessions.session_tables import rows_by_date
from evaluation_pipelines.storage.daily_table import Batch, BuiltPartition
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import ScheduledRebuilds
from evaluation_pipelines.storage.parts import ALL_BUCKETS
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.event_texts import read_events_with_texts
from evaluation_pipelines.times import to_us


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
        assigned = assign(sessions, registry, cards)
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


class WrittenTexts:
    """Texts that agents wrote on some dates, read from the lake once and only if needed."""

    def __init__(self, stores: Stores, sessions: pl.DataFrame) -> None:
        self._lake = stores.lake
        self._sessions = sessions
        self._read: dict[date, pl.DataFrame] = {}

    def search(self, profile: JudgeProfile, sessions: pl.DataFrame) -> pl.DataFrame:
        """Return TRIGGERED of ``sessions``; empty for a profile without disqualifiers."""
        if not profile.disqualifiers:
            return TRIGGERED.to_frame()
        texts = pl.concat([self._day_texts(day) for day in sessions["session_date"].unique()])
        written = texts.join(sessions, on=SESSION_KEY, how="semi")
        return triggered(written, profile.disqualifiers)

    def _day_texts(self, day: date) -> pl.DataFrame:
        if day not in self._read:
            events = read_events_with_texts(
                self._lake, day, columns=EVENT_COLUMNS, events_where=IS_WRITTEN
            )
            sessions = self._sessions.filter(session_date=day)
            self._read[day] = written_texts(events, sessions, self._window_events)
        return self._read[day]

    @cached_property
    def _window_events(self) -> pl.DataFrame:
        """The windows of the events of sessions with several, which few are, of all dates."""
        ids = self._sessions.group_by("session_id").agg(pl.len(), pl.col("session_date").unique())
        several = ids.filter(pl.col("len") > 1)
        if several.is_empty():
            return WINDOW_EVENTS.to_frame()
        where = pl.col("session_id").is_in(several["session_id"].to_list())
        days = several["session_date"].explode().unique().sort().to_list()
        return window_events(self._lake.read(AGENT_EVENTS, days, WINDOW_COLUMNS, where))


def judge_results(stores: Stores, days: Sequence[date]) -> pl.DataFrame:
    """Return JUDGE_RESULTS and ``session_date`` of the judgments on ``days``."""
    schema = pl.Schema({**JUDGE_RESULTS, "session_date": pl.Date()})
    return counting_scores(stores, days, schema.names()).cast(schema)


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
    dated = pl.concat([frame.select(*SESSION_KEY, "session_date") for frame in frames]).unique()
    repeated = dated.filter(pl.struct(SESSION_KEY).is_duplicated())
    if not repeated.is_empty():
        organization_id, session_key, day = repeated.sort(*SESSION_KEY, "session_date").row(0)
        raise SeveralDatesError(f"{session_key} of {organization_id} is on {day} and another date")


_AUTOMATIC = [name for name in SCORECARDS.schema.names() if name not in OVERRIDE_COLUMNS]
"""Columns of a card that do not depend on overrides."""


def scorecards(batch: Batch) -> dict[date, BuiltPartition]:
    """Return the cards of the batch, one file per profile version and date.

    Only files of versions that score a session of the date are written. They keep the cards for
    superseded content next to the new ones.
    """
    synced = sync_profiles(batch.stores, batch.now)
    inputs = ScoringInputs.read(batch, synced.registry)
    parts = _parts(batch, inputs)
    cards = rows_by_date(inputs.cards, batch.days)
    sessions = rows_by_date(inputs.sessions, batch.days)
    unassigned = inputs.sessions.join(inputs.assigned, on=SESSION_KEY, how="anti")
    without_profile = unassigned["session_date"].to_list()
    idle_minutes = batch.stores.settings.session_idle_minutes
    # Scheduled before anything is published: an unnecessary rebuild costs only a second.
    for day, windows in rows_by_date(_all_windows(batch), batch.days).items():
        ScheduledRebuilds(batch.stores.ledger).expect(day, first_end(windows, idle_minutes))
    return {
        day: _cards(parts[day], cards[day], sessions[day], synced, without_profile.count(day))
        for day in batch.days
    }


def _all_windows(batch: Batch) -> pl.DataFrame:
    """Return ``session_date, is_terminal, ended_at`` of the sessions of the dates."""
    columns = ["session_date", "ended_at", "explicit_end"]
    sessions = batch.stores.lake.of(ALL_BUCKETS).read(AGENT_SESSIONS, batch.days, columns)
    now = pl.lit(batch.now).cast(UTC_TIME)
    return sessions.with_columns(is_terminal(now, batch.stores.settings.session_idle_minutes))


def _parts(batch: Batch, inputs: ScoringInputs) -> dict[date, dict[str, pl.DataFrame]]:
    """Return the files of each date, by name."""
    texts = WrittenTexts(batch.stores, inputs.sessions)
    parts: dict[date, dict[str, pl.DataFrame]] = {day: {} for day in batch.days}
    for profile, sessions in inputs.by_profile():
        cards = _cards_of(profile, inputs, sessions, texts, batch)
        days = sessions["session_date"].unique().sort().to_list()
        for day, day_cards in rows_by_date(cards, days).items():
            parts[day][f"{profile.id}-v{profile.version}"] = day_cards
    if not batch.stores.lake.shard.is_whole:
        _add_old_parts(parts, inputs.cards)
    return parts


def _add_old_parts(parts: Mapping[date, dict[str, pl.DataFrame]], cards: pl.DataFrame) -> None:
    """Add the files of versions that no longer score a session.

    A file of all sessions is replaced by those of shards: each must have its rows.
    """
    by_version = cards.partition_by("session_date", "profile_id", "profile_version", as_dict=True)
    for (day, profile_id, version), rows in by_version.items():
        if isinstance(day, date):
            parts[day].setdefault(f"{profile_id}-v{version}", rows.sort(SCORECARDS.order))


def _cards_of(
    profile: JudgeProfile,
    inputs: ScoringInputs,
    sessions: pl.DataFrame,
    texts: WrittenTexts,
    batch: Batch,
) -> pl.DataFrame:
    """Return the cards of one profile version: new ones, and those for superseded content."""
    old = inputs.cards.filter(
        pl.col("profile_id") == profile.id,
        pl.col("profile_version") == profile.version,
        pl.col("session_date").is_in(sessions["session_date"].unique().implode()),
    )
    scored = score_cards(
        profile,
        sessions,
        inputs.results,
        texts.search(profile, sessions),
        allow_fallback=batch.stores.settings.allow_fallback,
    )
    now = pl.lit(batch.now).cast(UTC_TIME)
    kept = kept_cards(old, sessions.select(CONTENT_KEY)).select(_AUTOMATIC)
    new = with_scored_at(scored.cards, old, now).select(_AUTOMATIC)
    cards = with_overrides(pl.concat([kept, new]), inputs.overrides)
    table = SCORECARDS
    return cards.select(table.schema.names()).cast(table.schema).sort(table.order)


def _cards(
    parts: Mapping[str, pl.DataFrame],
    old: pl.DataFrame,
    sessions: pl.DataFrame,
    synced: Synced,
    without_profile: int,
) -> BuiltPartition:
    table = SCORECARDS
    written = pl.concat([table.no_rows, *parts.values()])
    part_name = pl.format("{}-v{}", "profile_id", "profile_version")
    cards = pl.concat([old.filter(~part_name.is_in(list(parts))), written])
    return BuiltPartition(
        table,
        cards.sort(table.order),
        (
            keys_are_unique(cards, table),
            cards_are_on_their_scale(cards, table),
            every_card_has_its_session(cards, sessions, table),
            profiles_are_sound(synced.faults, table),
            every_criterion_is_known(synced.registry, table),
        ),
        {
            "cards": written.height,
            "not_ended": int((~sessions["is_terminal"]).sum()),
            "no_profile": without_profile,
        },
        parts,
    )


def session_evaluations(batch: Batch) -> dict[date, BuiltPartition]:
    """Return the effective score of every session of the batch."""
    inputs = ScoringInputs.read(batch, ProfileStore(batch.stores.ledger).registry())
    evaluated = evaluate(
        inputs.sessions.with_columns(composite="performance.composite"),
        inputs.assigned,
        with_overrides(inputs.cards.select(_AUTOMATIC), inputs.overrides),
        _unscored(inputs),
        inputs.overrides,
        inputs.results,
    )
    whole = completed(evaluated, _provisional(batch, inputs), inputs.registry)
    evaluations = rows_by_date(whole, batch.days)
    sessions = rows_by_date(inputs.sessions, batch.days)
    return {day: _evaluations(evaluations[day], sessions[day]) for day in batch.days}


def _provisional(batch: Batch, inputs: ScoringInputs) -> pl.DataFrame:
    """Return PROVISIONAL of the open sessions: their score if they ended now.

    No judge has seen them yet: the composite and the criteria that formulas score count alone.
    """
    is_open = ~pl.col("is_terminal") & pl.col("excluded_by").is_null()
    now_ended = pl.lit(value=True).alias("is_terminal")
    sessions = inputs.sessions.filter(is_open).with_columns(now_ended)
    if sessions.is_empty():
        return PROVISIONAL.to_frame()
    no_results = JUDGE_RESULTS.to_frame()
    as_ended, texts = replace(inputs, sessions=sessions), WrittenTexts(batch.stores, sessions)
    cards = [
        score_cards(profile, rows, no_results, texts.search(profile, rows)).cards
        for profile, rows in as_ended.by_profile()
    ]
    evaluated = evaluate(
        sessions.with_columns(composite="performance.composite"),
        inputs.assigned.join(sessions, on=SESSION_KEY, how="semi"),
        pl.concat(
            [SCORECARDS.no_rows.select(_AUTOMATIC).drop("scored_at"), *cards], how="diagonal"
        ),
        UNSCORED.to_frame(),
        OVERRIDE_ROWS.to_frame(),
        no_results,
    )
    return evaluated.select(*SESSION_KEY, provisional_100="automatic_100")


def _evaluations(evaluations: pl.DataFrame, sessions: pl.DataFrame) -> BuiltPartition:
    table = SESSION_EVALUATIONS
    return BuiltPartition(
        table,
        evaluations,
        (
            keys_are_unique(evaluations, table),
            every_score_has_its_session(evaluations, sessions, table),
            effective_scores_have_a_source(evaluations, table),
        ),
        {
            "evaluated": int(evaluations["effective_100"].is_not_null().sum()),
            "passed": int(evaluations["passed"].sum()),
            "overridden": int((evaluations["effective_source"] == "override").sum()),
            "quality_risks": int(evaluations["quality_risk"].sum()),
        },
    )


def announce(stores: Stores, day: date, built: BuiltPartition, now: datetime) -> Announced:
    """Record the events about a date of SESSION_EVALUATIONS.

    Returns:
        The events that were not recorded before.
    """
    return EventStore(stores.ledger).record(day, announcements(built.frame), now)


def _unscored(inputs: ScoringInputs) -> pl.DataFrame:
    """Return the ended sessions without a card of a profile, with the reason (UNSCORED)."""
    scored = inputs.cards.select(*CONTENT_KEY, "profile_id", "profile_version")
    frames = [UNSCORED.to_frame()]
    for profile, sessions in inputs.by_profile():
        cards = scored.filter(
            pl.col("profile_id") == profile.id, pl.col("profile_version") == profile.version
        )
        missing = sessions.join(cards, on=CONTENT_KEY, how="anti")
        if not missing.is_empty():
            attempt = score_cards(profile, missing, inputs.results, TRIGGERED.to_frame())
            frames.append(attempt.unscored)
    return pl.concat(frames)


def judged_since_build(stores: Stores) -> set[date]:
    """Return the dates with judgments that have changed since the last build.

    Scores are published first, evaluated then: what is newer than either is not in a build.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    published, evaluated = (
        _written(stores, table) for table in (JUDGE_SCORES, SESSION_EVALUATIONS)
    )
    return {
        day
        for day, (_, newest) in ScoreStore(stores.ledger).newest_changes().items()
        if newest is not None and newest >= min(published.get(day, 0), evaluated.get(day, 0))
    }


def _written(stores: Stores, table: Table) -> dict[date, int]:
    """Return when the parts of each date were written, in microseconds: the oldest of them."""
    written: dict[date, int] = {}
    for part in Manifest(stores.ledger).all_current(table.name):
        if part.session_date is not None:
            at = to_us(part.created_at)
            written[part.session_date] = min(at, written.get(part.session_date, at))
    return written
