"""State of each evaluated session window of a day."""

from collections.abc import Callable
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.judging.domain.due import DueState, Window, due_state
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import judge_setup
from evaluation_pipelines.judging.session_windows import WindowKey, read_windows, window_key
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.reporting.domain.reconciliation.states import Booking, Evaluated, book
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import Stores

_EVALUATED = ("profile_id", "card_id", "reason", "excluded_by")


def bookings(stores: Stores, day: date, evaluations: pl.DataFrame, now: datetime) -> list[Booking]:
    """Return the state of each row of ``session_evaluations`` of a day, in their order.

    Each row must have its window.

    Raises:
        ProfileError: an evaluation names a profile that the ledger does not know.
    """
    idle, why_due = stores.settings.session_idle_minutes, _why_due(stores.settings)
    windows = {window_key(each): each for each in read_windows(stores.lake, [day], now, idle)}
    judged = _judged(stores, day, now)
    found = []
    for row in evaluations.iter_rows(named=True):
        window = windows[row["organization_id"], row["session_key"]]
        evaluated = Evaluated(*(row[name] for name in _EVALUATED))
        stands = judged(window, row["profile_id"], row["profile_version"])
        found.append(book(window, evaluated, stands, why_due))
    return found


def _why_due(settings: Settings) -> str:
    """Return why due sessions are not judged: no judge, or the limits that are set."""
    if settings.why_no_judge is not None:
        return settings.why_no_judge
    sessions, of_run = settings.judge_max_sessions, settings.judge_max_cost_usd
    of_day = settings.judge_max_cost_per_day_usd
    limits = [] if sessions is None else [f"{sessions} sessions a run"]
    limits += [] if of_run is None else [f"${of_run:.2f} a run"]
    limits += [] if of_day is None else [f"${of_day:.2f} a day"]
    told = f" (limits: {', '.join(limits)})" if limits else ""
    return f"due: no judge run has scored it yet{told}"


def _judged(
    stores: Stores, day: date, now: datetime
) -> Callable[[Window, str | None, int | None], DueState | None]:
    """Return the state for the judge; None where the profile needs none."""
    registry, past = ProfileStore(stores.ledger).registry(), ScoreStore(stores.ledger).past([day])
    model = stores.settings.judge_model or ""

    def judged(window: Window, profile_id: str | None, version: int | None) -> DueState | None:
        if profile_id is None:
            return None
        profile = registry.find(profile_id, version).profile
        if profile.method == "heuristic":
            return None
        key: WindowKey = window_key(window)
        # The words of the rubric matter only to runs that ask for obsolete scores.
        judging = judge_setup(profile, prompt_hash="", model=model)
        return due_state(window, judging, past.get((*key, profile_id), []), now)

    return judged
