"""Blind reviews: the audit sample, hidden scores, and the agreement of scores with people.

Sessions are drawn at night; their scores are hidden until a person has answered.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from threading import Lock
from typing import TypeAlias

import polars as pl

from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.domain.registry import Registry
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
)
from evaluation_pipelines.scorecards.domain.audit import STRATUM, WINDOW_DAYS, draw, reconstructed
from evaluation_pipelines.scorecards.domain.calibration import Agreement, Lean, agreements, leans
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.scorecard_queries import read_session_lookup
from evaluation_pipelines.scorecards.store import (
    AuditSample,
    OverrideStore,
    note_step,
    sessions_seen,
    sessions_that_left,
)
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.stores import Stores


def open_samples(stores: Stores) -> list[AuditSample]:
    """Return the samples that still get an answer, the oldest first."""
    unanswered = [
        sample for sample in OverrideStore(stores.ledger).samples() if sample.override_id is None
    ]
    left = sessions_that_left(stores.ledger) if unanswered else ()
    return [sample for sample in unanswered if sample.key not in left]


def waiting_samples(stores: Stores, organization: str | None) -> list[AuditSample]:
    """Return the samples without an answer of one organization, or of all, the oldest first."""
    return [
        sample for sample in open_samples(stores) if organization in {None, sample.organization_id}
    ]


_State: TypeAlias = tuple[object, ...]


class BlindReviews:
    """The sessions that wait for a blind review; threads may share one.

    A session waits from the night that draws it until its first answer. A person who has seen
    its score is not asked for it, and it does not wait for them.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._lock = Lock()
        self._known: tuple[_State, frozenset[SessionKey]] | None = None

    def waiting(self) -> frozenset[SessionKey]:
        """Return all sessions that wait. Raises LedgerError and LakeError."""
        samples = open_samples(self._stores)
        if not samples:
            return frozenset()
        registry = ProfileStore(self._stores.ledger).registry()
        state = self._state(samples, registry)
        with self._lock:
            if self._known is None or self._known[0] != state:
                keys = frozenset(sample.key for sample in samples)
                self._known = state, keys - gone(self._stores, samples)
            return self._known[1]

    def waiting_for(self, names: Collection[str]) -> frozenset[SessionKey]:
        """Return the sessions that wait for the reviewer with these names. Raises as above."""
        found = self.waiting()
        return found - sessions_seen(self._stores.ledger, names) if found else found

    def _state(self, samples: Collection[AuditSample], registry: Registry) -> _State:
        """Return what ``gone`` depends on: samples, files and profiles."""
        days = sorted({sample.session_date for sample in samples})
        files = [
            part.path
            for table in (AGENT_SESSIONS, SCORECARDS)
            for part in self._stores.lake.parts(table, days)
        ]
        profiles = [
            (registered.profile.id, registered.profile.version) for registered in registry.newest()
        ]
        return (sorted(sample.key for sample in samples), files, profiles)


def note_request(stores: Stores, by: str, key: SessionKey, now: datetime) -> None:
    """Record that a person asked the judge for the score of a session, and therefore sees it.

    A session that waits for a blind review leaves the sample: its score is no longer one that
    nothing but chance has selected.
    """
    waits = key in {sample.key for sample in open_samples(stores)}
    note_step(stores.ledger, by, "leave" if waits else "look", now, key)


def gone(stores: Stores, samples: Collection[AuditSample]) -> frozenset[SessionKey]:
    """Return the keys of samples that can no longer be reviewed.

    The session no longer exists, or its profile no longer scores it.
    """
    lookup = read_session_lookup(stores, {sample.session_key for sample in samples})
    found = set[SessionKey]()
    for sample in samples:
        name = SessionName(sample.session_key, sample.organization_id, sample.profile_id)
        try:
            lookup.find(name)
        except (SessionNotFoundError, ProfileError):
            found.add(sample.key)
    return frozenset(found)


CATCH_UP_DAYS = 7
"""Number of days for which a missed sample is drawn later."""

OPEN_DAYS = 7
"""Number of days for which a sample without an answer counts as audited: then it may never be."""

_NEEDED = [*SESSION_KEY, "content_hash", *STRATUM, "scorecard_100", "session_date"]
_SAMPLE = {
    "session_date": pl.Date,
    **dict.fromkeys((*SESSION_KEY, "profile_id"), pl.String),
    "profile_version": pl.Int64,
    **dict.fromkeys(("classification_label", "model"), pl.String),
    "inclusion_probability": pl.Float64,
}


def undrawn_dates(stores: Stores, today: date) -> list[date]:
    """Return the dates of the last week, up to yesterday, with sessions and without a sample."""
    drawn = {sample.session_date for sample in OverrideStore(stores.ledger).samples()}
    return [
        day
        for day in stores.lake.partitions(SESSION_EVALUATIONS)
        if 0 < (today - day).days <= CATCH_UP_DAYS and day not in drawn
    ]


def draw_samples(stores: Stores, dates: Iterable[date], now: datetime) -> int:
    """Draw the samples of ``dates``, the oldest first; samples that were drawn do not change.

    Sessions without any text are not drawn: there is nothing to judge.

    Returns:
        The number of new sessions.
    """
    size, store = stores.settings.audit_sample_size, OverrideStore(stores.ledger)
    days, samples, left = sorted(dates), store.samples(), sessions_that_left(stores.ledger)
    evaluations = stores.lake.read(SESSION_EVALUATIONS, _windows(days), _NEEDED)
    store.complete(_reconstructed(samples, evaluations))
    new: list[AuditSample] = []
    for day in days:
        first = day - timedelta(days=WINDOW_DAYS - 1)
        recent = evaluations.filter(pl.col("session_date").is_between(first, day))
        stayed = [sample for sample in samples if sample.key not in left]
        drawn = draw(_with_texts(stores, recent), _audited([*stayed, *new], day, now), day, size)
        new += [
            AuditSample(session_date=day, drawn_at=now, **row)
            for row in drawn.iter_rows(named=True)
        ]
    return store.add_samples(new)


def calibration(stores: Stores, overrides: pl.DataFrame) -> list[Agreement]:
    """Return the agreement of automatic and human scores per profile version.

    Args:
        stores: The stores.
        overrides: OVERRIDES.
    """
    return agreements(_with_facts(stores, overrides))


def _with_texts(stores: Stores, evaluations: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of sessions of which some text was logged."""
    days = evaluations["session_date"].unique().sort()
    is_bare = pl.col("content_level") == "none"
    bare = stores.lake.read(AGENT_SESSIONS, days, SESSION_KEY, is_bare)
    return evaluations.join(bare, on=SESSION_KEY, how="anti", maintain_order="left")


def _with_facts(stores: Stores, overrides: pl.DataFrame) -> pl.DataFrame:
    """Add ``person_id`` and ``inclusion_probability`` to OVERRIDES; null if unknown.

    Sessions that left the sample are represented by the others of their draw.
    """
    dates = overrides["session_date"].unique().sort()
    people = stores.lake.read(AGENT_SESSIONS, dates, [*SESSION_KEY, "person_id"])
    key, draw_of = [*SESSION_KEY, "profile_id"], ["session_date", *STRATUM]
    samples = OverrideStore(stores.ledger).samples()
    left = sessions_that_left(stores.ledger)
    drawn = (
        _frame(samples)
        .with_columns(left=pl.Series([sample.key in left for sample in samples], dtype=pl.Boolean))
        .with_columns(share=(~pl.col("left")).sum().over(draw_of) / pl.len().over(draw_of))
        .filter(~pl.col("left"), pl.col("inclusion_probability").is_not_null())
        .select(*key, inclusion_probability=pl.col("inclusion_probability") * pl.col("share"))
        .unique(key, keep="last", maintain_order=True)
    )
    return overrides.join(people, on=SESSION_KEY, how="left").join(drawn, on=key, how="left")


def _frame(samples: Iterable[AuditSample]) -> pl.DataFrame:
    rows = [tuple(getattr(sample, name) for name in _SAMPLE) for sample in samples]
    return pl.DataFrame(rows, schema=_SAMPLE, orient="row")


def _windows(days: Iterable[date]) -> list[date]:
    """Return the dates of all windows that end on one of ``days``, in order."""
    return sorted({day - timedelta(days=ago) for day in days for ago in range(WINDOW_DAYS)})


def _reconstructed(samples: Sequence[AuditSample], evaluations: pl.DataFrame) -> list[AuditSample]:
    """Return older samples with stratum and probability, if these can be known."""
    unknown = [sample for sample in samples if sample.inclusion_probability is None]
    names = ("profile_version", "classification_label", "model", "inclusion_probability")
    found = list[AuditSample]()
    for day in dict.fromkeys(sample.session_date for sample in unknown):
        of_date = {sample.key: sample for sample in unknown if sample.session_date == day}
        for row in reconstructed(evaluations, _frame(of_date.values()), day).to_dicts():
            sample = of_date[row["organization_id"], row["session_key"]]
            found.append(replace(sample, **{name: row[name] for name in names}))
    return found


def _audited(samples: Sequence[AuditSample], day: date, now: datetime) -> pl.DataFrame:
    """Return the strata of the samples of a window that were answered or can be expected to be."""
    opened = now - timedelta(days=OPEN_DAYS)
    return _frame(
        sample
        for sample in samples
        if 0 <= (day - sample.session_date).days < WINDOW_DAYS
        and (sample.override_id is not None or sample.drawn_at >= opened)
    ).select(STRATUM)


def profile_leans(stores: Stores, overrides: pl.DataFrame) -> list[Lean]:
    """Return the lean of each corrected profile version, and of each criterion named there.

    Args:
        stores: The stores.
        overrides: OVERRIDES.
    """
    registry = ProfileStore(stores.ledger).registry()
    return leans(
        overrides,
        {version.key: len(version.profile.criterion_ids) for version in registry.versions},
    )
