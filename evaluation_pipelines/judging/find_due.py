"""Which sessions are to be judged now, and where all others stand."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from evaluation_pipelines.judging.domain.due import (
    NIGHTLY,
    DueState,
    ExtraDue,
    Window,
    oldest_first,
    standing,
    why_not_continued,
)
from evaluation_pipelines.judging.domain.score import Score
from evaluation_pipelines.judging.ledger.score_records import NewScore
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import JudgePlan, Plans, load_plans
from evaluation_pipelines.judging.session_windows import WindowKey, key_of, read_windows
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.lease_owner import is_gone
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import to_us


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session to be judged.

    ``unfinished`` is a scoring of it that nobody works on, with the replies it has so far; ``seen``
    counts the scorings by its profile that were there when it was looked at.
    """

    window: Window
    plan: JudgePlan
    seen: int
    unfinished: Score | None = None

    def new_score(self, score_id: str, triggered_by: str) -> NewScore:
        """A scoring of it that is to begin."""
        window, judging = self.window, self.plan.judging
        return NewScore(
            score_id=score_id,
            organization_id=window.organization_id,
            session_key=window.session_key,
            session_id=window.session_id,
            content_hash=window.content_hash,
            agent_id=window.agent_id,
            agent_model=window.agent_model,
            session_date=window.session_date,
            judge_profile_id=judging.profile_id,
            judge_profile_version=judging.profile_version,
            judge_model=judging.model,
            rubric=judging.rubric,
            prompt_hash=judging.prompt_hash,
            samples=judging.samples,
            score_triggered_by=triggered_by,
            seen=self.seen,
        )


@dataclass(frozen=True, slots=True)
class DueSessions:
    """What was found.

    Attributes:
        candidates: What is to be judged: unfinished scorings first, then the oldest sessions.
        lost: Unfinished scorings that cannot go on, with the reason.
        states: How many windows stand where.
        standings: The same for each window.
        unreadable: Dates of which the sessions cannot be read, with the reason.
    """

    candidates: list[Candidate] = field(default_factory=list)
    lost: list[tuple[Score, str]] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)
    standings: dict[WindowKey, DueState] = field(default_factory=dict)
    unreadable: dict[date, str] = field(default_factory=dict)

    @property
    def days(self) -> set[date]:
        """The dates on which a run has something to do."""
        due = {each.window.session_date for each in self.candidates}
        return due | {score.session_date for score, _ in self.lost}


def find_due_in_lake(
    stores: Stores, now: datetime, since: date | None, is_asked: Callable[[date], bool]
) -> DueSessions:
    """What is due of all dates, or of those since a day and of those with unfinished scorings.

    Args:
        stores: Where everything lies.
        now: The time.
        since: Earlier dates are looked at for unfinished scorings only; None for all.
        is_asked: Whether a date is one that can be asked for.

    Raises:
        As ``find_due`` and ``load_plans`` do.
    """
    days = set(stores.lake.partitions(AGENT_SESSIONS))
    if since is not None:
        unfinished = {each.session_date for each in ScoreStore(stores.ledger).open_scores()}
        days = {each for each in days if each >= since} | unfinished
    return find_due(stores, load_plans(stores, now), sorted(filter(is_asked, days)), now, NIGHTLY)


def find_due(
    stores: Stores,
    plans: Plans,
    days: Sequence[date],
    as_of: datetime,
    asked: ExtraDue,
    chosen: WindowKey | None = None,
) -> DueSessions:
    """Look at the session windows of some dates.

    Args:
        stores: Where everything lies.
        plans: By what each is judged.
        days: Session dates.
        as_of: The time of the run.
        asked: What the run wants beyond what is due.
        chosen: The one window that the run is about; None for all of them.

    Raises:
        LedgerError: the ledger cannot be used.
    """
    found = DueSessions()
    windows = {
        key_of(each): each
        for each in _windows(stores, days, as_of, found)
        if chosen in {None, key_of(each)}
    }
    past, planned = ScoreStore(stores.ledger).past(days), plans.of(windows.values())
    due: list[Candidate] = []
    for key, window in windows.items():
        plan = planned[key]
        judging = None if plan is None else plan.judging
        scores = past.get((*key, judging.profile_id), []) if judging else []
        stands = standing(window, judging, scores, as_of, asked)
        found.standings[key] = stands
        found.states[stands.state] += 1
        if plan is not None and stands.state == "due":
            due.append(Candidate(window, plan, len(scores)))
    unfinished = [
        each
        for each in ScoreStore(stores.ledger).open_scores()
        if each.session_date in days
        and each.session_date not in found.unreadable
        and chosen in {None, (each.organization_id, each.session_key)}
        and is_abandoned(each, as_of)
    ]
    is_usual = not plans.overrides.change_what_is_scored
    _take_up(unfinished, windows, planned, found, is_usual=is_usual)
    found.candidates.extend(sorted(due, key=lambda each: oldest_first(each.window)))
    return found


def _windows(
    stores: Stores, days: Sequence[date], as_of: datetime, found: DueSessions
) -> Iterator[Window]:
    """The windows of all dates that can be read; a damaged file leaves the others alone."""
    idle, rules = stores.settings.session_idle_minutes, stores.settings.exclude_sessions
    for day in days:
        try:
            yield from read_windows(stores.lake, [day], as_of, idle, rules=rules)
        except LakeError as error:
            found.unreadable[day] = str(error)


def is_abandoned(score: Score, as_of: datetime) -> bool:
    """Whether nobody works on an open scoring: not yet, not any more, or its process is gone."""
    owner = score.lease_owner
    return not score.is_leased(to_us(as_of)) or (owner is not None and is_gone(owner))


def _take_up(
    unfinished: Sequence[Score],
    windows: Mapping[WindowKey, Window],
    planned: Mapping[WindowKey, JudgePlan | None],
    found: DueSessions,
    *,
    is_usual: bool,
) -> None:
    """Go on with what somebody left, or give it up; an unusual run leaves the latter to others."""
    for score in unfinished:
        key = (score.organization_id, score.session_key)
        window, plan = windows.get(key), planned.get(key)
        why = why_not_continued(score, window, None if plan is None else plan.judging)
        if window is not None and plan is not None and why is None:
            found.candidates.append(Candidate(window, plan, 0, score))
        elif why is not None and is_usual:
            found.lost.append((score, why))
