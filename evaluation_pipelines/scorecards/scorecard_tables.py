"""The daily tables of scorecards and of the effective scores of sessions."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta

import polars as pl

from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.profiles.sync import Synced, sync_profiles
from evaluation_pipelines.schemas import SCORECARDS, SESSION_EVALUATIONS, UTC_TIME
from evaluation_pipelines.schemas.announcement import Announcement
from evaluation_pipelines.schemas.checks import keys_are_unique
from evaluation_pipelines.scorecards.domain.checks import (
    cards_are_on_their_scale,
    effective_scores_have_a_source,
    every_card_has_its_session,
    every_criterion_is_known,
    profiles_are_sound,
)
from evaluation_pipelines.scorecards.domain.disqualifiers import TRIGGERED
from evaluation_pipelines.scorecards.domain.evaluation import evaluate, with_risk
from evaluation_pipelines.scorecards.domain.evaluation_events import announcements
from evaluation_pipelines.scorecards.domain.judged import KEYS
from evaluation_pipelines.scorecards.domain.overrides import with_overrides
from evaluation_pipelines.scorecards.domain.scorecard import (
    UNSCORED,
    keep_times,
    kept_cards,
    score_cards,
)
from evaluation_pipelines.scorecards.ledger.event_store import EventStore
from evaluation_pipelines.scorecards.scoring_inputs import ScoringInputs, Texts
from evaluation_pipelines.sessions.domain.checks import every_score_has_its_session
from evaluation_pipelines.sessions.session_queries import rows_by_date
from evaluation_pipelines.storage.daily_table import Batch, BuiltPartition
from evaluation_pipelines.storage.ledger.rebuild_queue import ScheduledRebuilds
from evaluation_pipelines.storage.stores import Stores

_SESSION = ["organization_id", "session_key"]


def scorecards(batch: Batch) -> dict[date, BuiltPartition]:
    """The cards of some dates, one file per profile version and date.

    Only the versions that count for a session of the date are written, and within them cards of
    content that is no more stay beside the new ones.
    """
    synced = sync_profiles(batch.stores, batch.now)
    known = ScoringInputs.read(batch, synced.registry)
    parts = _parts(batch, known)
    cards = rows_by_date(known.cards, batch.days)
    sessions = rows_by_date(known.sessions, batch.days)
    without = known.sessions.join(known.assigned, on=_SESSION, how="anti")["session_date"].to_list()
    for day in batch.days:
        # Before anything is published: a date that is built again for nothing costs a second.
        ScheduledRebuilds(batch.stores.ledger).expect(day, _first_end(batch.stores, sessions[day]))
    return {
        day: _cards(parts[day], cards[day], sessions[day], synced, without.count(day))
        for day in batch.days
    }


def _parts(batch: Batch, known: ScoringInputs) -> dict[date, dict[str, pl.DataFrame]]:
    """The files of each date, by name."""
    texts = Texts(batch.stores, known.sessions)
    parts: dict[date, dict[str, pl.DataFrame]] = {day: {} for day in batch.days}
    for profile, mine in known.by_profile():
        cards = _cards_of(profile, known, mine, texts, batch)
        days = mine["session_date"].unique().sort().to_list()
        for day, of_day in rows_by_date(cards, days).items():
            parts[day][f"{profile.id}-v{profile.version}"] = of_day
    return parts


def _cards_of(
    profile: JudgeProfile, known: ScoringInputs, mine: pl.DataFrame, texts: Texts, batch: Batch
) -> pl.DataFrame:
    """The files of one profile version: new cards, and those of content that is no more."""
    old = known.cards.filter(
        pl.col("profile_id") == profile.id,
        pl.col("profile_version") == profile.version,
        pl.col("session_date").is_in(mine["session_date"].unique().implode()),
    )
    scored = score_cards(
        profile,
        mine,
        known.results,
        texts.search(profile, mine),
        allow_fallback=batch.stores.settings.allow_fallback,
    )
    now = pl.lit(batch.now).cast(UTC_TIME)
    kept = kept_cards(old, mine.select(KEYS)).select(_bare())
    new = keep_times(scored.cards, old, now).select(_bare())
    cards = with_overrides(pl.concat([kept, new]), known.overrides)
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
    written = pl.concat([table.schema.to_frame(), *parts.values()])
    cards = pl.concat([_others(old, parts), written])
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
    """The effective score of every session of some dates."""
    known = ScoringInputs.read(batch, ProfileStore(batch.stores.ledger).registry())
    evaluated = evaluate(
        known.sessions.with_columns(composite="performance.composite"),
        known.assigned,
        with_overrides(known.cards.select(_bare()), known.overrides),
        _unscored(known),
        known.overrides,
        known.results,
    )
    evaluations = rows_by_date(with_risk(evaluated, known.registry), batch.days)
    sessions = rows_by_date(known.sessions, batch.days)
    return {day: _evaluations(evaluations[day], sessions[day]) for day in batch.days}


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


def announce(
    stores: Stores, day: date, made: BuiltPartition, now: datetime
) -> tuple[Announcement, ...]:
    """Record the events of a date; gives the new ones."""
    told = list(announcements(made.frame))
    return tuple(EventStore(stores.ledger).record(day, told, now))


def _bare() -> list[str]:
    """The columns of a card that do not depend on what people said."""
    human = ("human_override", "effective_score", "effective_100")
    return [name for name in SCORECARDS.schema.names() if name not in human]


def _others(cards: pl.DataFrame, parts: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Cards of files that are not written again."""
    name = pl.format("{}-v{}", "profile_id", "profile_version")
    return cards.filter(~name.is_in(list(parts)))


def _unscored(known: ScoringInputs) -> pl.DataFrame:
    """Why ended sessions have no card of a profile."""
    have = known.cards.select(*KEYS, "profile_id", "profile_version")
    frames = [UNSCORED.to_frame()]
    for profile, mine in known.by_profile():
        cards = have.filter(
            pl.col("profile_id") == profile.id, pl.col("profile_version") == profile.version
        )
        missing = mine.join(cards, on=KEYS, how="anti")
        if not missing.is_empty():
            scored = score_cards(profile, missing, known.results, TRIGGERED.to_frame())
            frames.append(scored.unscored)
    return pl.concat(frames)


def _first_end(stores: Stores, sessions: pl.DataFrame) -> datetime | None:
    """When the first of the sessions that are still open has been silent for long enough."""
    last = sessions.filter(~pl.col("is_terminal"))["ended_at"].min()
    if not isinstance(last, datetime):
        return None
    return last + timedelta(minutes=stores.settings.session_idle_minutes, seconds=1)
