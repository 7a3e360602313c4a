"""Anchors of a change: sessions to draw from, draw, replacement, and the ledger's rows of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from datetime import date, datetime, timedelta

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.judge_changes.domain.drawing import (
    DAYS,
    SAMPLES,
    Anchor,
    Drawing,
    FrameSession,
    draw,
    replacements,
)
from evaluation_pipelines.judge_changes.domain.judge_change import NOT_SCORED, AnchorScorings
from evaluation_pipelines.judge_changes.domain.judges import (
    JUDGE,
    SCORE_COLUMNS,
    Change,
    Judge,
    find_changes,
    first_judged,
    sessions_of,
)
from evaluation_pipelines.judging.domain.due import DEFAULT_PROFILE, JudgeSetup, Window
from evaluation_pipelines.judging.domain.prompt.rubric import Rubric
from evaluation_pipelines.judging.ledger.rubric_texts import RubricTexts
from evaluation_pipelines.judging.plans import JudgePlan, judged_criteria
from evaluation_pipelines.judging.rubric_files import load_rubrics
from evaluation_pipelines.judging.score_table import counting_scores
from evaluation_pipelines.judging.session_windows import WindowKey, read_windows, window_key
from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import EVENT_TEXTS_LANDED, JUDGE_SCORES
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import (
    ANCHOR_SCORES,
    JUDGE_ANCHORS,
    JUDGE_BRIDGES,
)
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import to_us


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


class NoSuchJudgeError(Exception):
    """A judge of the past cannot be asked again; the message says what is missing."""


def current_judges(stores: Stores) -> dict[str, Judge]:
    """Return the judge that would score the next session, by profile.

    Profiles without a rubric that can be used are left out, and all without a configured model.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    settings = stores.settings
    model = settings.judge_model
    if model is None:
        return {}
    rubrics = load_rubrics(settings.judge_rubrics_dir)
    wanted = [(DEFAULT_PROFILE, 1, model, settings.judge_rubric)]
    wanted += [
        (
            *(profile.id, profile.version, profile.model or model),
            settings.judge_rubric if profile.id == DEFAULT_PROFILE else profile.rubric or "",
        )
        for profile in (each.profile for each in ProfileStore(stores.ledger).registry().newest())
        if profile.method != "heuristic" and profile.enabled
    ]
    return {
        profile_id: Judge(profile_id, version, model, rubric, rubrics[rubric].prompt_hash)
        for profile_id, version, model, rubric in wanted
        if rubric in rubrics
    }


def anchor_plan(stores: Stores, judge: Judge) -> JudgePlan:
    """Return the plan by which a judge, of today or of the past, scores an anchor.

    Raises:
        NoSuchJudgeError: The wording of its rubric or its profile version is not kept.
        LedgerError: The ledger cannot be used.
    """
    rubric = _rubric(stores, judge)
    criteria = rubric.criteria
    if judge.profile_id != DEFAULT_PROFILE:
        try:
            registry = ProfileStore(stores.ledger).registry()
            profile = registry.find(judge.profile_id, judge.profile_version).profile
        except ProfileError as error:
            raise NoSuchJudgeError(str(error)) from error
        criteria = judged_criteria(profile, rubric)
    setup = JudgeSetup(
        judge.profile_id,
        judge.profile_version,
        judge.rubric,
        judge.prompt_hash,
        judge.model,
        SAMPLES,
    )
    return JudgePlan(setup, rubric, criteria, asks_missing_tools=False)


def _rubric(stores: Stores, judge: Judge) -> Rubric:
    """Return the rubric with the wording that the judge used."""
    now = load_rubrics(stores.settings.judge_rubrics_dir).get(judge.rubric)
    if now is not None and now.prompt_hash == judge.prompt_hash:
        return now
    kept = RubricTexts(stores.ledger).find(judge.prompt_hash)
    if kept is None:
        raise NoSuchJudgeError(
            f"the wording of the rubric {judge.rubric} that it used (prompt hash "
            f"{judge.prompt_hash[:12]}) is neither in the rubric folder nor in the ledger"
        )
    return kept


_BRIDGE, _ANCHOR = JUDGE_BRIDGES.c, JUDGE_ANCHORS.c
_SESSION = tuple(FrameSession.__slots__)
_DRAWN = ("stratum_sessions", "stratum_anchors", "place", "replaced_because")


class AnchorStore:
    """Reader and writer of ``judge_bridges`` and ``judge_anchors``; one transaction a method."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def add(
        self,
        change_id: str,
        frame: tuple[date, date, int],
        anchors: Sequence[Anchor],
        now: datetime,
    ) -> None:
        """Store a drawing, unless the change has one already.

        Args:
            change_id: The change.
            frame: First date, day after the last date, and number of the sessions to draw from.
            anchors: The anchors.
            now: The time.
        """
        since, until, sessions = frame
        drawing = Drawing(change_id, since, until, sessions, to_us(now))
        with writing(self._engine) as connection:
            insert = insert_into(connection, JUDGE_BRIDGES).values(asdict(drawing))
            added = insert.on_conflict_do_nothing().returning(_BRIDGE.change_id)
            if connection.execute(added).one_or_none() is not None:
                _insert(connection, change_id, anchors)

    def add_replacements(self, change_id: str, anchors: Sequence[Anchor]) -> None:
        """Store anchors that take the places of others."""
        with writing(self._engine) as connection:
            _insert(connection, change_id, anchors)

    def replace(self, change_id: str, reasons: Mapping[tuple[str, str], str]) -> None:
        """Note why anchors do not count, by organization and session key."""
        with writing(self._engine) as connection:
            for (organization_id, session_key), reason in reasons.items():
                update = sa.update(JUDGE_ANCHORS).where(
                    _ANCHOR.change_id == change_id,
                    _ANCHOR.organization_id == organization_id,
                    _ANCHOR.session_key == session_key,
                )
                connection.execute(update.values(replaced_because=reason))

    def note_refusal(self, change_id: str, refusal: str | None) -> None:
        """Note why a judge cannot be called, or that it can (``None``)."""
        update = sa.update(JUDGE_BRIDGES).where(_BRIDGE.change_id == change_id)
        with writing(self._engine) as connection:
            connection.execute(update.values(refusal=refusal))

    def drawings(self) -> dict[str, Drawing]:
        """Return all drawings by change id."""
        query = sa.select(*(_BRIDGE[name] for name in Drawing.__slots__))
        with reading(self._engine) as connection:
            rows = connection.execute(query).mappings()
            return {row["change_id"]: Drawing(**row) for row in rows}

    def anchors(self, change_id: str) -> list[Anchor]:
        """Return the anchors of a change, those that were replaced too, by stratum and place."""
        columns = [_ANCHOR[name] for name in (*_SESSION, *_DRAWN)]
        order = (_ANCHOR.classification_label, _ANCHOR.agent_model, _ANCHOR.place)
        query = sa.select(*columns).where(_ANCHOR.change_id == change_id).order_by(*order)
        with reading(self._engine) as connection:
            rows = connection.execute(query).mappings().all()
        return [
            Anchor(
                FrameSession(**{name: row[name] for name in _SESSION}),
                **{name: row[name] for name in _DRAWN},
            )
            for row in rows
        ]


def _insert(connection: sa.Connection, change_id: str, anchors: Collection[Anchor]) -> None:
    rows = [
        {
            "change_id": change_id,
            **asdict(each.session),
            **{name: getattr(each, name) for name in _DRAWN},
        }
        for each in anchors
    ]
    if rows:
        insert = insert_into(connection, JUDGE_ANCHORS).values(rows)
        connection.execute(insert.on_conflict_do_nothing())


_SCORE = ANCHOR_SCORES.c
_READ = (
    *("organization_id", "session_key", "content_hash", "status", "sample_totals"),
    *("retriable", "error_message", "latency_ms", "judge_cost_usd"),
)

AnchorKey = tuple[str, str, str]
"""(organization_id, session_key, content_hash)"""


def anchor_scorings(ledger: Ledger, judge: Judge) -> dict[AnchorKey, AnchorScorings]:
    """Return what a judge has said of all anchors, of this change or of another one."""
    is_judge = [_SCORE[name] == each for name, each in zip(JUDGE, astuple(judge), strict=True)]
    query = sa.select(*(_SCORE[name] for name in _READ)).where(*is_judge)
    found: dict[AnchorKey, AnchorScorings] = {}
    with reading(ledger.engine) as connection:
        for row in connection.execute(query.order_by(_SCORE.scored_at_us)).mappings():
            key = row["organization_id"], row["session_key"], row["content_hash"]
            found[key] = _with(found.get(key, NOT_SCORED), row)
    return found


def _with(before: AnchorScorings, row: sa.RowMapping) -> AnchorScorings:
    failed = row["status"] == "failed"
    is_unpriced = row["latency_ms"] is not None and row["judge_cost_usd"] is None
    is_known = before.cost_usd is not None and not is_unpriced
    return AnchorScorings(
        row["sample_totals"] or before.totals,
        before.failures + failed,
        before.is_final or (failed and not row["retriable"]),
        row["error_message"] if failed else before.error,
        (before.cost_usd or 0.0) + (row["judge_cost_usd"] or 0.0) if is_known else None,
    )


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
