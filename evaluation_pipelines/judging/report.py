"""Report of one judge run."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from enum import StrEnum

from evaluation_pipelines.judging.domain.badge import flags_of
from evaluation_pipelines.schemas import SCORE_FLAGS
from evaluation_pipelines.schemas.judge_score import LoggedTurn, Score


class LeftOpenReason(StrEnum):
    """Reason why a judgment is left to another run."""

    ENDPOINT_DOWN = "endpoint_down"
    USELESS_REPLIES = "useless_replies"
    NO_MONEY = "no_money"
    NO_ROOM = "no_room"
    INTERRUPTED = "interrupted"
    LOCK_LOST = "lock_lost"
    YIELDED = "yielded"


@dataclass(slots=True)
class JudgeReport:
    """Counts of one run; each candidate is in exactly one of the counts of candidates.

    Attributes:
        candidates: Sessions to judge.
        requests: Those that people have asked for, which the limits of the run leave out.
        totals: Total score of each scored session, in order of completion.
        failed: Failed judgments by reason.
        deferred: Sessions left to another run by reason, started or not.
        explanations: The same reasons, each with a sentence about its first session.
        unanswered: Id of a score -> why its request, sent at least in part, has no answer.
        taken_by_another_run: Sessions that another run scores.
        changed: Sessions with new events since they were selected; due after they have ended again.
        submitted: Sessions with requests in a batch that was sent.
        batches: Batches that were sent.
        collected: Replies that were collected from batches.
        unreadable: Dates whose sessions could not be read, with the error.
        discarded: Unfinished judgments of other runs that could not be resumed, by reason.
        continued: Scorings that were resumed from the replies of an earlier run.
        states: Session windows by their state at the beginning of the run.
        outdated: Sessions whose scores used another rubric, or another wording of it.
        faults: Sessions that wait for a rubric that cannot be used, by what is wrong.
        why_not_counted: Why the score of a session will not count, by its key; ``None`` if it will.
        excluded_flags: Flags with which no score counts.
        not_counted: Scored sessions whose score does not count, by reason.
        dates: Session dates of the judgments that ended.
        tags: Number of judgments by failure tag.
        flags: Number of judgments by flag.
        redactions: Redacted secrets by kind.
        calls: Requests sent to the judge, answered or not.
        input_tokens, cached_tokens, output_tokens: Reported tokens.
        cost_usd: Cost of the replies with a known cost.
        unpriced: Replies with an unknown cost.
        endpoint_failures: Requested judgments that failed since the endpoint did not answer.
        added_usd: Part of ``cost_usd`` that does not count against the budget of the run.
        booked_usd: Amount that counts against the budget: requests without a reply may be charged.
        stop_reason: Why the run ended early; ``None`` if it did not.
        skip_reason: Why nothing was judged; ``None`` if the run was possible.
    """

    candidates: int = 0
    requests: int = 0
    totals: list[int] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    deferred: Counter[str] = field(default_factory=Counter)
    explanations: dict[str, str] = field(default_factory=dict)
    unanswered: dict[str, str] = field(default_factory=dict)
    taken_by_another_run: int = 0
    changed: int = 0
    submitted: int = 0
    batches: int = 0
    collected: int = 0
    unreadable: dict[date, str] = field(default_factory=dict)
    discarded: Counter[str] = field(default_factory=Counter)
    continued: int = 0
    states: Counter[str] = field(default_factory=Counter)
    outdated: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    why_not_counted: dict[tuple[str, str], str | None] = field(default_factory=dict)
    excluded_flags: Collection[str] = ()
    not_counted: Counter[str] = field(default_factory=Counter)
    dates: set[date] = field(default_factory=set)
    tags: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    redactions: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    endpoint_failures: int = 0
    added_usd: float = 0.0
    booked_usd: float = 0.0
    stop_reason: str | None = None
    skip_reason: str | None = None

    @property
    def mean(self) -> float | None:
        """Mean total; ``None`` if no session was scored."""
        return sum(self.totals) / len(self.totals) if self.totals else None

    @property
    def handled(self) -> int:
        """Number of candidates with any outcome."""
        return (
            len(self.totals)
            + self.failed.total()
            + self.deferred.total()
            + self.taken_by_another_run
            + self.changed
            + self.submitted
        )

    @property
    def is_endpoint_down(self) -> bool:
        """Whether the endpoint was down or unusable; sessions that were not requested stay due."""
        return self.endpoint_failures > 0 or any(
            self.deferred[kind]
            for kind in (LeftOpenReason.ENDPOINT_DOWN, LeftOpenReason.USELESS_REPLIES)
        )

    @property
    def problem(self) -> str | None:
        """Why the run ended early or left sessions to another run; ``None`` if it did neither."""
        return self.stop_reason or next(iter(self.explanations.values()), None)

    def summary(self) -> str:
        """Return the run in a sentence."""
        if self.skip_reason is not None:
            return f"nothing was judged: {self.skip_reason}"
        if not (self.candidates or self.discarded or self.unreadable or self._has_batches()):
            return "; ".join(["nothing is due", *self._not_judged()])
        mean = "" if self.mean is None else f" (mean total {self.mean:.1f})"
        parts = [
            f"{len(self.totals)} of {self.candidates} sessions judged{mean}",
            *(
                f"{number} {outcome}"
                for outcome, number in (
                    ("of them on request", self.requests if self.requests < self.candidates else 0),
                    ("failed", self.failed.total()),
                    ("deferred", self.deferred.total()),
                    ("taken by another run", self.taken_by_another_run),
                    ("changed during the run", self.changed),
                    (f"sent in {self.batches} batches", self.submitted),
                    ("replies collected from batches", self.collected),
                    ("unfinished ones that could not be resumed", self.discarded.total()),
                )
                if number
            ),
            f"{self.calls} calls",
            self._cost(),
        ]
        problems = [f"{day} could not be read: {why}" for day, why in self.unreadable.items()]
        problems += [] if self.stop_reason is None else [f"stopped: {self.stop_reason}"]
        problems += [why for why in self.explanations.values() if why != self.stop_reason]
        return "; ".join([", ".join(parts), *problems, *self._not_judged(), *self._counted()])

    def _has_batches(self) -> bool:
        """Return whether batches gave something to report: replies, or a problem."""
        return self.collected > 0 or self.stop_reason is not None

    def _counted(self) -> list[str]:
        """Return how many of the scores count, and why others do not."""
        if not self.totals:
            return []
        number = len(self.totals)
        counted = f"{number} judged, {number - self.not_counted.total()} counted"
        others = (f"{n} not counted, {why}" for why, n in self.not_counted.items())
        return [". ".join([counted, *others])]

    def _not_judged(self) -> list[str]:
        left = [f"{number} not judged: {why}" for why, number in self.faults.items()]
        if self.outdated:
            left.append(
                f"{self.outdated} scored by another rubric or wording (--obsolete: score again)"
            )
        return left

    def _cost(self) -> str:
        unpriced = f" and {self.unpriced} unpriced" if self.unpriced else ""
        without_reply = self.booked_usd - (self.cost_usd - self.added_usd)
        charged = f", up to ${without_reply:.4f} more" if without_reply >= 0.00005 else ""
        return f"${self.cost_usd:.4f}{unpriced}{charged}"

    def add(self, other: "JudgeReport") -> None:
        """Add the counts of another part of the same run, which has a budget of its own."""
        added_usd = self.added_usd + other.cost_usd
        for counter in fields(self):
            ours, theirs = getattr(self, counter.name), getattr(other, counter.name)
            match ours:
                case Counter() | set() | dict():
                    ours.update(theirs)
                case list():
                    ours.extend(theirs)
                case int() | float():
                    setattr(self, counter.name, ours + theirs)
                case None:
                    setattr(self, counter.name, theirs)
        self.added_usd = added_usd

    def add_requests(self, served: "JudgeReport", *, is_all: bool = False) -> None:
        """Add what a run has judged on request; what stopped that stops a run with nothing else."""
        self.requests += served.candidates - served.deferred.total()
        if not is_all:
            served.stop_reason = None
        self.add(served)

    def count_deferred(self, kind: str, reason: str) -> None:
        """Count a session that is left to another run."""
        self.deferred[kind] += 1
        self.explanations.setdefault(kind, reason)

    def take_deferred(self) -> None:
        """Forget what was deferred: it is tried again."""
        self.deferred.clear()
        self.explanations.clear()
        self.unreadable.clear()

    def take_yielded(self) -> None:
        """Forget that the run has let go for another judge: it goes on, or had nothing left.

        What it has deferred meanwhile is due, and is found again.
        """
        reason = self.explanations.get(LeftOpenReason.YIELDED)
        if reason is None:
            return
        if self.stop_reason == reason:
            self.stop_reason = None
        if self.deferred[LeftOpenReason.YIELDED]:
            self.take_deferred()
        self.explanations.pop(LeftOpenReason.YIELDED, None)

    def count_interrupted(self) -> None:
        """Count the rest of a run that was interrupted."""
        self.stop_reason = "interrupted. The replies that arrived are kept for the next run"
        if (rest := self.candidates - self.handled) > 0:
            self.deferred[LeftOpenReason.INTERRUPTED] += rest

    def count_reply(self, turn: LoggedTurn) -> None:
        """Count a reply."""
        self.cost_usd += turn.cost_usd or 0.0
        self.unpriced += turn.cost_usd is None
        self.input_tokens += turn.input_tokens or 0
        self.cached_tokens += turn.cached_tokens or 0
        self.output_tokens += turn.output_tokens or 0

    def count_ended(self, score: Score) -> None:
        """Count a completed or failed judgment."""
        self.dates.add(score.session_date)
        self.flags.update(flags_of(score))
        self.redactions.update(dict(score.redactions or {}))
        if score.total_score is None:
            self.failed[_shorten(score.error_message or "")] += 1
        else:
            self.totals.append(score.total_score)
            why_not = self.why_not_counted.get((score.organization_id, score.session_key))
            if flags := [flag for flag in flags_of(score) if flag in self.excluded_flags]:
                why_not = f"flagged: {', '.join(flags)}"
            if why_not is not None:
                self.not_counted[why_not] += 1
            self.tags.update(score.failure_tags or ())

    def count_discarded(self, score: Score, reason: str) -> None:
        """Count an unfinished judgment that could not be resumed."""
        self.dates.add(score.session_date)
        self.discarded[reason] += 1

    def metrics(self) -> Mapping[str, int | float]:
        """Return the counts that are stored as metadata of a run."""
        return {
            "scored": len(self.totals),
            "counting": len(self.totals) - self.not_counted.total(),
            "failed": self.failed.total(),
            "deferred": self.deferred.total(),
            "taken_by_another_run": self.taken_by_another_run,
            "changed_meanwhile": self.changed,
            "sent_in_batches": self.submitted,
            "collected_from_batches": self.collected,
            "continued": self.continued,
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "cached_tokens": self.cached_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
            "calls_of_unknown_price": self.unpriced,
            **{name: self.flags[name] for name in SCORE_FLAGS},
        }


def _shorten(reason: str) -> str:
    """Truncate a reason: reasons are counted, and endpoints word the rest in many ways."""
    return reason if len(reason) <= 160 else f"{reason[:159]}…"
