"""Everything the stores hold about one session window."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, TypeAlias

import polars as pl

from evaluation_pipelines.judging.domain.due import DueState, Window, due_state
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import judge_setup
from evaluation_pipelines.judging.session_windows import window_key, window_of
from evaluation_pipelines.profiles.domain.profile import JudgeProfile, ProfileError
from evaluation_pipelines.schemas import (
    SESSION_EVALUATIONS,
    SESSION_KEY,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
    Table,
)
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.scorecards.domain.evaluation import with_newest_overrides
from evaluation_pipelines.scorecards.domain.overrides import with_states
from evaluation_pipelines.scorecards.ledger.override_store import OverrideStore
from evaluation_pipelines.scorecards.scorecard_queries import CardQuery, query_cards
from evaluation_pipelines.scorecards.session_lookup import (
    SessionLookup,
    Target,
    read_session_lookup,
)
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.sessions.find import SessionName, find
from evaluation_pipelines.sessions.percentiles import ranked_performance
from evaluation_pipelines.storage.stores import Stores

Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EffectiveScore:
    """The score that counts for a session.

    Attributes:
        score_100: The score, 0-100; ``None`` if the session has no score.
        source: ``override``, ``scorecard``, ``judge``, ``composite``, ``status`` or ``none``.
        reason: Why there is no scorecard of the best match; ``None`` if there is one.
        annotator: The author of the override that counts; ``None`` if no override counts.
        built_100: The score as of the last build, which comparisons and reports have.
        built_judge_total: The total of the judge as of the last build.
        provisional_100: What a session that is open would have if it had ended at the last build;
            in no mean, comparison, alert or reputation.
    """

    score_100: float | None
    source: str
    reason: str | None
    annotator: str | None
    built_100: float | None
    built_judge_total: float | None
    provisional_100: float | None = None

    @property
    def provisional(self) -> bool:
        """Whether the only score is provisional."""
        return self.score_100 is None and self.provisional_100 is not None


@dataclass(frozen=True, slots=True)
class SessionView:
    """Everything the stores hold about one session window.

    Rows have the columns of their table, unrounded.

    Attributes:
        session: Row of ``agent_sessions``.
        performance: Row of ``session_performance`` with its ``percentile_in_class``, if that was
            wanted; ``None`` if it is not built.
        tool_report: Row of ``tool_reports``; ``None`` if the session made no tool call.
        judge_scores: Scorings by all profiles, newest first.
        scorecards: Current rows of ``scorecards`` with the newest overrides, one per profile.
        evaluation: The effective score with the newest overrides; ``None`` if it is not built.
        overrides: Rows of ``overrides``, newest first.
        profile: The best-matching judge profile; ``None`` if no profile matches.
        target: The automatic score that a person corrects or confirms: that of another profile
            while the best match has not scored the session. ``None`` if no profile matches.
        has_ended: Whether the session has ended.
        excluded_by: Name of the rule that excludes the session; ``None`` if no rule does.
        judge_state: Whether the session is due for judging, and why or why not. ``None`` if its
            profile does not use a judge, and as of a past time, which the ledger does not keep.
    """

    session: SessionRow
    performance: Row | None
    tool_report: Row | None
    judge_scores: tuple[Score, ...]
    scorecards: tuple[Row, ...]
    evaluation: EffectiveScore | None
    overrides: tuple[Row, ...]
    profile: JudgeProfile | None
    target: Target | None
    has_ended: bool
    excluded_by: str | None
    judge_state: DueState | None

    @property
    def key(self) -> tuple[str, str]:
        """Organization and key of the session."""
        return self.session["organization_id"], self.session["session_key"]

    @property
    def session_date(self) -> date:
        """The partition of the session."""
        day: date = self.session["session_date"]
        return day


def session_view(
    stores: Stores, query: SessionName, now: datetime | None = None, *, ranked: bool = True
) -> SessionView:
    """Return everything the stores hold about one session window; nothing is written.

    Args:
        stores: The stores; with stores as of a past time, the view is as of that time.
        query: The session.
        now: The time for ``has_ended`` and ``judge_state``; by default the time of the stores,
            or else the current time.
        ranked: False to leave out ``percentile_in_class``, which takes the files of 28 more days.

    Raises:
        SessionNotFoundError: No window or several match; the message lists them.
        LedgerError: The ledger cannot be used.
        LakeError: A file cannot be read.
    """
    time = now or stores.ledger.as_of or datetime.now(UTC)
    lookup = read_session_lookup(stores, [query.session])
    session = find(stores, query, lookup.windows.get(query.session, ()))
    profile = _best_match(lookup, session)
    window = window_of(stores, session, time, stores.settings.exclude_sessions)
    evaluation, overrides = _rows(stores, SESSION_EVALUATIONS, session), _overrides(stores, session)
    return SessionView(
        session,
        _performance(stores, session, ranked=ranked),
        _row(stores, TOOL_REPORTS, session),
        _judge_scores(stores, session),
        _scorecards(stores, session),
        _effective_score(evaluation, overrides),
        _with_states(overrides, session, _counting_profile(evaluation, profile)),
        profile,
        _target(lookup, session),
        window.is_terminal,
        window.excluded_by,
        _judge_state(stores, window, profile, time),
    )


def _best_match(lookup: SessionLookup, session: SessionRow) -> JudgeProfile | None:
    for row in lookup.assigned.get((session["organization_id"], session["session_key"]), ()):
        if row["is_best_match"]:
            return lookup.registry.find(row["profile_id"], row["profile_version"]).profile
    return None


def _target(lookup: SessionLookup, session: SessionRow) -> Target | None:
    try:
        return lookup.find(SessionName(session["session_key"], session["organization_id"]))
    except ProfileError:  # no profile matches it
        return None


def _judge_scores(stores: Stores, session: SessionRow) -> tuple[Score, ...]:
    found = ScoreStore(stores.ledger).by_session(session["organization_id"], session["session_key"])
    return tuple(reversed(found))


def _scorecards(stores: Stores, session: SessionRow) -> tuple[Row, ...]:
    days = [session["session_date"]]
    cards = query_cards(stores, CardQuery(session=session["session_key"], days=days))
    return tuple(cards.filter(_is_of(session)).rows(named=True))


def _overrides(stores: Stores, session: SessionRow) -> pl.DataFrame:
    of_date = OverrideStore(stores.ledger).of_dates([session["session_date"]])
    return of_date.filter(_is_of(session))


def _counting_profile(evaluation: pl.DataFrame, profile: JudgeProfile | None) -> str | None:
    """Return the profile whose score counts: by the evaluation, or before it by the labels."""
    for row in evaluation.iter_rows(named=True):
        return str(row["profile_id"]) if row["profile_id"] is not None else None
    return None if profile is None else profile.id


def _with_states(
    overrides: pl.DataFrame, session: SessionRow, profile_id: str | None
) -> tuple[Row, ...]:
    current = pl.DataFrame(
        {
            **{name: [session[name]] for name in (*SESSION_KEY, "content_hash")},
            "best_profile_id": pl.Series([profile_id], dtype=pl.String),
        }
    )
    return tuple(reversed(with_states(overrides, current).rows(named=True)))


def _effective_score(evaluation: pl.DataFrame, overrides: pl.DataFrame) -> EffectiveScore | None:
    built = evaluation.select(built_100="effective_100")
    now = pl.concat([with_newest_overrides(evaluation, overrides), built], how="horizontal")
    for row in now.iter_rows(named=True):
        return EffectiveScore(
            row["effective_100"],
            row["effective_source"],
            row["reason"],
            row["annotator"],
            row["built_100"],
            row["judge_total"],
            row["provisional_100"],
        )
    return None


def _judge_state(
    stores: Stores, window: Window, profile: JudgeProfile | None, time: datetime
) -> DueState | None:
    if stores.ledger.as_of is not None or (profile is not None and profile.method == "heuristic"):
        return None
    if profile is None:
        return due_state(window, None, [], time)
    # The wording of the rubric matters only to runs that ask for obsolete scores.
    setup = judge_setup(profile, prompt_hash="", model=stores.settings.judge_model or "")
    past = ScoreStore(stores.ledger).past([window.session_date])
    return due_state(window, setup, past.get((*window_key(window), profile.id), []), time)


def _performance(stores: Stores, session: SessionRow, *, ranked: bool) -> Row | None:
    if not ranked:
        return _row(stores, SESSION_PERFORMANCE, session)
    days, is_one = [session["session_date"]], _is_of(session)
    return _first(ranked_performance(stores.lake, days, is_one))


def _row(stores: Stores, table: Table, session: SessionRow) -> Row | None:
    return _first(_rows(stores, table, session))


def _first(rows: pl.DataFrame) -> Row | None:
    return None if rows.is_empty() else rows.row(0, named=True)


def _rows(stores: Stores, table: Table, session: SessionRow) -> pl.DataFrame:
    return stores.lake.read(table, [session["session_date"]], where=_is_of(session))


def _is_of(session: SessionRow) -> pl.Expr:
    return pl.all_horizontal(pl.col(name) == session[name] for name in SESSION_KEY)
