"""What one judge run did, in numbers; every candidate is in exactly one of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from evaluation_pipelines.judging.domain.score import Score


class LeftOpenReason(StrEnum):
    """Why a session is left half done, for another run."""

    ENDPOINT_DOWN = "endpoint_down"
    NO_MONEY = "no_money"


@dataclass(slots=True)
class JudgeReport:
    """Sums over a run.

    Attributes:
        candidates: Sessions that were to be judged.
        totals: Total of each session that was scored, in the order they were done.
        failed: Reason -> scorings that failed.
        deferred: Reason -> sessions that are left for another run, untouched or half done.
        explained: The same reasons, each in a sentence about the first session it kept out.
        elsewhere: Sessions that another run took meanwhile.
        changed: Sessions that went on meanwhile, and are due when they have ended again.
        unreadable: Dates whose sessions could not be read, with the reason.
        lost: Reason -> scorings that somebody left unfinished and that could not go on.
        continued: Scorings that went on from the replies of an earlier run.
        states: Where all windows stood at the beginning.
        dates: Session dates of which a scoring came to an end.
        tags: Failure tag -> how often it was found.
        truncated, injection_suspected, inconsistent: Scorings with that mark.
        redactions: Kind of secret -> how many were taken out.
        calls: Replies.
        cost_usd: What the replies cost, as far as it is known.
        unpriced: Replies of which it is not.
        booked_usd: What counts against the budget.
        stopped: Why the run ended early; None when it did not.
        skipped: Why nothing was judged at all; None when something might have been.
    """

    candidates: int = 0
    totals: list[int] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    deferred: Counter[str] = field(default_factory=Counter)
    explained: dict[str, str] = field(default_factory=dict)
    elsewhere: int = 0
    changed: int = 0
    unreadable: dict[date, str] = field(default_factory=dict)
    lost: Counter[str] = field(default_factory=Counter)
    continued: int = 0
    states: Counter[str] = field(default_factory=Counter)
    dates: set[date] = field(default_factory=set)
    tags: Counter[str] = field(default_factory=Counter)
    truncated: int = 0
    injection_suspected: int = 0
    inconsistent: int = 0
    redactions: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    booked_usd: float = 0.0
    stopped: str | None = None
    skipped: str | None = None

    @property
    def mean(self) -> float | None:
        """Mean total; None when nothing was scored."""
        return sum(self.totals) / len(self.totals) if self.totals else None

    @property
    def ended(self) -> int:
        """Candidates that are dealt with, one way or another."""
        return (
            len(self.totals)
            + self.failed.total()
            + self.deferred.total()
            + self.elsewhere
            + self.changed
        )

    @property
    def is_endpoint_down(self) -> bool:
        """Whether it stopped early because nobody answered."""
        return self.deferred[LeftOpenReason.ENDPOINT_DOWN] > 0

    def summary(self) -> str:
        """The run in a sentence."""
        if self.skipped is not None:
            return f"nothing was judged: {self.skipped}"
        if self.candidates == 0 and not (self.lost or self.unreadable):
            return "nothing is due"
        mean = "" if self.mean is None else f" (mean total {self.mean:.1f})"
        parts = [
            f"{len(self.totals)} of {self.candidates} sessions scored{mean}",
            *(
                f"{number} {what}"
                for what, number in (
                    ("failed", self.failed.total()),
                    ("deferred", self.deferred.total()),
                    ("taken by another run", self.elsewhere),
                    ("changed meanwhile", self.changed),
                    ("left unfinished by others and given up", self.lost.total()),
                )
                if number
            ),
            f"{self.calls} calls",
            f"${self.cost_usd:.4f}" + (f" and {self.unpriced} unpriced" if self.unpriced else ""),
        ]
        told = [f"{day} could not be read: {why}" for day, why in self.unreadable.items()]
        told += [] if self.stopped is None else [f"stopped: {self.stopped}"]
        told += [why for why in self.explained.values() if why != self.stopped]
        return "; ".join([", ".join(parts), *told])

    def note_deferred(self, kind: str, reason: str) -> None:
        """A session is left for another run."""
        self.deferred[kind] += 1
        self.explained.setdefault(kind, reason)

    def note_reply(self, cost_usd: float | None, tokens: tuple[int, int, int] | None) -> None:
        """A reply came; ``tokens`` are input, cached and output ones, None when not told."""
        self.calls += 1
        self.cost_usd += cost_usd or 0.0
        self.unpriced += cost_usd is None
        if tokens is not None:
            self.input_tokens += tokens[0]
            self.cached_tokens += tokens[1]
            self.output_tokens += tokens[2]

    def note_end(self, score: Score) -> None:
        """A scoring came to its end."""
        self.dates.add(score.session_date)
        self.truncated += bool(score.truncated)
        self.injection_suspected += bool(score.injection_suspected)
        self.inconsistent += bool(score.inconsistent_total)
        self.redactions.update(dict(score.redactions or {}))
        if score.total_score is None:
            self.failed[_short(score.error_message or "")] += 1
        else:
            self.totals.append(score.total_score)
            self.tags.update(score.failure_tags or ())

    def note_loss(self, score: Score, reason: str) -> None:
        """A scoring that somebody left unfinished could not go on."""
        self.dates.add(score.session_date)
        self.lost[reason] += 1

    def facts(self) -> Mapping[str, int | float]:
        """The numbers that are worth a place in a table of runs."""
        return {
            "scored": len(self.totals),
            "failed": self.failed.total(),
            "deferred": self.deferred.total(),
            "taken_by_another_run": self.elsewhere,
            "changed_meanwhile": self.changed,
            "continued": self.continued,
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "cached_tokens": self.cached_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
            "calls_of_unknown_price": self.unpriced,
            "truncated": self.truncated,
            "injection_suspected": self.injection_suspected,
            "inconsistent_total": self.inconsistent,
        }


def _short(reason: str) -> str:
    """Reasons are counted: what an endpoint says in many ways is cut."""
    return reason if len(reason) <= 160 else f"{reason[:159]}…"
