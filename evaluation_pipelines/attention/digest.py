"""The digest of a week: collected from the lake, and its page."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta

import polars as pl

from evaluation_pipelines.attention.domain.digest import (
    BY,
    Digest,
    Shift,
    beyond_chance,
    changed_verdicts,
    most_lost,
    shift,
    summary,
    unlisted,
)
from evaluation_pipelines.attention.domain.items import attention, needing, rise
from evaluation_pipelines.attention.gather import WholeView, current_rises, examine, gather
from evaluation_pipelines.comparison.compare_models import compare_models, usual_question
from evaluation_pipelines.comparison.domain.answers import overview
from evaluation_pipelines.comparison.domain.before_after import FEWEST_RUNS, Days
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.differences import MIN_PEOPLE
from evaluation_pipelines.comparison.domain.findings import got_worse, verdict_list
from evaluation_pipelines.comparison.domain.pairwise import MIN_DAYS
from evaluation_pipelines.comparison.domain.regressions import ALERT
from evaluation_pipelines.judge_changes.anchors import read_history
from evaluation_pipelines.judge_changes.domain.judge_change import title
from evaluation_pipelines.judge_changes.domain.judges import is_one_scale, on_newest_scale
from evaluation_pipelines.reporting.agent_changes import AgentTimes, changes_by, scored_runs
from evaluation_pipelines.reporting.pages import render_page
from evaluation_pipelines.schemas import AGENT_SESSIONS, EVALUATION_BOOKS, JUDGE_CHANGES
from evaluation_pipelines.scorecards.blind_reviews import BlindReviews
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.sessions.domain.performance import is_counted
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.views.sessions import sessions
from evaluation_pipelines.views.tool_calls import tool_calls

_STATES = {
    "failed": "whose judgment failed",
    "deferred": "left for later by the judge",
    "excluded": "excluded by a rule",
    "too_thin": "without text to judge",
    "sampled_out": "not in the sample of the judge",
}


def make_digest(stores: Stores, first: date, last: date, time_now: datetime) -> Digest:
    """Return the digest of the days from ``first`` to ``last``, next to as many days before.

    It lists what needs attention at ``time_now``.

    Scores that wait for a blind review are left out, as on the pages.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    length = (last - first).days + 1
    before_days = first - timedelta(days=length), first - timedelta(days=1)
    waiting = BlindReviews(stores).waiting()
    changes = stores.lake.read_whole(JUDGE_CHANGES)
    scaled, turns = on_newest_scale(_sessions(stores, before_days[0], last, waiting), changes)
    found = _shifts(stores, ((first, last), before_days), waiting)
    ended = datetime.combine(last + timedelta(days=1), time(), UTC)
    comparison = _comparison(stores, ended)
    former = _comparison(stores, ended - timedelta(days=length))
    verdicts = changed_verdicts(verdict_list(comparison)["pairs"], verdict_list(former)["pairs"])
    left_out = [
        *_left_out(stores, first, last, comparison),
        *_judges(stores, first, length, ended),
    ]
    regressions = comparison.regressions.filter(state=ALERT).to_dicts()
    better, worse = beyond_chance(found, regressions)
    rises = current_rises(WholeView(stores), ended)
    worse = [
        *(f"model {alert.said}" for alert in got_worse(comparison)),
        *(f"agent {rise(row).seen} (organization {row['organization_id']})" for row in rises),
        *worse,
    ]
    losses = most_lost(_lost(stores, first, last))
    is_recent = pl.col("session_date") >= first
    said = summary(
        scaled.filter(is_recent),
        scaled.filter(~is_recent),
        length,
        has_one_scale=is_one_scale(turns, before_days[0], last),
    )
    examined = examine(stores, time_now, asks=False)
    # What got worse has a section of its own.
    facts = unlisted(gather(stores, time_now, examined=examined), regressions, rises)
    titles = [item.title for item in needing(attention(facts))]
    return Digest(first, last, said, titles, better, worse, verdicts, losses, left_out, found)


def digest_page(digest: Digest) -> str:
    """Return a digest as one self-contained page; every text in it is escaped."""
    return render_page("digest", {"title": digest.title, "sections": digest.sections})


def _days(stores: Stores, first: date, last: date) -> list[date]:
    return [
        partition
        for partition in stores.lake.partitions(AGENT_SESSIONS)
        if first <= partition <= last
    ]


def _sessions(
    stores: Stores, first: date, last: date, waiting: frozenset[SessionKey]
) -> pl.DataFrame:
    return sessions(stores, _days(stores, first, last), is_counted(), waiting=waiting)


def _shifts(
    stores: Stores, times: tuple[Days, Days], waiting: frozenset[SessionKey]
) -> list[Shift]:
    runs = scored_runs(stores.lake, AgentTimes(None, None, (times,), waiting))
    shifts = [
        shift(by, name, change)
        for by, columns in BY.items()
        for name, change in changes_by(runs, columns, (times,)).items()
    ]
    return [shown for shown in shifts if shown is not None]


def _comparison(stores: Stores, now: datetime) -> Comparison:
    return compare_models(stores, usual_question(stores.settings, now), now)


def _lost(stores: Stores, first: date, last: date) -> pl.DataFrame:
    return tool_calls(stores.lake, _days(stores, first, last)).lost_by("tool")


def _left_out(stores: Stores, first: date, last: date, comparison: Comparison) -> Iterator[str]:
    yield (
        f"changes: models, labels and agents with fewer than {FEWEST_RUNS} scored sessions of the "
        f"same kinds of task, or {MIN_PEOPLE} people or {MIN_DAYS} days, in either period"
    )
    if lines := overview(comparison):
        yield f"verdicts, of 28 days: {lines[0]}"
    days = [
        partition
        for partition in stores.lake.partitions(EVALUATION_BOOKS)
        if first <= partition <= last
    ]
    states = Counter(stores.lake.read(EVALUATION_BOOKS, days, ["state"])["state"])
    for state, meaning in _STATES.items():
        if states[state]:
            yield f"scores: {states[state]} sessions {meaning}"


def _judges(stores: Stores, first: date, length: int, ended: datetime) -> Iterator[str]:
    """Yield the changes of a judge in these weeks: scores before and after differ by them, too."""
    begin = first - timedelta(days=length)
    for change in read_history(stores, ended).changes:
        if change.changed_on is not None and begin < change.changed_on < ended.date():
            yield f"the judge changed, which may explain part of these changes: {title(change)}"
