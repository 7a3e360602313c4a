"""Overrides of scores by people, recorded one by one or imported from a file."""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.profiles.domain.profile import ProfileError, Scale
from evaluation_pipelines.profiles.domain.registry import CARD_VERSION, assign
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import AGENT_SESSIONS, CONTENT_KEY, SCORECARDS, SESSION_KEY
from evaluation_pipelines.scorecards.domain.evaluation import matches_that_score
from evaluation_pipelines.scorecards.domain.overrides import newest_by_content, with_states
from evaluation_pipelines.scorecards.scorecard_queries import (
    SessionLookup,
    Target,
    read_session_lookup,
)
from evaluation_pipelines.scorecards.store import NewOverride, OverrideStore
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.sessions.find import SessionName, chosen_rows
from evaluation_pipelines.storage.stores import Stores

MAX_NAME_CHARACTERS = 200
MAX_REASON_CHARACTERS = 4000
CSV_COLUMNS = ("session", "score", "annotator", "reason")
"""Required columns of an import."""

OPTIONAL_CSV_COLUMNS = ("organization", "profile", "criterion")
"""Columns of an import that may be missing; all others are ignored."""

_OF_SESSION = (*CONTENT_KEY, "classification_label")
_TOLERANCE = 1e-9
_PLAIN_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
_CONTENT_FIELDS = (
    *(*SESSION_KEY, "profile_id", "content_hash"),
    *("override_score", "annotator", "reason", "criterion_id"),
)
"""Fields in which two overrides must be equal to be the same."""


class OverrideError(UserError, ValueError):
    """An override is not valid; the message says why and what is allowed."""


@dataclass(frozen=True, slots=True)
class HumanVerdict:
    """A score by a person; ``None`` confirms the automatic score.

    ``criterion`` is the id of the criterion that the person found wrong, and ``recorded_by`` the
    name of the key with which a program sent the score.
    """

    score: float | None
    annotator: str
    reason: str
    criterion: str | None = None
    recorded_by: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedOverride:
    """A stored override, and the score that it corrects."""

    override_id: int
    new: NewOverride
    target: Target


@dataclass(frozen=True, slots=True)
class ImportResult:
    """Result of an import.

    Attributes:
        stored: Number of stored rows.
        known: Number of rows that were not stored because they repeat the current override.
        bad: Line number and error of each bad row.
    """

    stored: int
    known: int
    bad: tuple[tuple[int, str], ...]


def plain_number(text: str) -> float:
    """Return a decimal number as people write it: ASCII digits, no exponent, no underscores.

    Python reads ``1_0`` as 10, which is more likely a slip of the keys.

    Raises:
        ValueError: It is none.
    """
    if _PLAIN_NUMBER.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a plain decimal number")
    return float(text)


def override(
    stores: Stores, target: Target, verdict: HumanVerdict, source: str, now: datetime
) -> RecordedOverride:
    """Store an override, and make its date due for a build.

    Raises:
        OverrideError: The score is not on the scale, annotator or reason is empty or too long, or
            the profile has no such criterion.
    """
    new = new_override(target, verdict, source)
    (override_id,) = OverrideStore(stores.ledger).add([new], now)
    return RecordedOverride(override_id, new, target)


def new_override(target: Target, verdict: HumanVerdict, source: str) -> NewOverride:
    """Return a valid override to store.

    Raises:
        OverrideError: As in :func:`override`.
    """
    annotator = checked_annotator(verdict.annotator)
    reason = _checked_text("reason", verdict.reason, MAX_REASON_CHARACTERS)
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
        is_confirmation=automatic is not None and abs(score - automatic) <= _TOLERANCE,
        source=source,
        annotator=annotator,
        reason=reason,
        criterion_id=_criterion(target, verdict),
        recorded_by=verdict.recorded_by,
    )


def checked_annotator(annotator: str) -> str:
    """Return the name of a reviewer without blanks around it.

    Raises:
        OverrideError: The name is empty or too long.
    """
    return _checked_text("annotator", annotator, MAX_NAME_CHARACTERS)


def import_overrides(
    stores: Stores, lines: Iterable[str], now: datetime, *, skip_bad: bool = False
) -> ImportResult:
    """Store the overrides of a CSV file.

    If a row is bad, nothing is stored unless ``skip_bad`` is set. A row that repeats the current
    override is not stored again, so that a corrected file can be imported as a whole.

    Args:
        stores: Lake and ledger.
        lines: The file, with a heading.
        now: Time of the overrides.
        skip_bad: Whether to store the good rows of a file with bad ones.

    Raises:
        OverrideError: The file is not CSV, has no heading, lacks a column, or has one twice.
    """
    rows = list(_rows(lines))
    names = {str(row["session"] or "").strip() for _, row in rows}
    lookup = read_session_lookup(stores, names)
    good: list[NewOverride] = []
    bad: list[tuple[int, str]] = []
    for number, row in rows:
        try:
            good.append(_from_row(lookup, row))
        except (OverrideError, ProfileError, SessionNotFoundError) as error:
            bad.append((number, str(error)))
    if bad and not skip_bad:
        return ImportResult(0, 0, tuple(bad))
    current = _current_contents(stores, good)
    new = [override for override in dict.fromkeys(good) if _content_of(override) not in current]
    OverrideStore(stores.ledger).add(new, now)
    return ImportResult(len(new), len(good) - len(new), tuple(bad))


def overrides_with_states(stores: Stores, which: SessionFilter = ALL_SESSIONS) -> pl.DataFrame:
    """Return all overrides of chosen sessions, with the state that says whether they count.

    Returns:
        OVERRIDES; also those that do not count.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    overrides = OverrideStore(stores.ledger).of_dates()
    dates = sorted(overrides["session_date"].unique())
    sessions = stores.lake.read(AGENT_SESSIONS, dates, _OF_SESSION)
    cards = stores.lake.read(SCORECARDS, dates, CARD_VERSION)
    assigned = assign(sessions, ProfileStore(stores.ledger).registry(), cards)
    counting = matches_that_score(assigned, sessions, cards).filter("is_best_match")
    best = counting.select(*SESSION_KEY, best_profile_id="profile_id")
    found = with_states(overrides, sessions.join(best, on=SESSION_KEY, how="left"))
    return chosen_rows(stores.lake, which, found)


def _score(target: Target, verdict: HumanVerdict) -> float:
    scale = target.profile.scale
    if verdict.score is None:
        if target.automatic_score is None:
            raise OverrideError(
                f"{target.session['session_key']} has no automatic score of {target.profile.id} "
                "to confirm: give a score"
            )
        return target.automatic_score
    if not _is_on(scale, verdict.score):
        raise OverrideError(
            f"score {verdict.score:g} is not on the scale of {target.profile.id}, "
            f"{scale.min:g} to {scale.max:g}"
        )
    return verdict.score


def _criterion(target: Target, verdict: HumanVerdict) -> str | None:
    name, profile = verdict.criterion, target.profile
    if name is None:
        return None
    if verdict.score is None:
        raise OverrideError("a confirmation is of the whole score: omit the criterion")
    if name not in profile.criterion_ids:
        near = get_close_matches(name, profile.criterion_ids, n=3)
        hint = f", did you mean {' or '.join(near)}?" if near else "."
        raise OverrideError(
            f"{profile.id} version {profile.version} has no criterion {name}{hint} "
            f"Its criteria: {', '.join(profile.criterion_ids)}."
        )
    return name


def _is_on(scale: Scale, score: float) -> bool:
    return math.isfinite(score) and scale.min <= score <= scale.max


def _checked_text(name: str, text: str, max_characters: int) -> str:
    stripped = text.strip()
    if not stripped:
        raise OverrideError(f"{name} is empty: an override needs one")
    if len(stripped) > max_characters:
        raise OverrideError(
            f"{name} has {len(stripped)} characters, the maximum is {max_characters}"
        )
    return stripped


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, dict[str | None, object]]]:
    reader = csv.DictReader(lines, restval=None, strict=True)
    try:
        _check_heading(reader.fieldnames or ())
        for row in reader:
            yield reader.line_num, dict(row)
    except csv.Error as error:
        raise OverrideError(f"line {reader.line_num} is not CSV: {error}") from None


def _check_heading(names: Sequence[str]) -> None:
    if missing := [column for column in CSV_COLUMNS if column not in names]:
        found = ", ".join(map(repr, names)) or "none"
        raise OverrideError(
            f"the heading lacks {', '.join(missing)}, found: {found}. Columns are separated by "
            f"commas: {', '.join(CSV_COLUMNS)} and, if needed, {', '.join(OPTIONAL_CSV_COLUMNS)}"
        )
    # Of a column that occurs twice, the reader would silently take the last.
    columns = (*CSV_COLUMNS, *OPTIONAL_CSV_COLUMNS)
    if repeated := [column for column in columns if names.count(column) > 1]:
        raise OverrideError(
            f"the heading has {', '.join(repeated)} more than once: remove all but one of them"
        )


def _from_row(lookup: SessionLookup, row: dict[str | None, object]) -> NewOverride:
    if None in row:
        raise OverrideError("the row has more cells than the heading")
    texts = {str(name): str(value or "").strip() for name, value in row.items()}
    try:
        score = plain_number(texts["score"])
    except ValueError:
        raise OverrideError(f"score {texts['score']!r} is not a number") from None
    if not texts["session"]:
        raise OverrideError("session is empty")
    organization, profile, criterion = (
        texts.get(column) or None for column in OPTIONAL_CSV_COLUMNS
    )
    target = lookup.find(SessionName(texts["session"], organization, profile))
    verdict = HumanVerdict(score, texts["annotator"], texts["reason"], criterion)
    return new_override(target, verdict, "import")


def _current_contents(stores: Stores, new: Iterable[NewOverride]) -> set[tuple[object, ...]]:
    """Return the contents of the newest stored overrides on the dates of new ones."""
    stored = OverrideStore(stores.ledger).of_dates({override.session_date for override in new})
    return set(newest_by_content(stored).select(_CONTENT_FIELDS).iter_rows())


def _content_of(new: NewOverride) -> tuple[object, ...]:
    return tuple(getattr(new, name) for name in _CONTENT_FIELDS)
