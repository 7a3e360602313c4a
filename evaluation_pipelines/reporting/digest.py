"""The digest of a week: collected from the lake, and its page."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta

import polars as pl

from evaluation_pipelines.comparison.compare_models import compare_models, usual_question
from evaluation_pipelines.comparison.domain.answers import overview
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.comparison.domain.verdict_list import verdict_list
from evaluation_pipelines.judge_changes.domain.words import title
from evaluation_pipelines.judge_changes.frame import read_history
from evaluation_pipelines.reporting.domain.digest import (
    Digest,
    beyond_chance,
    changed_verdicts,
    most_lost,
    shifts,
    summary,
)
from evaluation_pipelines.reporting.pages import render_page
from evaluation_pipelines.reporting.session_list import sessions_of_dates
from evaluation_pipelines.schemas import AGENT_SESSIONS, EVALUATION_BOOKS, TOOL_REPORTS
from evaluation_pipelines.sessions.domain.tool_reports.fleet import calls_by_tool, lost_by
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.quarantine.entries import count_unresolved

_STATES = {
    "failed": "whose scoring failed",
    "deferred": "left for later by the judge",
    "excluded": "excluded by a rule",
    "too_thin": "without texts to judge",
    "sampled_out": "not in the sample of the judge",
}


def make_digest(stores: Stores, first: date, last: date) -> Digest:
    """Return the digest of the days from ``first`` to ``last``, next to as many days before.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    length = (last - first).days + 1
    now = _sessions(stores, first, last)
    before = _sessions(stores, first - timedelta(days=length), first - timedelta(days=1))
    found = shifts(now, before)
    better, worse = beyond_chance(found)
    ended = datetime.combine(last + timedelta(days=1), time(), UTC)
    comparison = _comparison(stores, ended)
    former = _comparison(stores, ended - timedelta(days=length))
    verdicts = changed_verdicts(verdict_list(comparison)["pairs"], verdict_list(former)["pairs"])
    left_out = [*_left_out(stores, first, last, comparison), *_judges(stores, first, length, ended)]
    losses = most_lost(_lost(stores, first, last))
    return Digest(
        first, last, summary(now, before), better, worse, verdicts, losses, left_out, found
    )


def digest_page(digest: Digest) -> str:
    """Return a digest as one self-contained page; every text in it is escaped."""
    return render_page("digest", {"title": digest.title, "sections": digest.sections})


def _days(stores: Stores, first: date, last: date) -> list[date]:
    return [each for each in stores.lake.partitions(AGENT_SESSIONS) if first <= each <= last]


def _sessions(stores: Stores, first: date, last: date) -> pl.DataFrame:
    return sessions_of_dates(stores, _days(stores, first, last), pl.lit(value=True))


def _comparison(stores: Stores, now: datetime) -> Comparison:
    return compare_models(stores, usual_question(stores.settings, now), now)


def _lost(stores: Stores, first: date, last: date) -> pl.DataFrame:
    days, lake = _days(stores, first, last), stores.lake
    reports, sessions = lake.read(TOOL_REPORTS, days), lake.read(AGENT_SESSIONS, days)
    return lost_by("tool", calls_by_tool(reports, sessions))


def _left_out(stores: Stores, first: date, last: date, comparison: Comparison) -> Iterator[str]:
    yield "changes: people without scored sessions in both weeks, or fewer than three of a kind"
    if lines := overview(comparison):
        yield f"verdicts, of 28 days: {lines[0]}"
    days = [each for each in stores.lake.partitions(EVALUATION_BOOKS) if first <= each <= last]
    states = Counter(stores.lake.read(EVALUATION_BOOKS, days, ["state"])["state"])
    for state, meaning in _STATES.items():
        if states[state]:
            yield f"scores: {states[state]} sessions {meaning}"
    if unread := count_unresolved(stores, first):
        yield f"everything: {unread} lines that could not be read (quarantine)"


def _judges(stores: Stores, first: date, length: int, ended: datetime) -> Iterator[str]:
    """Yield the changes of a judge in these weeks: scores before and after differ by them, too."""
    begin = first - timedelta(days=length)
    for each in read_history(stores, ended).changes:
        if each.changed_on is not None and begin < each.changed_on < ended.date():
            yield f"another judge counts, too, in every change above: {title(each)}"
