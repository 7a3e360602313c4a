"""The daily tables of scorecards and of the effective scores of sessions."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import polars as pl

from evaluation_pipelines.domain import quality
from evaluation_pipelines.domain.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
    UTC_TIME,
)
from evaluation_pipelines.domain.scorecards import rules
from evaluation_pipelines.domain.scorecards.announcements import Announcement, announcements
from evaluation_pipelines.domain.scorecards.disqualifiers import (
    EVENT_COLUMNS,
    TRIGGERED,
    triggered,
    written_texts,
)
from evaluation_pipelines.domain.scorecards.evaluation import evaluate, is_terminal, with_risk
from evaluation_pipelines.domain.scorecards.heuristics import evidence
from evaluation_pipelines.domain.scorecards.judged import KEYS
from evaluation_pipelines.domain.scorecards.matching import assign
from evaluation_pipelines.domain.scorecards.overrides import with_overrides
from evaluation_pipelines.domain.scorecards.profile import JudgeProfile
from evaluation_pipelines.domain.scorecards.registry import Registry
from evaluation_pipelines.domain.scorecards.scorecard import (
    UNSCORED,
    keep_times,
    kept_cards,
    score_cards,
)
from evaluation_pipelines.domain.sessions.exclusions import excluded_by
from evaluation_pipelines.stages.daily_table import Batch, Made
from evaluation_pipelines.stages.profiles import Synced, sync_profiles
from evaluation_pipelines.stages.scoring_inputs import judge_results, tool_effectiveness
from evaluation_pipelines.stages.stores import Stores

_SESSION = ["organization_id", "session_key"]


@dataclass(frozen=True, slots=True)
class _Day:
    """Everything that the cards of one date are made from.

    ``sessions`` are evidence of all windows with ``is_terminal`` and ``excluded_by``, ``assigned``
    ASSIGNMENTS, ``results`` JUDGE_RESULTS, ``cards`` SCORECARDS as they lie in the lake,
    ``overrides`` OVERRIDE_ROWS.
    """

    sessions: pl.DataFrame
    assigned: pl.DataFrame
    results: pl.DataFrame
    cards: pl.DataFrame
    overrides: pl.DataFrame
    registry: Registry

    @classmethod
    def read(cls, batch: Batch, day: date, registry: Registry) -> "_Day":
        stores, lake = batch.stores, batch.stores.lake
        if day not in batch.evidence:
            batch.evidence[day] = _evidence(batch, day)
        sessions = batch.evidence[day]
        return cls(
            sessions,
            assign(sessions, registry),
            judge_results(stores, day),
            lake.read(SCORECARDS, [day]),
            stores.ledger.overrides.of_dates([day]),
            registry,
        )

    def by_profile(self) -> Iterator[tuple[JudgeProfile, pl.DataFrame]]:
        """Each profile version that counts for ended sessions, with the evidence of these.

        Without sessions that a rule leaves out.
        """
        ended = self.sessions.filter("is_terminal", pl.col("excluded_by").is_null())
        versions = self.assigned.select("profile_id", "profile_version").unique().sort(pl.all())
        for profile_id, version in versions.iter_rows():
            which = self.assigned.filter(
                pl.col("profile_id") == profile_id, pl.col("profile_version") == version
            ).select(*_SESSION, "is_best_match")
            mine = ended.join(which, on=_SESSION, how="inner", maintain_order="left")
            if not mine.is_empty():
                yield self.registry.find(profile_id, version).profile, mine


def _evidence(batch: Batch, day: date) -> pl.DataFrame:
    stores = batch.stores
    return evidence(
        stores.lake.read(AGENT_SESSIONS, [day]),
        stores.lake.read(SESSION_PERFORMANCE, [day]),
        tool_effectiveness(stores, day),
    ).with_columns(
        is_terminal(_time(batch.now), stores.settings.session_idle_minutes),
        excluded_by(stores.settings.exclude_sessions),
    )


def scorecards(batch: Batch) -> dict[date, Made]:
    """The cards of some dates, one file per profile version and date.

    Only the versions that count for a session of the date are written, and within them cards of
    content that is no more stay beside the new ones.
    """
    synced = sync_profiles(batch.stores, batch.now)
    return {day: _cards(batch, day, synced) for day in batch.days}


def _cards(batch: Batch, day: date, synced: Synced) -> Made:
    stores, now = batch.stores, batch.now
    known = _Day.read(batch, day, synced.registry)
    texts = _Texts(stores, day, known.sessions)
    parts = {
        f"{profile.id}-v{profile.version}": _file(profile, known, mine, texts, stores, now)
        for profile, mine in known.by_profile()
    }
    # Before anything is published: a date that is built again for nothing costs a second.
    stores.ledger.waiting.expect(day, _first_end(stores, known.sessions))
    table = SCORECARDS
    cards = pl.concat([table.schema.to_frame(), _others(known.cards, parts), *parts.values()])
    written = pl.concat([table.schema.to_frame(), *parts.values()])
    return Made(
        table,
        cards.sort(table.order),
        (
            quality.keys_are_unique(cards, table),
            rules.cards_are_on_their_scale(cards, table),
            rules.every_card_has_its_session(cards, known.sessions, table),
            rules.profiles_are_sound(synced.faults, table),
            rules.every_criterion_is_known(synced.registry, table),
        ),
        {
            "cards": written.height,
            "not_ended": int((~known.sessions["is_terminal"]).sum()),
            "no_profile": _without_profile(known),
        },
        parts,
    )


def session_evaluations(batch: Batch) -> dict[date, Made]:
    """The effective score of every session of some dates."""
    registry = batch.stores.ledger.profiles.registry()
    return {day: _evaluations(_Day.read(batch, day, registry)) for day in batch.days}


def _evaluations(known: _Day) -> Made:
    sessions = known.sessions.with_columns(composite="performance.composite")
    evaluated = evaluate(
        sessions,
        known.assigned,
        with_overrides(known.cards.select(_bare()), known.overrides),
        _unscored(known),
        known.overrides,
        known.results,
    )
    evaluations = with_risk(evaluated, known.registry)
    table = SESSION_EVALUATIONS
    return Made(
        table,
        evaluations,
        (
            quality.keys_are_unique(evaluations, table),
            quality.every_score_has_its_session(evaluations, known.sessions, table),
            rules.effective_scores_have_a_source(evaluations, table),
        ),
        {
            "evaluated": int(evaluations["effective_100"].is_not_null().sum()),
            "passed": int(evaluations["passed"].sum()),
            "overridden": int((evaluations["effective_source"] == "override").sum()),
            "quality_risks": int(evaluations["quality_risk"].sum()),
        },
    )


def announce(stores: Stores, day: date, made: Made, now: datetime) -> tuple[Announcement, ...]:
    """Record the events of a date; gives the new ones."""
    told = list(announcements(made.frame))
    return tuple(stores.ledger.evaluation_events.record(day, told, now))


class _Texts:
    """What agents wrote on a date, read only if somebody asks, and then once."""

    def __init__(self, stores: Stores, day: date, sessions: pl.DataFrame) -> None:
        self._stores, self._day, self._sessions = stores, day, sessions
        self._read: pl.DataFrame | None = None

    def search(self, profile: JudgeProfile, mine: pl.DataFrame) -> pl.DataFrame:
        """TRIGGERED of some sessions; empty for a profile without disqualifiers."""
        if not profile.disqualifiers:
            return TRIGGERED.to_frame()
        if self._read is None:
            events = self._stores.lake.read(AGENT_EVENTS, [self._day], EVENT_COLUMNS)
            self._read = written_texts(events, self._sessions)
        texts = self._read.join(mine.select(_SESSION), on=_SESSION, how="semi")
        return triggered(texts, profile.disqualifiers)


def _file(
    profile: JudgeProfile,
    known: _Day,
    mine: pl.DataFrame,
    texts: _Texts,
    stores: Stores,
    now: datetime,
) -> pl.DataFrame:
    """The file of one profile version: its new cards, and those of content that is no more."""
    old = known.cards.filter(
        pl.col("profile_id") == profile.id, pl.col("profile_version") == profile.version
    )
    scored = score_cards(
        profile,
        mine,
        known.results,
        texts.search(profile, mine),
        allow_fallback=stores.settings.allow_fallback,
    )
    kept = kept_cards(old, mine.select(KEYS)).select(_bare())
    new = keep_times(scored.cards, old, _time(now)).select(_bare())
    cards = with_overrides(pl.concat([kept, new]), known.overrides)
    table = SCORECARDS
    return cards.select(table.schema.names()).cast(table.schema).sort(table.order)


def _bare() -> list[str]:
    """The columns of a card that do not depend on what people said."""
    human = ("human_override", "effective_score", "effective_100")
    return [name for name in SCORECARDS.schema.names() if name not in human]


def _others(cards: pl.DataFrame, parts: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Cards of files that are not written again."""
    name = pl.format("{}-v{}", "profile_id", "profile_version")
    return cards.filter(~name.is_in(list(parts)))


def _unscored(known: _Day) -> pl.DataFrame:
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


def _without_profile(known: _Day) -> int:
    return known.sessions.join(known.assigned, on=_SESSION, how="anti").height


def _first_end(stores: Stores, sessions: pl.DataFrame) -> datetime | None:
    """When the first of the sessions that are still open has been silent for long enough."""
    last = sessions.filter(~pl.col("is_terminal"))["ended_at"].min()
    if not isinstance(last, datetime):
        return None
    return last + timedelta(minutes=stores.settings.session_idle_minutes, seconds=1)


def _time(now: datetime) -> pl.Expr:
    return pl.lit(now).cast(UTC_TIME)
