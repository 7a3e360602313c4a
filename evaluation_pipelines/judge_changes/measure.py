"""Judge changes with what is known of them: anchors, parts of the shift, means over time."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

import polars as pl

from evaluation_pipelines.judge_changes.anchors import (
    AnchorStore,
    JudgeHistory,
    NoSuchJudgeError,
    anchor_plan,
    anchor_scorings,
    read_frame,
    read_history,
    sides_of,
)
from evaluation_pipelines.judge_changes.domain.bridge import points, split
from evaluation_pipelines.judge_changes.domain.drawing import Anchor
from evaluation_pipelines.judge_changes.domain.judge_change import (
    NOT_SCORED,
    JudgeChange,
    ScoredAnchor,
    anchor_rows,
    change_rows,
)
from evaluation_pipelines.judge_changes.domain.judges import Change, sessions_of
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_ANCHORS, JUDGE_CHANGES
from evaluation_pipelines.storage.stores import Stores

_KEY = ["organization_id", "session_key"]


def judge_changes(stores: Stores, now: datetime) -> list[JudgeChange]:
    """Return all changes of judges, the newest first.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    history = read_history(stores, now)
    return [measure(stores, history, each, now) for each in history.changes]


def measure(stores: Stores, history: JudgeHistory, change: Change, now: datetime) -> JudgeChange:
    """Return what is known of one change. Raises as ``judge_changes``."""
    store = AnchorStore(stores.ledger)
    drawing = store.drawings().get(change.change_id)
    anchors = _scored_anchors(stores, change, store.anchors(change.change_id))
    before, after = (
        _with_people(stores, sessions_of(history.scores, judge, *dates))
        for judge, dates in zip((change.former, change.new), sides_of(change, now), strict=True)
    )
    begun = change.changed_on or now.date() + timedelta(days=1)
    costs = [each.cost_usd for scored in anchors for each in (scored.former, scored.new)]
    known = [each for each in costs if each is not None]
    found = JudgeChange(
        change,
        "not drawn",
        None,
        None,
        drawing,
        anchors,
        points(before, begun),
        points(after, begun),
        sum(known) if len(known) == len(costs) else None,
    )
    counted = found.counted
    if counted and all(each.is_scored for each in counted):
        parts = split(_anchor_rows(stores, counted), before, after)
        return replace(found, state="measured", split=parts)
    return _unmeasured(stores, history, found, now)


def _unmeasured(
    stores: Stores, history: JudgeHistory, found: JudgeChange, now: datetime
) -> JudgeChange:
    """Return a change without a bridge, with the reason."""
    drawing, change, counted = found.drawing, found.change, found.counted
    if drawing is not None and drawing.refusal is not None:
        return replace(found, state="impossible", reason=drawing.refusal)
    for name, judge in (("former", change.former), ("new", change.new)):
        try:
            anchor_plan(stores, judge)
        except NoSuchJudgeError as error:
            reason = f"the {name} judge cannot be asked again: {error}"
            return replace(found, state="impossible", reason=reason)
    has_sessions = bool(counted)
    if drawing is None:
        dates = sides_of(change, now)[0]
        has_sessions = bool(read_frame(stores, history, change, dates, now))
    if not has_sessions:
        reason = "no session that the former judge scored in the 28 days before has its texts"
        return replace(found, state="impossible", reason=reason)
    if drawing is None:
        return replace(found, reason="no anchors have been drawn")
    done = sum(each.is_scored for each in counted)
    reason = f"both judges have scored {done} of {len(counted)} anchors"
    return replace(found, state="incomplete", reason=reason)


def _scored_anchors(
    stores: Stores, change: Change, anchors: Sequence[Anchor]
) -> list[ScoredAnchor]:
    if not anchors:
        return []
    former, new = (anchor_scorings(stores.ledger, judge) for judge in (change.former, change.new))
    keys = [(*each.session.key, each.session.content_hash) for each in anchors]
    return [
        ScoredAnchor(anchor, former.get(key, NOT_SCORED), new.get(key, NOT_SCORED))
        for anchor, key in zip(anchors, keys, strict=True)
    ]


def _anchor_rows(stores: Stores, scored: Sequence[ScoredAnchor]) -> pl.DataFrame:
    """Return anchors as the split takes them; sessions weigh by their probability of selection."""
    in_stratum = pl.len().over("classification_label", "agent_model")
    rows = [
        {
            **{name: getattr(each.anchor.session, name) for name in _SESSION},
            "stratum_sessions": each.anchor.stratum_sessions,
            "former_score": each.former.score,
            "new_score": each.new.score,
        }
        for each in scored
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return _with_people(stores, frame.with_columns(weight=pl.col("stratum_sessions") / in_stratum))


_SESSION = (
    *("organization_id", "session_key", "session_id", "session_date"),
    *("classification_label", "agent_model"),
)


def _with_people(stores: Stores, rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the ``person`` of each session; null if unknown."""
    days: list[date] = rows["session_date"].unique().to_list()
    people = stores.lake.read(AGENT_SESSIONS, days, [*_KEY, "person_id"])
    return rows.join(people.rename({"person_id": "person"}), on=_KEY, how="left")


def write_judge_changes(stores: Stores, now: datetime) -> Sequence[JudgeChange]:
    """Find and measure all changes, replace both tables, and return the changes.

    Raises:
        LakeError: A file cannot be read or written.
        LedgerError: The ledger cannot be used.
    """
    found = judge_changes(stores, now)
    stores.lake.write_whole(change_rows(found, now), JUDGE_CHANGES)
    stores.lake.write_whole(anchor_rows(found), JUDGE_ANCHORS)
    return found
