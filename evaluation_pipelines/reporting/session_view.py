"""One session for people: what it was, how it went on, and why it has its score."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, TypeAlias, cast

import polars as pl

from evaluation_pipelines.formatting import points
from evaluation_pipelines.judging.domain.due import DueState, Window, due_state
from evaluation_pipelines.judging.domain.prompt.sanitizer import ShownTexts, shown_texts
from evaluation_pipelines.judging.domain.prompt.session_steps import SessionStep, session_steps
from evaluation_pipelines.judging.domain.prompt.transcript import STEP_COLUMNS
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import judge_setup
from evaluation_pipelines.judging.session_windows import window_key, window_of
from evaluation_pipelines.profiles.domain.profile import JudgeProfile, ProfileError
from evaluation_pipelines.schemas import (
    SESSION_EVALUATIONS,
    SESSION_KEY,
    SESSION_OUTCOMES,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
    UTC_TIME,
)
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.scorecards.audit_review import SessionEvents, session_events
from evaluation_pipelines.scorecards.domain.criteria import criterion_name
from evaluation_pipelines.scorecards.domain.evaluation import (
    FAILED_AT_START,
    NOT_ENDED,
    model_api_errors,
    shown_recommendation,
    with_newest_overrides,
)
from evaluation_pipelines.scorecards.domain.overrides import with_states
from evaluation_pipelines.scorecards.scorecard_queries import (
    CardQuery,
    SessionLookup,
    Target,
    query_cards,
    read_session_lookup,
)
from evaluation_pipelines.scorecards.store import OverrideStore
from evaluation_pipelines.sessions.domain.ended import is_terminal
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.sessions.domain.performance import WEIGHTS
from evaluation_pipelines.sessions.external import external_evaluations
from evaluation_pipelines.sessions.find import SessionName, find
from evaluation_pipelines.sessions.percentiles import ranked_performance
from evaluation_pipelines.storage.stores import Stores

Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EffectiveScore:
    """The effective score of a session.

    Attributes:
        score_100: The score, 0-100; ``None`` if the session has no score.
        source: ``override``, ``scorecard``, ``judge``, ``composite``, ``status`` or ``none``.
        reason: Why there is no scorecard of the best match; ``None`` if there is one.
        annotator: The author of the override that counts; ``None`` if no override counts.
        built_100: The score as of the last build, which comparisons and reports have.
        built_judge_total: The total of the judge as of the last build.
        provisional_100: What a session that is open would have if it had ended at the last build;
            in no mean, comparison, alert or reputation.
        provisional: Whether that is the only score.
    """

    score_100: float | None
    source: str
    reason: str | None
    annotator: str | None
    built_100: float | None
    built_judge_total: float | None
    provisional_100: float | None = None
    provisional: bool = False


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
        external: EXTERNAL_EVALUATIONS of the session, in order.
        outcomes: SESSION_OUTCOMES of the session, in order.
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
    external: tuple[Row, ...]
    outcomes: tuple[Row, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Organization and key of the session."""
        return self.session["organization_id"], self.session["session_key"]

    @property
    def recommendation(self) -> str | None:
        """``keep``, ``review``, ``doff`` or ``None``, as in the list of sessions."""
        found = None if self.performance is None else self.performance["recommendation"]
        score = None if self.evaluation is None else self.evaluation.score_100
        names = ("status", "effective_100", "recommendation")
        row = pl.DataFrame([(self.session["status"], score, found)], names, orient="row")
        return cast(str | None, row.select(shown_recommendation()).item())

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
    days, is_one = [session["session_date"]], _is_session(session)
    key = session["organization_id"], session["session_key"]
    evaluation = stores.lake.read(SESSION_EVALUATIONS, days, where=is_one)
    overrides = OverrideStore(stores.ledger).of_dates(days).filter(is_one)
    cards = query_cards(stores, CardQuery(session=session["session_key"], days=days))
    ended = is_terminal(pl.lit(time).cast(UTC_TIME), stores.settings.session_idle_minutes)
    performance = (
        ranked_performance(stores.lake, days, ended, is_one)
        if ranked
        else stores.lake.read(SESSION_PERFORMANCE, days, where=is_one)
    )
    return SessionView(
        session,
        _first(performance),
        _first(stores.lake.read(TOOL_REPORTS, days, where=is_one)),
        tuple(reversed(ScoreStore(stores.ledger).by_session(*key))),
        tuple(cards.filter(is_one).rows(named=True)),
        _effective_score(evaluation, overrides),
        _with_states(overrides, session, _counting_profile(evaluation, profile)),
        profile,
        _target(lookup, session),
        window.is_terminal,
        window.excluded_by,
        _judge_state(stores, window, profile, time),
        _external(stores, session),
        tuple(stores.lake.read(SESSION_OUTCOMES, days, where=is_one).rows(named=True)),
    )


def _external(stores: Stores, session: SessionRow) -> tuple[Row, ...]:
    its = session["organization_id"], session["session_id"]
    found = external_evaluations(stores.lake, [session["session_date"]], its)
    return tuple(found.rows(named=True))


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
            row["effective_100"] is None and row["provisional_100"] is not None,
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


def _first(rows: pl.DataFrame) -> Row | None:
    return None if rows.is_empty() else rows.row(0, named=True)


def _is_session(session: SessionRow) -> pl.Expr:
    return pl.all_horizontal(pl.col(name) == session[name] for name in SESSION_KEY)


ReadEvents: TypeAlias = Callable[[Stores, SessionRow, datetime], SessionEvents | None]


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """A step of a session.

    Attributes:
        number: Its place, from 1.
        kind: ``prompt``, ``reply``, ``tool``, ``failure`` or ``note``.
        clock: Minutes and seconds since the first event of the session.
        title: The step in one line.
        texts: Label and text; the label is empty where the title says it.
        not_logged: Texts that were not logged.
        is_failure: Whether something failed or was refused.
    """

    number: int
    kind: str
    clock: str
    title: str
    texts: tuple[tuple[str, str], ...]
    not_logged: tuple[str, ...]
    is_failure: bool


@dataclass(frozen=True, slots=True)
class Timeline:
    """A range of the steps of a session.

    Attributes:
        steps: The steps.
        total: How many there are of the chosen kinds.
        task: The first prompt.
        note: What of the session has expired; empty if nothing has.
    """

    steps: tuple[TimelineStep, ...]
    total: int
    task: TimelineStep | None
    note: str = ""


def session_timeline(
    stores: Stores,
    session: SessionRow,
    now: datetime,
    kinds: Sequence[str] | None,
    places: slice,
    read: ReadEvents = session_events,
) -> Timeline | None:
    """Return steps of a session.

    Args:
        stores: Lake and settings.
        session: Row of ``agent_sessions``.
        now: The time.
        kinds: The only kinds of steps; ``None`` for all.
        places: Which of these steps, as a slice of their list.
        read: Returns the events of the session.

    Returns:
        The steps; ``None`` if the session has continued since it was built.

    Raises:
        LakeError: A file cannot be read.
        QueryError: The SQL failed.
    """
    found = read(stores, session, now)
    if found is None:
        return None
    texts = shown_texts(stores.settings.judge_redact_personal)
    numbered = list(enumerate(session_steps(found.events.select(STEP_COLUMNS).to_dicts()), 1))
    wanted = [step for step in numbered if kinds is None or step[1].kind in kinds]
    shown = wanted[places]
    first = next((step for step in numbered if step[1].kind == "prompt"), None)
    return Timeline(
        tuple(_shown(*step, texts) for step in shown),
        len(wanted),
        None if first is None else _shown(*first, texts),
        found.note,
    )


def _shown(number: int, step: SessionStep, texts: ShownTexts) -> TimelineStep:
    said = tuple(
        (part.label, (texts.parameters if part.is_json else texts.text)(part.text))
        for part in step.parts
    )
    title = texts.line(step.title.removeprefix("TOOL "))
    return TimelineStep(
        number,
        step.kind,
        f"{int(step.seconds) // 60}:{int(step.seconds) % 60:02}",
        title.capitalize() if step.kind in {"prompt", "reply"} else title,
        said,
        step.not_logged,
        step.is_failure,
    )


_MOST_NAMED = 2


def why_score(view: SessionView, *, texts: bool) -> str:
    """Return what the effective score comes from, in short sentences.

    Args:
        view: The session.
        texts: Whether the reader may see what a person wrote.
    """
    evaluation = view.evaluation
    source = None if evaluation is None else evaluation.source
    if source == "status":
        return _by_status(view)
    failed = ""
    if view.session["status"] == "failed" and evaluation is not None:
        is_automatic = source != "override" and evaluation.score_100 is not None
        rule = ": does not count as passed" if is_automatic else ""
        failed = f"Failed{model_api_errors(view.session)}{rule}. "
    return f"{failed}{_by_source(view, source, texts=texts)}"


def _by_source(view: SessionView, source: str | None, *, texts: bool) -> str:
    match source:
        case "override":
            return _by_person(view, texts=texts)
        case "scorecard":
            return _by_card(view)
        case "judge":
            return f"Judge total.{_why_no_card(view)}"
        case "composite":
            return f"Composite x 10.{_weakest_dimensions(view)}{_why_no_card(view)}"
    return f"No score.{_cancelled_at_start(view)}{_why_no_card(view)}"


def _by_person(view: SessionView, *, texts: bool) -> str:
    live = next((override for override in view.overrides if override["state"] == "live"), None)
    automatic = None if live is None else live["automatic_100"]
    annotator = None if view.evaluation is None else view.evaluation.annotator
    said = f"Scored by {annotator or 'a person'}."
    if automatic is not None:
        said += f" Automatic score: {points(automatic)}."
    return f"{said} Reason: “{live['reason']}”" if live is not None and texts else said


def _by_card(view: SessionView) -> str:
    card = counting_card(view)
    if card is None:
        return "Scored by a profile."
    profile = f"Profile {card['profile_id']}"
    if card["disqualified"]:
        rule = card["disqualifier_triggered"] or "an unknown rule"
        return f"{profile}: disqualified by {rule}, so the score is 0 whatever its criteria."
    span = card["scale_max"] - card["scale_min"]
    known = [
        (100 * (score["value"] - card["scale_min"]) / span, criterion_name(score["key"]))
        for score in card["criteria_scores"] or ()
        if score["value"] is not None
    ]
    return f"{profile}.{_weakest('criteria', known, 100)}"


def counting_card(view: SessionView) -> Row | None:
    """Return the scorecard whose profile decides the score; ``None`` if there is none."""
    profile = None if view.target is None else view.target.profile.id
    return next(
        (scorecard for scorecard in view.scorecards if scorecard["profile_id"] == profile), None
    )


def _by_status(view: SessionView) -> str:
    is_at_start = view.evaluation is not None and view.evaluation.reason == FAILED_AT_START
    when = "before any tool call" if is_at_start else "without any other score"
    return f"Failed {when}{model_api_errors(view.session)}: score 0."


def _weakest_dimensions(view: SessionView) -> str:
    row = view.performance or {}
    known = [
        (row[weight], criterion_name(weight)) for weight in WEIGHTS if row.get(weight) is not None
    ]
    return _weakest("dimensions", known, 10)


def _weakest(what: str, known: Sequence[tuple[float, str]], most: int) -> str:
    """Return the lowest of some scores, each with its name; full ones are not low."""
    below = sorted(number for number in known if number[0] < most)[:_MOST_NAMED]
    if not below:
        return f" All {what}: {most} of {most}." if known else ""
    named = ", ".join(f"{name.lower()} {points(value)}" for value, name in below)
    return f" Lowest {what} (0-{most}): {named}."


def _cancelled_at_start(view: SessionView) -> str:
    is_open = view.evaluation is None or view.evaluation.reason == NOT_ENDED
    is_at_start = view.session["status"] == "cancelled" and not view.session["total_tools"]
    return " Cancelled before any tool call." if is_at_start and not is_open else ""


def _why_no_card(view: SessionView) -> str:
    reason, state = None if view.evaluation is None else view.evaluation.reason, view.judge_state
    thin = f" ({state.reason})" if state is not None and state.state == "too_thin" else ""
    return f" No scorecard: {reason}{thin}." if reason else ""
