"""Outcomes of commits in clones: merged, reverted, share of their lines alive."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple, TypeAlias

import polars as pl

from evaluation_pipelines.outcomes.domain.by_session import TRACKED_DAYS
from evaluation_pipelines.outcomes.domain.history import Commit, History
from evaluation_pipelines.outcomes.git import GitError, Repository, short_name
from evaluation_pipelines.outcomes.table import write_late
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_KEY, SESSION_OUTCOMES
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.outcome_lines import LateOutcome
from evaluation_pipelines.telemetry.ledger.late_outcomes import OutcomeStore

SURVIVAL_DAYS = (1, 7, 30)
_KINDS = ("merged", "reverted", *(f"survival_{days}d" for days in SURVIVAL_DAYS))
_MAX_FILES = 300
"""Files of a commit whose lines are followed. Of larger ones survival is unknown."""

_SECONDS = 900.0
"""Time for one repository in a night."""

_EARLIER = timedelta(days=2)
"""How much earlier than its session the clock of a commit may be."""

_NEVER = datetime.min.replace(tzinfo=UTC)


class Answer(NamedTuple):
    """Value, time and lines of one kind of outcome, by a repository."""

    value: float
    happened_at: datetime | None = None
    lines: int | None = None


Answers: TypeAlias = Mapping[str, Answer]
"""Kind -> answer. A kind without one is unknown."""


@dataclass(frozen=True, slots=True)
class _Read:
    """Answers of one repository by commit as asked, as of a time, and its own names.

    Commits that it has and gave no answer about are ``unread``.
    """

    names: frozenset[str]
    known_until: datetime
    answers: Mapping[str, Answers]
    unread: Collection[str] = ()


@dataclass(slots=True)
class GitReport:
    """One look into all repositories: numbers of commits, errors, and dates written."""

    asked: int = 0
    found: int = 0
    inferred: int = 0
    refused: list[str] = field(default_factory=list)
    dates: list[date] = field(default_factory=list)


def first_tracked(now: datetime) -> date:
    """Return the first date of sessions whose commits are asked about."""
    return now.date() - timedelta(days=TRACKED_DAYS)


def read_git(stores: Stores, now: datetime) -> GitReport:
    """Ask EVAL_GIT_REPOSITORIES about commits of recent sessions, and store their outcomes.

    Args:
        stores: Lake, ledger and settings.
        now: The present time.

    Returns:
        A report. It has an error for each repository that lacks answers.

    Raises:
        LakeError: A table cannot be read or written.
        LedgerError: The ledger cannot be used.
    """
    report, first = GitReport(), first_tracked(now)
    days = [day for day in stores.lake.partitions(AGENT_SESSIONS) if day >= first]
    known = stores.lake.read(SESSION_OUTCOMES, days)
    sessions = stores.lake.read(AGENT_SESSIONS, days, _SESSION)
    commits = known.filter(kind="commit").join(
        sessions.select(*SESSION_KEY, "repository"), on=SESSION_KEY
    )
    reads: list[_Read] = []
    for path in stores.settings.git_repositories:
        try:
            repository = Repository(path, _SECONDS)
            commits = pl.concat([commits, _inferred(repository, sessions, commits, now)])
            reads.append(_read(repository, commits, known, now, report))
        except GitError as error:
            report.refused.append(str(error))
    report.asked = commits["reference"].n_unique()
    report.found = len({answer for read in reads for answer in read.answers})
    report.inferred = commits.filter("inferred").height
    if reads:
        are_all = len(reads) == len(stores.settings.git_repositories)
        OutcomeStore(stores.ledger).add(_late(commits, known, reads, are_all=are_all))
    report.dates = write_late(stores)
    return report


_SESSION = (
    *(*SESSION_KEY, "session_id", "repository", "branch", "user_email"),
    *("started_at", "ended_at", "session_date"),
)


def _read(
    repository: Repository,
    commits: pl.DataFrame,
    known: pl.DataFrame,
    now: datetime,
    report: GitReport,
) -> _Read:
    """Ask one repository about commits, those first whose answers are missing or oldest."""
    names, found = repository.names, repository.find(commits["reference"].unique().to_list())
    if not found:
        return _Read(names, now, {})
    first = commits["session_date"].min()
    assert isinstance(first, date)  # noqa: S101 - there are commits
    since = datetime.combine(first, time(), UTC) - _EARLIER
    history = repository.with_patches(repository.history(since, now), since)
    settled, answers = _settled(commits, known), dict[str, Answers]()
    errors = [history.unread_patches] if history.unread_patches else []
    of_git = known.filter(source="git", kind="merged").group_by("reference")
    read_at = dict(of_git.agg(pl.col("read_at").min()).iter_rows())
    for asked in sorted(found, key=lambda asked: read_at.get(asked, _NEVER)):
        try:
            answers[asked] = answers_of(repository, history, found[asked], settled[asked])
        except GitError as error:  # perhaps of this commit only
            errors.append(str(error))
    report.refused += errors[:1]
    return _Read(names, history.known_until, answers, found.keys() - answers)


def _settled(commits: pl.DataFrame, known: pl.DataFrame) -> Mapping[str, Collection[str]]:
    """Return the kinds of survival that all sessions of a commit have, by commit."""
    sessions = Counter(commits["reference"])
    has_value = pl.col("value").is_not_null() & pl.col("kind").str.starts_with("survival")
    counted = Counter(known.filter(has_value, source="git").select("reference", "kind").iter_rows())
    found = defaultdict[str, set[str]](set)
    for (reference, kind), number in counted.items():
        if number >= sessions[reference]:
            found[reference].add(kind)
    return found


def answers_of(
    repository: Repository, history: History, commit_id: str, settled: Collection[str] = ()
) -> Answers:
    """Return the outcomes of a commit by one repository.

    Args:
        repository: A repository with the commit.
        history: Its default branch, with patch ids.
        commit_id: Full id of the commit.
        settled: Kinds with a final value, which are left out.

    Raises:
        GitError: The repository cannot be read.
    """
    merged = commit_id if commit_id in history.commits else None
    if merged is None:
        if history.is_shallow or repository.is_ancestor(commit_id, history.tip):
            return {}
        made_at = repository.authored_at(commit_id)
        merged = history.twin(repository.patches_of(commit_id, history), made_at)
        if merged is None:
            return {} if history.unread_patches else {"merged": Answer(0.0)}
    state = history.merged_with.get(merged)
    if state is None or history.is_shallow:
        return {"merged": Answer(1.0)}
    commit = history.commits[merged]
    inverse = repository.patch_of(commit_id, commit.parents[0]) if commit.parents else set()
    reverting = history.reverting(merged, next(iter(inverse), None))
    found = {"merged": Answer(1.0, state.committed_at)}
    if reverting is not None:
        found["reverted"] = Answer(1.0, reverting.committed_at)
    elif not history.unread_patches:
        found["reverted"] = Answer(0.0)
    due = [
        days
        for days in SURVIVAL_DAYS
        if f"survival_{days}d" not in settled
        and state.committed_at + timedelta(days) <= history.known_until
    ]
    return found | _survival(repository, history, commit, state.committed_at, due)


def _survival(
    repository: Repository,
    history: History,
    commit: Commit,
    merged_at: datetime,
    due: Sequence[int],
) -> dict[str, Answer]:
    """Return the shares of the lines of a commit that live some days after it was merged."""
    paths = repository.touched(commit.commit_id) if due else []
    if len(commit.parents) > 1 or not 0 < len(paths) <= _MAX_FILES:
        return {}
    lines = repository.lines_of(commit, commit.commit_id, paths)
    found: dict[str, Answer] = {}
    for days in due if lines else ():
        time_then = merged_at + timedelta(days=days)
        state = history.state_at(time_then)
        if state is not None:
            there = repository.names_since(commit.commit_id, state.commit_id, paths)
            living = repository.lines_of(commit, state.commit_id, there)
            found[f"survival_{days}d"] = Answer(living / lines, time_then, lines)
    return found


def _inferred(
    repository: Repository, sessions: pl.DataFrame, commits: pl.DataFrame, now: datetime
) -> pl.DataFrame:
    """Return commits of sessions without any, by author, time and branch, if only one remains."""
    has_all = pl.all_horizontal(pl.col("repository", "branch", "user_email").is_not_null())
    names = [
        name
        for name in sessions["repository"].drop_nulls().unique()
        if short_name(name) in repository.names
    ]
    is_here = pl.col("repository").is_in(names)
    asked = sessions.join(commits, on=SESSION_KEY, how="anti").filter(has_all, is_here)
    taken = set(repository.find(commits["reference"].unique().to_list()).values())
    candidates: list[tuple[dict[str, object], str, datetime]] = []
    for (branch,), on_branch in asked.group_by("branch", maintain_order=True):
        made = repository.authored(str(branch), min(on_branch["started_at"].to_list()) - _EARLIER)
        for row in on_branch.iter_rows(named=True):
            fitting = [
                commit
                for commit in made
                if commit.author_email == row["user_email"].lower()
                and row["started_at"] <= commit.authored_at <= row["ended_at"]
                and commit.commit_id not in taken
            ]
            if len(fitting) == 1:
                candidates.append((row, fitting[0].commit_id, fitting[0].authored_at))
    claims = Counter(commit_id for _, commit_id, _ in candidates)
    rows = [
        {**row, "kind": "commit", "happened_at": made_at, "value": 1.0, "reference": commit_id}
        | {"source": "git", "inferred": True, "read_at": now}
        for row, commit_id, made_at in candidates
        if claims[commit_id] == 1
    ]
    return pl.DataFrame(rows, commits.schema)


def _late(
    commits: pl.DataFrame, known: pl.DataFrame, reads: Sequence[_Read], *, are_all: bool
) -> Iterator[LateOutcome]:
    """Yield the outcomes of all commits. Values without an answer now become null.

    They stay if a repository could not be read, unless the one that the session names was.
    """
    stored = defaultdict[tuple[str, ...], dict[str, float | None]](dict)
    for *key, kind, value in (
        known.filter(source="git").select(*SESSION_KEY, "reference", "kind", "value").iter_rows()
    ):
        stored[tuple(key)][kind] = value
    for row in commits.iter_rows(named=True):
        reference = row["reference"]
        answers, read_at, is_named = _agreed(row["repository"], reference, reads)
        if not is_named and any(reference in read.unread for read in reads):
            continue
        commit = LateOutcome(
            *(row["organization_id"], row["session_id"], "commit", "git", read_at),
            *(row["session_key"], reference, row["happened_at"]),
            inferred=row["inferred"],
        )
        if row["source"] == "git" and answers:
            yield commit
        before = stored[row["organization_id"], row["session_key"], reference]
        is_merged = "merged" in answers and answers["merged"].value == 1
        for kind in _KINDS:
            if kind in answers:
                yield replace(commit, kind=kind, **answers[kind]._asdict())
            elif before.get(kind) is None or (is_merged and "survival" in kind):
                continue
            elif are_all or is_named:
                yield replace(commit, kind=kind, value=None, happened_at=None)


def _agreed(
    repository: str | None, reference: str, reads: Sequence[_Read]
) -> tuple[Answers, datetime, bool]:
    """Return the answers about a commit, their time, and whether the named repository gave them.

    They are empty if repositories differ. Of several the one counts that the session names.
    """
    having = [read for read in reads if reference in read.answers]
    named = [read for read in having if repository and short_name(repository) in read.names]
    chosen = named if len(named) == 1 else having
    read_at = min(read.known_until for read in chosen or reads)
    answers = [read.answers[reference] for read in chosen]
    agree = bool(answers) and all(answer == answers[0] for answer in answers)
    return (answers[0] if agree else {}), read_at, len(named) == 1
