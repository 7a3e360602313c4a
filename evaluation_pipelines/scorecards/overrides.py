"""Overrides: what people say of a score, one by one or from a file."""

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.profiles.domain.matching import assign
from evaluation_pipelines.profiles.domain.profile import ProfileError, Scale
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.scorecards.domain.overrides import newest_of_content, with_states
from evaluation_pipelines.scorecards.ledger.override_store import NewOverride, OverrideStore
from evaluation_pipelines.scorecards.session_lookup import (
    SessionName,
    Target,
    Targets,
    read_targets,
)
from evaluation_pipelines.sessions.score import SessionNotFoundError
from evaluation_pipelines.storage.stores import Stores

LONGEST_NAME = 200
LONGEST_REASON = 4000
CSV_COLUMNS = ("session", "score", "annotator", "reason")
"""What every row of an import must have; ``organization`` and ``profile`` may be there, too."""

_SAME = 1e-9


class OverrideError(UserError, ValueError):
    """An override cannot be taken; the message says why and what is allowed."""


@dataclass(frozen=True, slots=True)
class HumanVerdict:
    """What a person says: a score, or None to confirm the automatic one."""

    score: float | None
    annotator: str
    reason: str


@dataclass(frozen=True, slots=True)
class RecordedOverride:
    """An override as it was stored; ``decides`` says whether it is the score of its session."""

    override_id: int
    new: NewOverride
    decides: bool


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What became of the rows of a file: stored, there already, and bad ones by line number."""

    stored: int
    known: int
    bad: tuple[tuple[int, str], ...]


def override(
    stores: Stores, target: Target, verdict: HumanVerdict, source: str, now: datetime
) -> RecordedOverride:
    """Store what a person says of a score; its date becomes due.

    Raises:
        OverrideError: the score is not on the scale, or somebody or something is not named.
    """
    new = new_override(target, verdict, source)
    (override_id,) = OverrideStore(stores.ledger).add([new], now)
    return RecordedOverride(override_id, new, target.is_best_match)


def new_override(target: Target, verdict: HumanVerdict, source: str) -> NewOverride:
    """An override, checked but not stored.

    Raises:
        OverrideError: as above.
    """
    annotator = _named("annotator", verdict.annotator, LONGEST_NAME)
    reason = _named("reason", verdict.reason, LONGEST_REASON)
    score = _score(target, verdict)
    session, profile = target.session, target.profile
    automatic = target.automatic_score
    return NewOverride(
        organization_id=session["organization_id"],
        session_key=session["session_key"],
        session_date=session["session_date"],
        profile_id=profile.id,
        profile_version=profile.version,
        content_hash=session["content_hash"],
        override_score=score,
        scale_min=profile.scale.min,
        scale_max=profile.scale.max,
        automatic_score=automatic,
        is_confirmation=automatic is not None and abs(score - automatic) <= _SAME,
        source=source,
        annotator=annotator,
        reason=reason,
    )


def import_overrides(
    stores: Stores, lines: Iterable[str], now: datetime, *, skip_bad: bool = False
) -> ImportResult:
    """Store the overrides of a CSV file; none at all if a row is bad, unless those are skipped.

    A row that says what already counts is not stored again, so that a mended file can be imported
    as a whole.

    Raises:
        OverrideError: the file has no heading, or lacks a column.
    """
    rows = list(_rows(lines))
    named = {str(row["session"] or "").strip() for _, row in rows}
    targets = read_targets(stores, ProfileStore(stores.ledger).registry(), named)
    good: list[NewOverride] = []
    bad: list[tuple[int, str]] = []
    for number, row in rows:
        try:
            good.append(_from_row(targets, row))
        except (OverrideError, ProfileError, SessionNotFoundError) as error:
            bad.append((number, str(error)))
    if bad and not skip_bad:
        return ImportResult(0, 0, tuple(bad))
    counting = _counting(stores, good)
    new = [each for each in dict.fromkeys(good) if _said(each) not in counting]
    OverrideStore(stores.ledger).add(new, now)
    return ImportResult(len(new), len(good) - len(new), tuple(bad))


def overrides_with_states(stores: Stores) -> pl.DataFrame:
    """OVERRIDES: everything people ever said, and whether it counts now."""
    told = OverrideStore(stores.ledger).of_dates()
    dates = sorted(told["session_date"].unique())
    sessions = stores.lake.read(AGENT_SESSIONS, dates)
    best = assign(sessions, ProfileStore(stores.ledger).registry()).filter("is_best_match")
    named = best.select("organization_id", "session_key", best_profile_id="profile_id")
    return with_states(
        told, sessions.join(named, on=["organization_id", "session_key"], how="left")
    )


def _score(target: Target, verdict: HumanVerdict) -> float:
    scale = target.profile.scale
    if verdict.score is None:
        if target.automatic_score is None:
            raise OverrideError(
                f"{target.session['session_key']} has no automatic score of {target.profile.id} "
                "that could be confirmed: give a score"
            )
        return target.automatic_score
    if not _is_on(scale, verdict.score):
        raise OverrideError(
            f"score {verdict.score:g} is not on the scale of {target.profile.id}, "
            f"{scale.min:g} to {scale.max:g}"
        )
    return verdict.score


def _is_on(scale: Scale, score: float) -> bool:
    return math.isfinite(score) and scale.min <= score <= scale.max


def _named(what: str, text: str, longest: int) -> str:
    said = text.strip()
    if not said:
        raise OverrideError(f"{what} is empty: a correction without it helps nobody")
    if len(said) > longest:
        raise OverrideError(f"{what} has {len(said)} letters, {longest} are the most")
    return said


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, dict[str | None, object]]]:
    reader = csv.DictReader(lines, restval=None, strict=True)
    try:
        missing = [each for each in CSV_COLUMNS if each not in (reader.fieldnames or ())]
        if missing:
            columns = ", ".join(CSV_COLUMNS)
            found = ", ".join(repr(each) for each in reader.fieldnames or ()) or "none"
            raise OverrideError(
                f"the heading lacks {', '.join(missing)}; found: {found}. Columns are parted by "
                f"commas: {columns} and, where they are needed, organization and profile"
            )
        for row in reader:
            yield reader.line_num, dict(row)
    except csv.Error as error:
        raise OverrideError(f"line {reader.line_num} is not CSV: {error}") from None


def _from_row(targets: Targets, row: dict[str | None, object]) -> NewOverride:
    if None in row:
        raise OverrideError("it has more cells than the heading")
    texts = {str(name): str(value or "").strip() for name, value in row.items()}
    try:
        score = float(texts["score"])
    except ValueError:
        raise OverrideError(f"score {texts['score']!r} is not a number") from None
    if not texts["session"]:
        raise OverrideError("session is empty")
    organization, profile = (texts.get(each) or None for each in ("organization", "profile"))
    target = targets.find(SessionName(texts["session"], organization, profile))
    return new_override(target, HumanVerdict(score, texts["annotator"], texts["reason"]), "import")


def _counting(stores: Stores, new: Iterable[NewOverride]) -> set[tuple[object, ...]]:
    """What people's newest overrides on the dates of some new ones say."""
    told = OverrideStore(stores.ledger).of_dates({each.session_date for each in new})
    said = newest_of_content(told).select(_SAID)
    return set(said.iter_rows())


_SAID = (
    "organization_id",
    "session_key",
    "profile_id",
    "content_hash",
    "override_score",
    "annotator",
    "reason",
)


def _said(new: NewOverride) -> tuple[object, ...]:
    return tuple(getattr(new, name) for name in _SAID)
