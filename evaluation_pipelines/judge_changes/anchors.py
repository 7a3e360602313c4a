"""Judge changes, read and written: judges, anchors, parts of the shift, means over time."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import UTC, date, datetime, timedelta

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judge_changes.domain.anchor_sample import draw, replacements
from evaluation_pipelines.judge_changes.domain.judge_change import (
    DAYS,
    SAMPLES,
    STRATUM,
    JudgeChange,
)
from evaluation_pipelines.judge_changes.domain.judges import (
    JUDGE,
    SCORE_COLUMNS,
    Change,
    Judge,
    find_changes,
    first_judged,
    sessions_of,
)
from evaluation_pipelines.judge_changes.domain.shift import period_means, split
from evaluation_pipelines.judging.domain.due import DEFAULT_PROFILE, JudgeSetup, Window
from evaluation_pipelines.judging.domain.validation import VALIDATION
from evaluation_pipelines.judging.ledger.score_store import RubricTexts
from evaluation_pipelines.judging.plans import JudgePlan, current_rubrics, judged_criteria
from evaluation_pipelines.judging.rubric_files import load_rubrics
from evaluation_pipelines.judging.score_table import counting_scores
from evaluation_pipelines.judging.session_windows import WindowKey, read_windows, window_key
from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    CONTENT_KEY,
    JUDGE_ANCHORS,
    JUDGE_CHANGES,
    JUDGE_SCORES,
    SESSION_KEY,
)
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import (
    ANCHOR_SCORES,
    JUDGE_BRIDGES,
)
from evaluation_pipelines.storage.ledger.tables.judging import (
    JUDGE_ANCHORS as ANCHORS,
)
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import to_us

MAX_ATTEMPTS = 3
"""Failed attempts after which an anchor is replaced."""


IS_SCORED = pl.col("former_score").is_not_null() & pl.col("new_score").is_not_null()
"""Whether both judges have scored an anchor."""


class NoBridgeError(UserError):
    """A change cannot be measured; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class JudgeHistory:
    """The ``first_judged`` scores of all judges, and the changes they show, the newest first."""

    scores: pl.DataFrame
    changes: list[Change]


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
    changes = [
        change
        for change in find_changes(first, _current_judges(stores))
        if change.changed_on is not None
        or not sessions_of(first, change.former, *sides_of(change, now)[0]).is_empty()
    ]
    return JudgeHistory(first, changes)


def sides_of(change: Change, now: datetime) -> tuple[tuple[date, date], tuple[date, date]]:
    """Return the dates before and after a change (half-open), at most 28 days each."""
    begun = change.changed_on or now.date() + timedelta(days=1)
    end = min(change.until or date.max, begun + timedelta(days=DAYS))
    return (begun - timedelta(days=DAYS), begun), (begun, end)


def _current_judges(stores: Stores) -> dict[str, Judge]:
    """Return the judge that would score the next session, by profile.

    Profiles without a rubric that can be used are left out, and all without a configured model.
    """
    model, rubrics = stores.settings.judge_model, current_rubrics(stores)
    if model is None:
        return {}
    profiles = [profile.profile for profile in rubrics.profiles]
    wanted = {DEFAULT_PROFILE: (1, model, rubrics.default)} | {
        profile.id: (
            *(profile.version, profile.model or model),
            rubrics.default if profile.id == DEFAULT_PROFILE else profile.rubric or "",
        )
        for profile in profiles
        if profile.method != "heuristic" and profile.enabled
    }
    hashes = rubrics.prompt_hashes
    return {
        name: Judge(name, *judge, hashes[judge[-1]])
        for name, judge in wanted.items()
        if judge[-1] in hashes
    }


def anchor_plan(stores: Stores, judge: Judge) -> JudgePlan:
    """Return the plan by which a current or past judge scores an anchor.

    Raises:
        NoBridgeError: The wording of its rubric or its profile version is not kept.
        LedgerError: The ledger cannot be used.
    """
    rubric = load_rubrics(stores.settings.judge_rubrics_dir).get(judge.rubric)
    if rubric is None or rubric.prompt_hash != judge.prompt_hash:
        rubric = RubricTexts(stores.ledger).find(judge.prompt_hash)
    if rubric is None:
        raise NoBridgeError(
            f"the wording of the rubric {judge.rubric} that it used (prompt hash "
            f"{judge.prompt_hash[:12]}) is neither in the rubric folder nor in the ledger"
        )
    criteria = rubric.criteria
    if judge.profile_id != DEFAULT_PROFILE:
        registry = ProfileStore(stores.ledger).registry()
        try:
            profile = registry.find(judge.profile_id, judge.profile_version).profile
        except ProfileError as error:
            raise NoBridgeError(str(error)) from error
        criteria = judged_criteria(profile, rubric)
    identity = judge.profile_id, judge.profile_version, judge.rubric, judge.prompt_hash
    setup = JudgeSetup(*identity, judge.model, SAMPLES)
    return JudgePlan(setup, rubric, criteria, asks_missing_tools=False)


_SESSION = (*CONTENT_KEY, "session_id", "session_date", "classification_label", "agent_model")


def read_frame(
    stores: Stores, history: JudgeHistory, change: Change, dates: tuple[date, date], now: datetime
) -> tuple[pl.DataFrame, dict[WindowKey, Window]]:
    """Return the sessions of ``dates`` that the former judge scored and that can be judged again.

    Left out are sessions without any text, excluded ones, and those that have not ended.

    Returns:
        The sessions to draw from, and all session windows of these dates.

    Raises:
        LakeError: A file cannot be read.
    """
    keys = sessions_of(history.scores, change.former, *dates).select(SESSION_KEY)
    # A session that has continued is no longer a scored one, but may be an anchor.
    days = [day for day in stores.lake.partitions(AGENT_SESSIONS) if dates[0] <= day < dates[1]]
    read = read_windows(stores, days, now, rules=stores.settings.exclude_sessions)
    rows = [
        tuple(getattr(window, name) for name in _SESSION)
        for window in read
        if _can_be_judged(window)
    ]
    schema = {name: JUDGE_SCORES.schema.get(name, pl.String()) for name in _SESSION}
    frame = pl.DataFrame(rows, schema, orient="row").join(keys, on=SESSION_KEY, how="semi")
    return frame, {window_key(window): window for window in read}


def _can_be_judged(window: Window) -> bool:
    return window.excluded_by is None and window.is_terminal and window.content_level != "none"


def drawing_of(ledger: Ledger, change: Change) -> sa.RowMapping | None:
    """Return the row of ``judge_bridges`` of a change; ``None`` before its anchors are drawn."""
    query = sa.select(JUDGE_BRIDGES).where(JUDGE_BRIDGES.c.change_id == change.change_id)
    with reading(ledger.engine) as connection:
        return connection.execute(query).mappings().one_or_none()


def read_anchors(ledger: Ledger, change: Change) -> pl.DataFrame:
    """Return all anchors of a change, replaced ones too, and what both judges have said of them.

    Returns:
        The columns of ``judge_anchors``, and for both sides ``former_`` and ``new_``: ``score``
        (mean of the samples, null until scored), ``failure`` (why the judge will not score it),
        ``cost_usd``, and ``is_unpriced``: whether there are replies of an unknown price.
    """
    query = sa.select(ANCHORS).where(ANCHORS.c.change_id == change.change_id)
    schema = {column.name: _TYPES.get(column.name, pl.String()) for column in ANCHORS.columns}
    with reading(ledger.engine) as connection:
        rows = [tuple(row) for row in connection.execute(query)]
        anchors = pl.DataFrame(rows, schema, orient="row")
        for side, judge in change.judges.items():
            said = _anchor_scores(connection, judge).select(pl.all().name.prefix(f"{side}_"))
            keys = [f"{side}_{name}" for name in CONTENT_KEY]
            anchors = anchors.join(said, left_on=CONTENT_KEY, right_on=keys, how="left")
    return anchors.sort("classification_label", "agent_model", "place")


_TYPES: dict[str, pl.DataType] = {
    "session_date": pl.Date(),
    **dict.fromkeys(("stratum_sessions", "stratum_anchors", "place"), pl.Int64()),
}
_SCORING = {
    **dict.fromkeys(CONTENT_KEY, pl.String()),
    "status": pl.String(),
    "sample_totals": pl.List(pl.Int64()),
    "retriable": pl.Boolean(),
    "error_message": pl.String(),
    "latency_ms": pl.Float64(),
    "judge_cost_usd": pl.Float64(),
}


def has_scored(ledger: Ledger, judge: Judge) -> bool:
    """Return whether a judge has ever scored an anchor, of any change."""
    scoring = ANCHOR_SCORES.c
    query = sa.select(scoring.score_id).where(
        *_is_by(judge), scoring.status == "completed", scoring.score_triggered_by != VALIDATION
    )
    with reading(ledger.engine) as connection:
        return connection.execute(query.limit(1)).first() is not None


def _is_by(judge: Judge) -> list[sa.ColumnElement[bool]]:
    pairs = zip(JUDGE, astuple(judge), strict=True)
    return [ANCHOR_SCORES.c[name] == value for name, value in pairs]


def _anchor_scores(connection: sa.Connection, judge: Judge) -> pl.DataFrame:
    """Return what a judge has said of all anchors, of this change or of another one."""
    scoring = ANCHOR_SCORES.c
    query = sa.select(*(scoring[name] for name in _SCORING)).where(*_is_by(judge))
    rows = [tuple(row) for row in connection.execute(query.order_by(scoring.scored_at_us))]
    score = pl.col("sample_totals").list.mean().drop_nulls().last()
    failed, cost = pl.col("status") == "failed", pl.col("judge_cost_usd")
    is_final = (failed & ~pl.col("retriable").fill_null(value=False)).any()
    has_failed = score.is_null() & (is_final | (failed.sum() >= MAX_ATTEMPTS))
    error = pl.col("error_message").filter(failed).last().fill_null("")
    return (
        pl.DataFrame(rows, _SCORING, orient="row")
        .group_by(CONTENT_KEY, maintain_order=True)
        .agg(
            score=score,
            failure=pl.when(has_failed).then(error),
            cost_usd=cost.sum(),
            is_unpriced=(pl.col("latency_ms").is_not_null() & cost.is_null()).any(),
        )
    )


def draw_anchors(
    stores: Stores, history: JudgeHistory, change: Change, now: datetime
) -> tuple[pl.DataFrame, dict[WindowKey, Window]]:
    """Draw the anchors of a change if it has none, and replace those that cannot be scored.

    An anchor that both judges have scored counts even if its texts are gone by now.

    Returns:
        The anchors that count, as ``read_anchors``, and the session windows by key.

    Raises:
        NoBridgeError: There is no session to draw.
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    ledger, change_id = stores.ledger, change.change_id
    drawing, dates = drawing_of(ledger, change), sides_of(change, now)[0]
    if drawing is not None:
        dates = drawing["frame_since"], drawing["frame_until"]
    frame, windows = read_frame(stores, history, change, dates, now)
    if drawing is None:
        if frame.is_empty():
            raise NoBridgeError(
                f"the previous judge of {change.profile_id} scored no session from {dates[0]} to "
                f"{dates[1] - timedelta(days=1)} whose text is still stored"
            )
        since, until = dates
        row = {"frame_since": since, "frame_until": until, "frame_sessions": frame.height}
        with writing(ledger.engine) as connection:
            drawn = sa.insert(JUDGE_BRIDGES).values(
                change_id=change_id, **row, drawn_at_us=to_us(now)
            )
            connection.execute(drawn)
            _insert(connection, change_id, draw(frame, change_id))
    # A judge that has never scored anything has not failed because of a session.
    judged = [side for side, judge in change.judges.items() if has_scored(ledger, judge)]
    while True:
        anchors = read_anchors(ledger, change)
        counted = anchors.filter(pl.col("replaced_because").is_null())
        reasons = _why_replaced(counted, windows, judged)
        more = replacements(anchors, frame, change_id)
        if not reasons and more.is_empty():
            return counted, windows
        with writing(ledger.engine) as connection:
            for key, reason in reasons.items():
                names = ("change_id", *SESSION_KEY)
                values = zip(names, (change_id, *key), strict=True)
                is_anchor = [ANCHORS.c[name] == value for name, value in values]
                update = sa.update(ANCHORS).where(*is_anchor)
                connection.execute(update.values(replaced_because=reason))
            _insert(connection, change_id, more)


def _why_replaced(
    anchors: pl.DataFrame, windows: Mapping[WindowKey, Window], judged: Sequence[str]
) -> dict[WindowKey, str]:
    """Return why anchors can no longer be scored, by key. ``judged``: sides able to score."""
    reasons = dict[WindowKey, str]()
    for row in anchors.filter(~IS_SCORED).iter_rows(named=True):
        key = row["organization_id"], row["session_key"]
        failures = [row[f"{judge}_failure"] for judge in judged]
        failed = next((failure for failure in failures if failure is not None), None)
        reason = _why_gone(windows.get(key), row["content_hash"])
        if reason is None and failed is not None:
            reason = f"a judge could not score it: {failed}"
        if reason is not None:
            reasons[key] = reason
    return reasons


def _why_gone(window: Window | None, content_hash: str) -> str | None:
    if window is None:
        return "the session is no longer there"
    if window.content_hash != content_hash:
        return "the session has continued"
    gone = window.why_expired or "the session is excluded or has no text"
    return None if _can_be_judged(window) else gone


def _insert(connection: sa.Connection, change_id: str, anchors: pl.DataFrame) -> None:
    rows = [{"change_id": change_id, **row} for row in anchors.to_dicts()]
    if rows:
        connection.execute(sa.insert(ANCHORS), rows)


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
