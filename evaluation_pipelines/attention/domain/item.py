"""An item of the list of what needs attention, and the items that follow from one fact alone."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum

import polars as pl

from evaluation_pipelines.attention.domain.arrivals import DAYS
from evaluation_pipelines.formatting import age, percent, pluralize, size, usd
from evaluation_pipelines.telemetry.domain.dialects.transcript import LineKind

_GIB = 2**30
_BUILT_WITHIN = timedelta(minutes=30)
_ENDED_WITHIN = timedelta(minutes=1)
_HANGS_AFTER = timedelta(minutes=5)
_FAILS_AFTER = timedelta(minutes=15)
_FAIL_BELOW, _WARN_BELOW = 1 * _GIB, 5 * _GIB
_BUDGET_WARNING = 0.8
BOOKS_DAYS = 7
"""Days whose books are checked."""

BUILD = "Keep make serve or make dev running.", "Or run: evaluation-pipelines build"
"""What to do, and the command."""


class State(StrEnum):
    """How urgent an item is; a task is something to do although nothing is wrong."""

    FAILED = "failed"
    WARNING = "warning"
    TASK = "task"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Page:
    """A page: parts of its path and fields of its query, not quoted; of the service by default."""

    path: tuple[str, ...]
    query: tuple[tuple[str, str], ...] = ()
    server: str = ""


def page_of(*path: str, **query: str) -> Page:
    """Return a page of the service."""
    return Page(path, (*query.items(),))


DOCTOR, JUDGE = page_of("operations", "doctor"), page_of("operations", "judge")


@dataclass(frozen=True, slots=True)
class Part:
    """One of the subjects of an item; ``page`` shows details."""

    name: str
    seen: str
    page: Page | None = None

    def __str__(self) -> str:
        """Return a line."""
        return f"{self.name}: {self.seen}" if self.name else self.seen


@dataclass(frozen=True, slots=True)
class Item:
    """Something that needs attention, or that is fine.

    Attributes:
        kind: What sort of thing it is.
        area: The part of the installation that it is about.
        state: How urgent it is.
        seen: What is wrong, or fine, in a sentence.
        remedy: What to do, in a sentence; ``None`` if nothing.
        command: The command for it, which pages do not show: they link to ``page``.
        page: The page that shows it.
        since: Its start.
        parts: Its subjects one by one.
        is_for_all: Whether callers limited to one organization also see it, about their data.
    """

    kind: str
    area: str
    state: State
    seen: str
    remedy: str | None = None
    command: str | None = None
    page: Page = DOCTOR
    since: datetime | date | None = None
    parts: tuple[Part, ...] = ()
    is_for_all: bool = False

    @property
    def since_text(self) -> str | None:
        """Its start, to the minute if that is known."""
        if isinstance(self.since, datetime):
            return f"{self.since:%Y-%m-%d %H:%M}"
        return None if self.since is None else f"{self.since}"

    @property
    def title(self) -> str:
        """The sentence, and since when."""
        return self.seen if self.since is None else f"{self.seen} (since {self.since_text})"

    @property
    def advice(self) -> str | None:
        """What to do, with the command."""
        return " ".join(filter(None, (self.remedy, self.command))) or None

    @property
    def lines(self) -> tuple[str, ...]:
        """What it is about one by one, then what to do."""
        return (*map(str, self.parts), *([self.advice] if self.advice else []))


def books_page(day: date | str) -> Page:
    """Return the page of the books of a day."""
    return page_of("operations", "books", f"{day}")


def quarantine(lines: int, signals: int, newest: str | None, since: date) -> Iterator[Item]:
    """Yield the unreadable lines, if there are any.

    Args:
        lines: Lines of telemetry since a day.
        signals: Lines of signals and evaluations.
        newest: Place of the last of them, and why it could not be read.
        since: The day.
    """
    if lines or signals:
        parts = [Part("", f"{lines:,} in telemetry (last {DAYS} days), {signals:,} in signals")]
        yield Item(
            *("quarantine", "telemetry", State.WARNING),
            pluralize(lines + signals, "unreadable line"),
            "Read the reasons and correct the sender.",
            "To list them: evaluation-pipelines quarantine list",
            page_of("operations", "quarantine", since=f"{since}"),
            parts=(*parts, *([] if newest is None else [Part("latest", newest)])),
        )


def incomplete_lines(files: Iterable[tuple[str, int, datetime]], now: datetime) -> Iterator[Item]:
    """Yield the files that end in an incomplete line: path, bytes of it, last change."""
    for path, size_bytes, changed_at in files:
        if now - changed_at > _ENDED_WITHIN:
            yield Item(
                *("incomplete_line", "telemetry", State.WARNING),
                f"{path} ends in an incomplete line: {size(size_bytes)} not read",
                "End the line with a newline, or remove the line. A day after the last change it "
                "goes to quarantine.",
                since=changed_at,
            )


def waiting_dates(number: int, since: datetime | None, now: datetime) -> Item:
    """Return the dates to build; ``since`` is since when the oldest waits."""
    seen = f"{pluralize(number, 'date')} to build" if number else "All dates are built"
    if since is not None and now - since > _BUILT_WITHIN:
        return Item("due", "running", State.FAILED, seen, *BUILD, since=since)
    return Item("due", "running", State.OK, seen)


def transcripts(lines: Mapping[tuple[str, LineKind], int]) -> Iterator[Item]:
    """Yield the share of known lines in the transcripts of each program and version.

    ``lines`` are the lines read, by program and kind.
    """
    read, known = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for (program, kind), number in lines.items():
        read[program, kind.version] += number
        known[program, kind.version] += number if kind.is_known else 0
    parts = [
        Part(
            f"{program} {version or 'of unknown version'}", f"{percent(known[key] / number)} known"
        )
        for key, number in sorted(read.items())
        for program, version in [key]
    ]
    if known.total() == read.total() and parts:
        seen = f"All lines of transcripts are known ({pluralize(len(parts), 'version')})"
        yield Item("transcripts", "telemetry", State.OK, seen, parts=(*parts,))
    elif parts:
        seen = f"{pluralize(read.total() - known.total(), 'line')} of transcripts of unknown kinds"
        advice = "Update evaluation-pipelines: their agents are newer."
        yield Item("transcripts", "telemetry", State.WARNING, seen, advice, parts=(*parts,))


def silent_locks(holders: Iterable[tuple[str, str, datetime]], now: datetime) -> Iterator[Item]:
    """Yield the holders of locks without progress: lock, process, time of the last progress."""
    for lock, process, progress_at in holders:
        if now - progress_at > _HANGS_AFTER:
            seen = f"{process} holds the lock {lock}. Its last progress was {age(progress_at, now)}"
            advice = "If it hangs, end it: other processes wait for it."
            yield Item("lock", "running", State.WARNING, seen, advice)


def answer(
    name: str, address: str, error: str | None, advice: str, *, is_expected: bool = True
) -> Item:
    """Return whether something answers at an address; ``error`` is the reason if not."""
    where = f"{name} at {address}"
    if error is None:
        return Item("answer", "running", State.OK, f"{where} is responding")
    if not is_expected:
        return Item("answer", "running", State.OK, f"No {where}, and the settings name none")
    return Item("answer", "running", State.FAILED, f"{where} is not responding: {error}", advice)


def unscored(books: pl.DataFrame) -> Iterator[Item]:
    """Yield the failed and the deferred sessions of the books, each from the last day with any.

    Args:
        books: ``session_date``, ``state`` and ``sessions`` of the last days.
    """
    for state, meaning in (("failed", "could not be scored"), ("deferred", "are postponed")):
        chosen = books.filter(state=state)
        if chosen.is_empty():
            continue
        newest = max(chosen["session_date"])
        number = int(chosen.filter(session_date=newest)["sessions"].sum())
        before = int(chosen["sessions"].sum()) - number
        said = meaning.replace("are ", "is ") if number == 1 else meaning
        yield Item(
            *(f"books_{state}", "reviews", State.TASK),
            f"{pluralize(number, 'session')} of {newest} {said}",
            "Each session has its reason.",
            f"To list them: evaluation-pipelines books {newest} --sessions {state}",
            page_of("operations", "books", f"{newest}", state=state),
            parts=(Part("", f"{before} more in the {BOOKS_DAYS} days before"),) if before else (),
            is_for_all=True,
        )


def reviews(number: int, *, has_keys: bool) -> Iterator[Item]:
    """Yield the sessions that await a blind review, which only requires a key if there are any."""
    why = "Reviews show how far automatic scores can be trusted."
    if number:
        yield Item(
            *("reviews", "reviews", State.TASK),
            f"{pluralize(number, 'session')} to review blind",
            f"{why} They require a reviewer key." if has_keys else why,
            page=page_of("reviews"),
            is_for_all=True,
        )


def outgoing(
    receivers: Iterable[tuple[str, datetime | None, str | None, bool]],
    refused: Mapping[str, int],
    now: datetime,
) -> Iterator[Item]:
    """Yield the receivers of evaluations that do not get them.

    Args:
        receivers: Name, start and reason of the failure if it fails, and whether it has ended.
        refused: Name of a receiver -> sessions that it refused.
        now: The time.
    """
    for name, since, reason, has_ended in receivers:
        parts = (Part("", reason),) if reason else ()
        if has_ended:
            seen, remedy = f"The {name} has ended its subscription", "Remove it from EVAL_WEBHOOKS."
            yield Item("receiver", "running", State.WARNING, seen, remedy, parts=parts)
        elif since is not None and now - since > _FAILS_AFTER:
            seen = f"Evaluations do not reach {name}"
            remedy, command = (
                "Nothing is lost.",
                "To try now: evaluation-pipelines evaluations --send",
            )
            yield Item(
                *("receiver", "running", State.FAILED, seen, remedy, command),
                since=since,
                parts=parts,
            )
    for name, number in refused.items():
        yield Item(
            *("refused", "running", State.WARNING),
            f"{name} refused evaluations of {pluralize(number, 'session')}",
            "Correct the receiver.",
            "To send them again: evaluation-pipelines evaluations --refused",
        )


def no_judge(reason: str, *, is_named: bool) -> Item:
    """Return why nothing is judged; naming a model means that it should judge."""
    state = State.WARNING if is_named else State.OK
    return Item("judge", "judge", state, reason, page=JUDGE)


def judge_budget(spent_usd: float, limit_usd: float | None) -> Item:
    """Return what the judge spent today, with its limit."""
    seen, advice = f"{usd(spent_usd)} spent or reserved by the judge today", None
    if limit_usd is None:
        seen = f"{seen}, without a limit"
        advice = "EVAL_JUDGE_MAX_COST_PER_DAY_USD sets a limit."
    else:
        seen = f"{seen}, of {usd(limit_usd)}"
        if spent_usd >= _BUDGET_WARNING * limit_usd:
            advice = "The rest is judged tomorrow, or raise the limit."
    state = State.WARNING if advice else State.OK
    return Item("budget", "budget", state, seen, advice, page=JUDGE)


def disk(free_bytes: int) -> Item:
    """Return what is free on the disk of the data folder."""
    seen = f"{free_bytes / _GIB:.1f} GiB free for data"
    if free_bytes >= _WARN_BELOW:
        return Item("disk", "disk", State.OK, seen)
    state = State.FAILED if free_bytes < _FAIL_BELOW else State.WARNING
    return Item("disk", "disk", state, seen, "docs/operations.md lists what may be deleted.")


def permissions(name: str, path: str, mode: int | None, owner: str, *, is_shared: bool) -> Item:
    """Return the permission bits of a folder; ``None`` if it does not exist.

    Collectors of other users may write into a shared folder: its owner decides.
    """
    if mode is None:
        return Item("permissions", "permissions", State.OK, f"{name}: {path} does not exist yet")
    seen = f"{name}: {path} (mode {mode:04o}, owner {owner})"
    if is_shared or not mode & 0o077:
        return Item("permissions", "permissions", State.OK, seen)
    seen = f"Other users have access to {seen}"
    remedy, command = "Close the folder to them.", f"Run: chmod 700 {path}"
    return Item("permissions", "permissions", State.WARNING, seen, remedy, command)


COLUMNS = (
    *("organization_id", "agent_id", "person_id", "session_date"),
    *("total_tools", "tools_failed", "cost_usd"),
)
RECENT_DAYS, BEFORE_DAYS = 7, 28
"""The last complete days, and the days before them."""


FAILED_CALLS, COST = "failed calls", "cost per session"
