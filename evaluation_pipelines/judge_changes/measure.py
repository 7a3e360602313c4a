"""Judge changes with what is known of them: anchors, parts of the shift, means over time."""

from datetime import UTC, datetime, timedelta

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.judge_changes.anchors import (
    IS_SCORED,
    JudgeHistory,
    NoBridgeError,
    anchor_plan,
    drawing_of,
    read_anchors,
    read_frame,
    read_history,
    sides_of,
)
from evaluation_pipelines.judge_changes.domain.judge_change import (
    STRATUM,
    JudgeChange,
    period_means,
    split,
)
from evaluation_pipelines.judge_changes.domain.judges import Change, sessions_of
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_ANCHORS, JUDGE_CHANGES, SESSION_KEY
from evaluation_pipelines.storage.stores import Stores

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_judge_changes(stores: Stores, now: datetime) -> list[JudgeChange]:
    """Find and measure all changes, replace both tables, and return the changes.

    Raises:
        LakeError: A file cannot be read or written.
        LedgerError: The ledger cannot be used.
    """
    found = judge_changes(stores, now)
    stores.lake.write_whole(change_rows(found), JUDGE_CHANGES)
    stores.lake.write_whole(anchor_rows(found), JUDGE_ANCHORS)
    return found


def change_rows(found: list[JudgeChange]) -> pl.DataFrame:
    """Return JUDGE_CHANGES."""
    rows = pl.DataFrame([change.row for change in found], JUDGE_CHANGES.schema, orient="row")
    return rows.sort(JUDGE_CHANGES.order)


def anchor_rows(found: list[JudgeChange]) -> pl.DataFrame:
    """Return JUDGE_ANCHORS; a change that happened twice has its anchors once."""
    empty = pl.DataFrame(schema=JUDGE_ANCHORS.schema)
    rows = pl.concat([empty, *(change.anchors for change in found)])
    return rows.unique(JUDGE_ANCHORS.key).sort(JUDGE_ANCHORS.order)


def judge_changes(stores: Stores, now: datetime) -> list[JudgeChange]:
    """Return all changes of judges, the newest first.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    history = read_history(stores, now)
    return [measure(stores, history, change, now) for change in history.changes]


def measure(stores: Stores, history: JudgeHistory, change: Change, now: datetime) -> JudgeChange:
    """Return what is known of one change. Raises as ``judge_changes``."""
    drawing, anchors = drawing_of(stores.ledger, change), read_anchors(stores.ledger, change)
    counted = anchors.filter(pl.col("replaced_because").is_null())
    done = counted.filter(IS_SCORED).height
    dates = sides_of(change, now)
    before, after = (
        _with_people(stores, sessions_of(history.scores, judge, *side))
        for judge, side in zip(change.judges.values(), dates, strict=True)
    )
    if 0 < counted.height == done:
        weight = pl.col("stratum_sessions") / pl.len().over(STRATUM)
        weighted = _with_people(stores, counted.with_columns(weight=weight))
        figures = {"state": "measured", **split(weighted, before, after)}
    else:
        state, reason = _why_open(stores, history, change, drawing, counted, now)
        figures = {"state": state, "trend": "cut", "reason": reason}
    row = dict.fromkeys(JUDGE_CHANGES.schema) | {
        "change_id": change.change_id,
        "judge_profile_id": change.profile_id,
        "changed_on": change.changed_on,
        **{
            f"{side}_{name}": getattr(judge, name)
            for side, judge in change.judges.items()
            for name in ("profile_version", "model", "rubric", "prompt_hash")
        },
        **figures,
        "anchors": counted.height,
        "anchors_scored": done,
        "anchors_replaced": anchors.height - counted.height,
        "frame_sessions": drawing and drawing["frame_sessions"],
        "drawn_at": drawing and _EPOCH + timedelta(microseconds=drawing["drawn_at_us"]),
        "cost_usd": _cost(anchors),
        "computed_at": now,
    }
    means = pl.concat([period_means(frame, dates[1][0]) for frame in (before, after)])
    return JudgeChange(change, row, _rows(anchors), means)


def _why_open(
    stores: Stores,
    history: JudgeHistory,
    change: Change,
    drawing: sa.RowMapping | None,
    counted: pl.DataFrame,
    now: datetime,
) -> tuple[str, str]:
    """Return the state of a change without a bridge, and the reason."""
    if drawing is not None and drawing["refusal"] is not None:
        return "impossible", drawing["refusal"]
    for side, judge in change.judges.items():
        try:
            anchor_plan(stores, judge)
        except NoBridgeError as error:
            return "impossible", f"the {side} judge cannot be asked again: {error}"
    sessions = counted
    if drawing is None:
        sessions, _ = read_frame(stores, history, change, sides_of(change, now)[0], now)
    if sessions.is_empty():
        no_session = "no session of the 28 days before can be scored by both judges"
        return "impossible", no_session
    if drawing is None:
        return "not drawn", "no anchors have been drawn"
    done = counted.filter(IS_SCORED).height
    return "incomplete", f"both judges have scored {done} of {counted.height} anchors"


def _cost(anchors: pl.DataFrame) -> float | None:
    """Return the cost of all anchors; ``None`` without any, or if a price is unknown."""
    is_unpriced = pl.any_horizontal("former_is_unpriced", "new_is_unpriced").any()
    cost = pl.sum_horizontal("former_cost_usd", "new_cost_usd").sum()
    if anchors.is_empty() or anchors.select(is_unpriced).item():
        return None
    found: float = anchors.select(cost).item()
    return found


def _rows(anchors: pl.DataFrame) -> pl.DataFrame:
    """Return JUDGE_ANCHORS."""
    return anchors.select(
        **{name: name for name in JUDGE_ANCHORS.schema if name in anchors.columns},
        probability=pl.col("stratum_anchors") / pl.col("stratum_sessions"),
        difference=pl.col("new_score") - pl.col("former_score"),
    ).select(*JUDGE_ANCHORS.schema)


def _with_people(stores: Stores, rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the ``person`` of each session; null if unknown."""
    days = rows["session_date"].unique().to_list()
    people = stores.lake.read(AGENT_SESSIONS, days, [*SESSION_KEY, "person_id"])
    return rows.join(people.rename({"person_id": "person"}), on=SESSION_KEY, how="left")
