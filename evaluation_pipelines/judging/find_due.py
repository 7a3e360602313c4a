"""Selection of the sessions to judge, with the state of all others."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from uuid import uuid4

import polars as pl

from evaluation_pipelines.judging.domain.due import (
    NIGHTLY,
    ExtraDue,
    Window,
    due_state,
    oldest_first,
    why_not_resumable,
)
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import JudgePlan, Plans, load_plans
from evaluation_pipelines.judging.session_windows import WindowKey, read_windows, window_key
from evaluation_pipelines.profiles.domain.registry import CARD_VERSION
from evaluation_pipelines.schemas import AGENT_SESSIONS, SCORECARDS
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import to_us


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session to judge.

    Attributes:
        window: The session window.
        plan: How it is judged.
        known_scorings: Number of its judgments by the profile when it was selected; ``None`` if it
            does not matter.
        unfinished: An unfinished judgment to resume with its replies; ``None`` to create one.
    """

    window: Window
    plan: JudgePlan
    known_scorings: int | None
    unfinished: Score | None = None

    @property
    def is_request(self) -> bool:
        """Whether a person waits for the score."""
        return self.unfinished is not None and self.unfinished.is_request

    def score_id(self) -> str:
        """Return the id of the unfinished judgment; a new one if there is none."""
        return str(uuid4()) if self.unfinished is None else self.unfinished.score_id

    def new_score(
        self, score_id: str, triggered_by: str, now: datetime, requested_by: str | None = None
    ) -> Score:
        """Return a new judgment of the session; ``requested_by`` waits for it."""
        window, setup = self.window, self.plan.setup
        return Score(
            score_id=score_id,
            organization_id=window.organization_id,
            session_key=window.session_key,
            session_id=window.session_id,
            content_hash=window.content_hash,
            agent_id=window.agent_id,
            agent_model=window.agent_model,
            session_date=window.session_date,
            judge_profile_id=setup.profile_id,
            judge_profile_version=setup.profile_version,
            judge_model=setup.model,
            rubric=setup.rubric,
            prompt_hash=setup.prompt_hash,
            samples=setup.samples,
            score_triggered_by=triggered_by,
            scored_at_us=to_us(now),
            attempt=1,
            status="pending",
            requested_by=requested_by,
        )


@dataclass(slots=True)
class DueSessions:
    """Result of a selection.

    Attributes:
        candidates: Sessions to judge: unfinished judgments first, then the oldest sessions.
        discarded: Unfinished judgments that cannot be resumed, with the reason.
        of_others: The same of a run with another profile or model: a regular one may resume them.
        states: Number of windows by state.
        unreadable: Dates whose sessions cannot be read, with the error.
        outdated: Number of sessions whose scores used another rubric, or another wording of it.
        faults: Number of sessions that wait for a rubric that cannot be used, by what is wrong.
    """

    candidates: list[Candidate] = field(default_factory=list)
    discarded: list[tuple[Score, str]] = field(default_factory=list)
    of_others: list[tuple[Score, str]] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)
    unreadable: dict[date, str] = field(default_factory=dict)
    outdated: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def days(self) -> set[date]:
        """Dates on which a run has something to do."""
        due = {candidate.window.session_date for candidate in self.candidates}
        return due | {score.session_date for score, _ in self.discarded}

    def requested(self) -> "DueSessions":
        """Return the selection with the unfinished judgments alone, such as those of requests."""
        unfinished = [
            candidate for candidate in self.candidates if candidate.unfinished is not None
        ]
        return replace(self, candidates=unfinished)

    def without_requests(self) -> "DueSessions":
        """Return the selection without what people ask for, which every judge serves first."""
        own = [candidate for candidate in self.candidates if not candidate.is_request]
        discarded = [score for score in self.discarded if not score[0].is_request]
        return replace(self, candidates=own, discarded=discarded)


def find_due_in_lake(
    stores: Stores, now: datetime, since: date | None, is_requestable: Callable[[date], bool]
) -> DueSessions:
    """Select the due sessions of the lake.

    Args:
        stores: Lake, ledger and settings.
        now: The time.
        since: First date to search; earlier dates are searched only if they have unfinished
            judgments. ``None`` searches all dates.
        is_requestable: True for a date that a run can be requested for.

    Raises:
        As ``find_due`` and ``load_plans``.
    """
    days = set(stores.lake.partitions(AGENT_SESSIONS))
    if since is not None:
        unfinished = {score.session_date for score in ScoreStore(stores.ledger).open_scores()}
        days = {day for day in days if day >= since} | unfinished
    requestable = sorted(filter(is_requestable, days))
    return find_due(stores, load_plans(stores, now), requestable, now, NIGHTLY)


def find_due(
    stores: Stores,
    plans: Plans,
    days: Sequence[date],
    as_of: datetime,
    extra: ExtraDue,
) -> DueSessions:
    """Select the due sessions of some dates.

    Args:
        stores: Lake, ledger and settings.
        plans: Plans of the run.
        days: Session dates.
        as_of: The time of the run.
        extra: Sessions to judge in addition to the due ones.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    found = DueSessions()
    read, cards = _read_sessions(stores, days, as_of, found)
    windows = {window_key(row): row for row in read}
    past = ScoreStore(stores.ledger).past(days)
    planned = plans.for_windows(windows.values(), cards)
    faults = plans.faults_of(windows.values(), cards)
    due: list[Candidate] = []
    for key, window in windows.items():
        if key in faults:
            found.faults[faults[key]] += window.is_terminal
            continue
        plan = planned[key]
        setup = None if plan is None else plan.setup
        scores = past.get((*key, setup.profile_id), []) if setup else []
        found_state = due_state(window, setup, scores, as_of, extra)
        found.states[found_state.state] += 1
        found.outdated += found_state.is_outdated
        if plan is not None and found_state.state == "due":
            due.append(Candidate(window, plan, len(scores)))
    unfinished = [
        score
        for score in ScoreStore(stores.ledger).open_scores()
        if score.session_date in days
        and score.session_date not in found.unreadable
        and (score.organization_id, score.session_key) not in faults
        and score.status == "pending"
    ]
    is_regular = not plans.overrides.select_profile_or_model
    _resume_or_discard(unfinished, windows, planned, found, is_regular=is_regular)
    found.candidates.extend(sorted(due, key=lambda candidate: oldest_first(candidate.window)))
    return found


def _read_sessions(
    stores: Stores, days: Sequence[date], as_of: datetime, found: DueSessions
) -> tuple[list[Window], pl.DataFrame]:
    """Return windows and cards of the readable dates; a damaged file affects its date alone."""
    windows, cards = list[Window](), [SCORECARDS.no_rows.select(CARD_VERSION)]
    for day in days:
        try:
            day_cards = stores.lake.read(SCORECARDS, [day], list(CARD_VERSION))
            windows += read_windows(stores, [day], as_of, rules=stores.settings.exclude_sessions)
        except LakeError as error:
            found.unreadable[day] = str(error)
        else:
            cards.append(day_cards)
    return windows, pl.concat(cards)


def _resume_or_discard(
    unfinished: Sequence[Score],
    windows: Mapping[WindowKey, Window],
    planned: Mapping[WindowKey, JudgePlan | None],
    found: DueSessions,
    *,
    is_regular: bool,
) -> None:
    """Add unfinished judgments to the candidates or the discarded ones, requests first.

    A run with another profile or model discards none: a regular run may be able to resume them.
    """
    for score in sorted(unfinished, key=lambda score: not score.is_request):
        key = (score.organization_id, score.session_key)
        window, plan = windows.get(key), planned.get(key)
        why = why_not_resumable(score, window, None if plan is None else plan.setup)
        if window is not None and plan is not None and why is None:
            found.candidates.append(Candidate(window, plan, 0, score))
        elif why is not None:
            (found.discarded if is_regular else found.of_others).append((score, why))
