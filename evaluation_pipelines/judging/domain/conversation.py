"""The conversation with a judge, as a state that only replies move on.

It does not care how a reply comes: by chat, from a batch, or out of the log of a killed run.
Replaying that log through ``with_reply`` leads to the state the run was in.

One context per sample: score turn, then at most one reminder when the form was not kept. The sample
with the lower median of the totals is kept, and the missing-tools turn goes on from it.
"""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from evaluation_pipelines.judging.domain.prompt.messages import Message, Reply
from evaluation_pipelines.judging.domain.prompt.rubric import Prompts, RubricCriterion, reminder
from evaluation_pipelines.judging.domain.verdict import Problem, Verdict, analysis_of, parse_verdict

__all__ = [
    "MISSING_TOOLS_TURN",
    "Conversation",
    "FailedConversation",
    "JudgeRequest",
    "Judgement",
    "Message",
    "Reply",
]

MISSING_TOOLS_TURN = "missing-tools"

# What endpoints answer instead of, or in the middle of, a whole message.
_CUT = frozenset(("length", "max_tokens"))
_REFUSED = frozenset(("content_filter", "refusal"))
_SOUNDS_REFUSED = re.compile(
    r"\W*(?:i'?m sorry|i am sorry|sorry|i can(?:no|')t|i(?:'m| am) (?:unable|not able)"
    r"|i (?:will not|won't|must decline|decline))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """What can be asked now: the turn's name and all messages of its context."""

    turn: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result.

    Attributes:
        verdict: That of the sample with the lower median of all totals.
        sample_totals: Totals of the samples that gave one, in the order of their turns.
        spread: Sample standard deviation of the totals; None for a single one.
        missing_tools: The answer to the second question, whole; None when it failed.
        missing_tools_error: Why it failed.
        sample_errors: Why other samples gave no total.
    """

    verdict: Verdict
    sample_totals: tuple[int, ...]
    spread: float | None
    missing_tools: str | None
    missing_tools_error: str | None
    sample_errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedConversation:
    """No sample gave a verdict: why, and whether asking again another day may help."""

    reason: str
    retriable: bool


@dataclass(frozen=True, slots=True)
class _Sample:
    """One sample so far: its context and the turn to ask next, or its end."""

    messages: tuple[Message, ...]
    next_turn: str | None
    result: Verdict | FailedConversation | None


@dataclass(frozen=True)
class Conversation:
    """A conversation with the replies that have arrived.

    Args:
        prompts: What is asked.
        criteria: Those that must each have a line in the answer.
        samples: How often the score turn is asked, 1 or more.
        replies: (turn, reply) in the order of arrival.
        missing_tools_failure: Why the second question will not be answered.

    Raises:
        ValueError: fewer than one sample.
    """

    prompts: Prompts
    criteria: tuple[RubricCriterion, ...]
    samples: int
    replies: tuple[tuple[str, Reply], ...] = ()
    missing_tools_failure: str | None = None
    _samples: tuple[_Sample, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"{self.samples} samples: ask for at least one")
        replies = dict(self.replies)
        states = tuple(self._sample(number, replies) for number in range(1, self.samples + 1))
        object.__setattr__(self, "_samples", states)

    def open_requests(self) -> tuple[JudgeRequest, ...]:
        """What can be asked now: score turns, then reminders; when all are done, the last turn."""
        waiting = [
            JudgeRequest(each.next_turn, each.messages) for each in self._samples if each.next_turn
        ]
        if waiting:
            return tuple(sorted(waiting, key=lambda request: len(request.messages)))
        kept = self._kept()
        if kept is None or self._missing_tools_done():
            return ()
        question = Message("user", self.prompts.missing_tools)
        return (JudgeRequest(MISSING_TOOLS_TURN, (*kept.messages, question)),)

    def with_reply(self, turn: str, reply: Reply) -> "Conversation":
        """The conversation after a reply.

        Raises:
            ValueError: the turn was not asked, or has been answered.
        """
        asked = [request.turn for request in self.open_requests()]
        if turn not in asked:
            raise ValueError(f"turn {turn!r} is not open; open are: {', '.join(asked) or 'none'}")
        return replace(self, replies=(*self.replies, (turn, reply)))

    def with_missing_tools_failed(self, reason: str) -> "Conversation":
        """The conversation with its second question given up: the score completes all the same.

        Raises:
            ValueError: that question is not the one that is open.
        """
        if MISSING_TOOLS_TURN not in [request.turn for request in self.open_requests()]:
            raise ValueError(f"turn {MISSING_TOOLS_TURN!r} is not open")
        return replace(self, missing_tools_failure=reason)

    def outcome(self) -> Judgement | FailedConversation | None:
        """The result; None as long as something is open."""
        if self.open_requests():
            return None
        verdicts = [each.result for each in self._samples if isinstance(each.result, Verdict)]
        failures = [
            each.result for each in self._samples if isinstance(each.result, FailedConversation)
        ]
        if not verdicts:
            reasons = dict.fromkeys(each.reason for each in failures)
            return FailedConversation("; ".join(reasons), any(each.retriable for each in failures))
        totals = tuple(each.total for each in verdicts)
        missing_tools, error = self._missing_tools()
        return Judgement(
            verdict=_lower_median(verdicts),
            sample_totals=totals,
            spread=statistics.stdev(totals) if len(totals) > 1 else None,
            missing_tools=missing_tools,
            missing_tools_error=error,
            sample_errors=tuple(each.reason for each in failures),
        )

    def _sample(self, number: int, replies: dict[str, Reply]) -> _Sample:
        turn = f"score-{number}"
        messages: tuple[Message, ...] = (Message("user", self.prompts.score),)
        first = replies.get(turn)
        if first is None:
            return _Sample(messages, turn, None)
        read = _read(first, self.criteria)
        messages = (*messages, Message("assistant", first.text))
        if not isinstance(read, Problem):
            return _Sample(messages, None, read)
        messages = (*messages, Message("user", reminder(read.reason, self.criteria)))
        second = replies.get(f"{turn}-reminder")
        if second is None:
            return _Sample(messages, f"{turn}-reminder", None)
        messages = (*messages, Message("assistant", second.text))
        return _Sample(messages, None, _after_reminder(first, second, self.criteria))

    def _kept(self) -> _Sample | None:
        """The sample from which the conversation goes on."""
        verdicts = [each.result for each in self._samples if isinstance(each.result, Verdict)]
        if not verdicts:
            return None
        return next(each for each in self._samples if each.result is _lower_median(verdicts))

    def _missing_tools_done(self) -> bool:
        answered = any(turn == MISSING_TOOLS_TURN for turn, _ in self.replies)
        return answered or self.missing_tools_failure is not None

    def _missing_tools(self) -> tuple[str | None, str | None]:
        """Answer and error of the second question."""
        reply = dict(self.replies).get(MISSING_TOOLS_TURN)
        if reply is None:
            return None, self.missing_tools_failure
        unusable = _unusable(reply)
        return (None, unusable.reason) if unusable else (reply.text.strip(), None)


def _read(
    reply: Reply, criteria: Sequence[RubricCriterion]
) -> Verdict | Problem | FailedConversation:
    """A verdict, a problem that a reminder may mend, or the end of the sample."""
    return _unusable(reply) or parse_verdict(reply.text, criteria)


def _unusable(reply: Reply) -> FailedConversation | None:
    """Why nothing in a reply counts, whatever it says."""
    if reply.finish_reason in _CUT:
        reason = "the judge's answer was cut by the token limit; raise the limit of its answers"
        return FailedConversation(reason, retriable=True)
    if reply.finish_reason in _REFUSED:
        return FailedConversation(f"the judge refused ({reply.finish_reason})", retriable=False)
    if not reply.text.strip():
        return FailedConversation("the judge's answer was empty", retriable=True)
    return None


def _after_reminder(
    first: Reply, second: Reply, criteria: Sequence[RubricCriterion]
) -> Verdict | FailedConversation:
    """The numbers of the second reply with the analysis of the first."""
    read = _read(second, criteria)
    if isinstance(read, FailedConversation):
        return read
    if isinstance(read, Problem):
        refused = all(map(_sounds_refused, (first.text, second.text)))
        said = "the judge refused" if refused else "no verdict, even after a reminder"
        return FailedConversation(f"{said}: {read.reason}", retriable=not refused)
    return replace(read, analysis=analysis_of(first.text))


def _sounds_refused(text: str) -> bool:
    return _SOUNDS_REFUSED.match(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")) is not None


def _lower_median(verdicts: Sequence[Verdict]) -> Verdict:
    """Of an even number the lower one of the two in the middle; of equal ones the earliest."""
    by_total = sorted(verdicts, key=lambda verdict: verdict.total)
    return by_total[(len(by_total) - 1) // 2]
