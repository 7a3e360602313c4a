"""Sessions that anchors of a change are drawn from, and why some can no longer be anchors."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

import polars as pl

from evaluation_pipelines.judge_changes.current import current_judges
from evaluation_pipelines.judge_changes.domain.drawing import DAYS, Anchor, FrameSession
from evaluation_pipelines.judge_changes.domain.judges import (
    SCORE_COLUMNS,
    Change,
    find_changes,
    first_judged,
    sessions_of,
)
from evaluation_pipelines.judging.domain.due import Window
from evaluation_pipelines.judging.score_table import counting_scores
from evaluation_pipelines.judging.session_windows import WindowKey, read_windows, window_key
from evaluation_pipelines.schemas import EVENT_TEXTS_LANDED, JUDGE_SCORES
from evaluation_pipelines.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class JudgeHistory:
    """The scores of all judges, and the changes of judges that they show.

    Attributes:
        scores: ``first_judged`` scores.
        changes: All changes, the newest first.
    """

    scores: pl.DataFrame
    changes: Sequence[Change]


def read_history(stores: Stores, now: datetime) -> JudgeHistory:
    """Read the scores of the lake, and find the changes.

    A change that has not begun counts if the former judge has scored sessions of the last 28 days:
    a profile that is not in use has no trend to bridge.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    fixed = replace(stores, lake=stores.lake.snapshot())
    scores = counting_scores(fixed, fixed.lake.partitions(JUDGE_SCORES), SCORE_COLUMNS)
    first = first_judged(scores)
    changes = find_changes(first, current_judges(stores))
    is_used = [
        each.changed_on is not None
        or not sessions_of(first, each.former, *sides_of(each, now)[0]).is_empty()
        for each in changes
    ]
    return JudgeHistory(first, [each for each, used in zip(changes, is_used, strict=True) if used])


def sides_of(change: Change, now: datetime) -> tuple[tuple[date, date], tuple[date, date]]:
    """Return the dates before and after a change (half-open), at most 28 days each."""
    begun = change.changed_on or now.date() + timedelta(days=1)
    end = min(change.until or date.max, begun + timedelta(days=DAYS))
    return (begun - timedelta(days=DAYS), begun), (begun, end)


def read_frame(
    stores: Stores,
    history: JudgeHistory,
    change: Change,
    dates: tuple[date, date],
    now: datetime,
) -> list[FrameSession]:
    """Return the sessions of ``dates`` that the former judge scored and that can be judged again.

    Left out are sessions without any text, excluded ones, and those that have not ended.

    Raises:
        LakeError: A file cannot be read.
    """
    scored = sessions_of(history.scores, change.former, *dates)
    keys = set(scored.select("organization_id", "session_key").iter_rows())
    windows = _windows(stores, scored["session_date"].unique().to_list(), now)
    return [
        FrameSession(
            each.organization_id,
            each.session_key,
            each.session_id,
            each.session_date,
            each.content_hash,
            each.classification_label,
            each.agent_model,
        )
        for each in windows.values()
        if window_key(each) in keys and _can_be_judged(each)
    ]


def anchor_windows(
    stores: Stores, anchors: Collection[Anchor], now: datetime
) -> tuple[dict[WindowKey, Window], dict[WindowKey, str]]:
    """Return the session windows of anchors, and why others cannot be judged any longer.

    Raises:
        LakeError: A file cannot be read.
    """
    days = sorted({each.session.session_date for each in anchors})
    windows, texts = _windows(stores, days, now), _sessions_with_texts(stores, days)
    reasons = {
        each.session.key: reason
        for each in anchors
        if (reason := _why_gone(each.session, windows, texts)) is not None
    }
    wanted = {each.session.key for each in anchors} - reasons.keys()
    return {key: window for key, window in windows.items() if key in wanted}, reasons


def _windows(stores: Stores, days: Sequence[date], now: datetime) -> dict[WindowKey, Window]:
    found = read_windows(stores, days, now, rules=stores.settings.exclude_sessions)
    return {window_key(each): each for each in found}


def _can_be_judged(window: Window) -> bool:
    return window.excluded_by is None and window.is_terminal and window.content_level != "none"


def _why_gone(
    session: FrameSession, windows: Mapping[WindowKey, Window], texts: set[tuple[str, str]]
) -> str | None:
    window = windows.get(session.key)
    if window is None:
        return "the session is no longer there"
    if (session.organization_id, session.session_id) not in texts:
        return "its texts are no longer there"
    if window.content_hash != session.content_hash:
        return "the session has continued"
    return None if _can_be_judged(window) else "the session is excluded or has no text"


def _sessions_with_texts(stores: Stores, days: Sequence[date]) -> set[tuple[str, str]]:
    key = ["organization_id", "session_id"]
    return set(stores.lake.read(EVENT_TEXTS_LANDED, days, key).unique().iter_rows())
