"""Drawing of the anchors of a change, and replacement of those that cannot be judged."""

from dataclasses import dataclass
from datetime import datetime

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judge_changes.domain.drawing import Anchor, draw, replacements
from evaluation_pipelines.judge_changes.domain.judges import Change
from evaluation_pipelines.judge_changes.frame import (
    JudgeHistory,
    anchor_windows,
    read_frame,
    sides_of,
)
from evaluation_pipelines.judge_changes.ledger.anchor_scores import anchor_scorings
from evaluation_pipelines.judge_changes.ledger.anchor_store import AnchorStore
from evaluation_pipelines.judging.domain.due import Window
from evaluation_pipelines.judging.session_windows import WindowKey
from evaluation_pipelines.storage.stores import Stores


class NoAnchorsError(UserError):
    """A change has no session that both judges could score; the message says why."""


@dataclass(frozen=True, slots=True)
class DrawnAnchors:
    """Anchors that count, with their session windows."""

    anchors: list[Anchor]
    windows: dict[WindowKey, Window]


def draw_anchors(
    stores: Stores, history: JudgeHistory, change: Change, now: datetime
) -> DrawnAnchors:
    """Draw the anchors of a change if it has none, and replace those that cannot be scored.

    An anchor that both judges have scored counts even if its texts are gone by now.

    Raises:
        NoAnchorsError: There is no session to draw.
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    store, change_id = AnchorStore(stores.ledger), change.change_id
    drawing = store.drawings().get(change_id)
    dates = sides_of(change, now)[0]
    if drawing is not None:
        dates = drawing.frame_since, drawing.frame_until
    frame = read_frame(stores, history, change, dates, now)
    if drawing is None:
        if not frame:
            raise NoAnchorsError(
                f"the former judge of {change.profile_id} scored no session from {dates[0]} on "
                f"(before {dates[1]}) whose texts are there"
            )
        store.add(change_id, (*dates, len(frame)), draw(frame, change_id), now)
    while True:
        anchors = [each for each in store.anchors(change_id) if each.replaced_because is None]
        windows, reasons = _check(stores, change, anchors, now)
        if reasons:
            store.replace(change_id, reasons)
        more = replacements(store.anchors(change_id), frame, change_id)
        if not more:
            live = [each for each in anchors if each.session.key not in reasons]
            return DrawnAnchors(live, windows)
        store.add_replacements(change_id, more)


def _check(
    stores: Stores, change: Change, anchors: list[Anchor], now: datetime
) -> tuple[dict[WindowKey, Window], dict[WindowKey, str]]:
    """Return the windows of the anchors, and why some of them have to be replaced."""
    windows, gone = anchor_windows(stores, anchors, now)
    judged = [anchor_scorings(stores.ledger, each) for each in (change.former, change.new)]
    reasons: dict[WindowKey, str] = {}
    for each in anchors:
        key = each.session.key
        scorings = [found.get((*key, each.session.content_hash)) for found in judged]
        if all(found is not None and found.totals for found in scorings):
            continue
        # A judge that has never scored anything has not failed because of a session.
        failed = [
            found.error
            for found, all_of_judge in zip(scorings, judged, strict=True)
            if found is not None
            and found.has_failed
            and any(other.totals for other in all_of_judge.values())
        ]
        if key in gone:
            reasons[key] = gone[key]
        elif failed:
            reasons[key] = f"a judge could not score it: {failed[0]}"
    return windows, reasons
