"""Conversation with a judge as an immutable state that changes only by replies.

The source of a reply does not matter: a chat, a batch, or the log of a killed run. Passing that log
to ``with_reply`` restores the state of the run.

Each sample has a separate context: a score turn, then at most one reminder if the answer does not
have the requested form or was cut by the token limit. The sample with the lower median of the
totals is kept, and the missing-tools turn continues its context.
"""

import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from evaluation_pipelines.judging.domain.budget import Usage
from evaluation_pipelines.judging.domain.missing_tools import (
    parse_missing_tools,
)
from evaluation_pipelines.judging.domain.prompt.messages import Message, Reply
from evaluation_pipelines.judging.domain.prompt.rubric import (
    REMINDER_AFTER_CUT,
    Prompts,
    RubricCriterion,
    reminder,
)
from evaluation_pipelines.judging.domain.verdict import (
    Problem,
    Verdict,
    parse_reminded,
    parse_verdict,
)
from evaluation_pipelines.schemas.judge_score import LoggedTurn

MISSING_TOOLS_TURN = "missing-tools"

_REMINDER = "-reminder"

_REFUSAL = re.compile(
    r"\W*(?:i'?m sorry|i am sorry|sorry|i can(?:no|')t|i(?:'m| am) (?:unable|not able)"
    r"|i (?:will not|won't|must decline|decline))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """A turn that can be sent now, with all messages of its context."""

    turn: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Judgment:
    """Result of a conversation.

    Attributes:
        verdict: Verdict of the sample with the lower median of all totals.
        sample_totals: Totals of the samples with a verdict, in the order of their turns.
        spread: Sample standard deviation of the totals; ``None`` for a single one.
        missing_tools: Complete answer to the second question; ``None`` if it failed.
        missing_tools_error: Reason why it failed.
        sample_errors: Reasons why samples have no verdict.
    """

    verdict: Verdict
    sample_totals: tuple[int, ...]
    spread: float | None
    missing_tools: str | None
    missing_tools_error: str | None
    sample_errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedConversation:
    """Result without a verdict: the reason, and whether a later attempt may succeed."""

    reason: str
    retriable: bool


@dataclass(frozen=True, slots=True)
class _Sample:
    """A sample: its context, and its next turn or its result."""

    messages: tuple[Message, ...]
    next_turn: str | None
    result: Verdict | FailedConversation | None


@dataclass(frozen=True)
class Conversation:
    """A conversation with the replies that have arrived.

    Args:
        prompts: Prompts of both questions.
        criteria: Criteria that must each have a line in the answer.
        samples: Number of score turns, at least 1.
        replies: Pairs of turn and reply, in the order of arrival.
        missing_tools_failure: Reason why the second question will not be answered.

    Raises:
        ValueError: ``samples`` is less than 1.
    """

    prompts: Prompts
    criteria: tuple[RubricCriterion, ...]
    samples: int
    replies: tuple[tuple[str, Reply], ...] = ()
    missing_tools_failure: str | None = None
    _samples: tuple[_Sample, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")
        replies = dict(self.replies)
        states = tuple(self._sample(number, replies) for number in range(1, self.samples + 1))
        object.__setattr__(self, "_samples", states)

    def open_requests(self) -> tuple[JudgeRequest, ...]:
        """Return the turns that can be sent now.

        These are score turns, then reminders; after all samples, the missing-tools turn.
        """
        pending = [
            JudgeRequest(sample.next_turn, sample.messages)
            for sample in self._samples
            if sample.next_turn
        ]
        if pending:
            return tuple(sorted(pending, key=lambda request: request.turn.endswith(_REMINDER)))
        kept = self._kept_sample()
        if kept is None or self._missing_tools_done():
            return ()
        question = Message("user", self.prompts.missing_tools)
        return (JudgeRequest(MISSING_TOOLS_TURN, (*kept.messages, question)),)

    def with_reply(self, turn: str, reply: Reply) -> "Conversation":
        """Return the conversation after a reply.

        Raises:
            ValueError: ``turn`` is not an open request.
        """
        open_turns = self._open_turns()
        if turn not in open_turns:
            names = ", ".join(open_turns) or "none"
            raise ValueError(f"turn {turn!r} is not open. Open turns: {names}")
        return replace(self, replies=(*self.replies, (turn, reply)))

    def with_missing_tools_failed(self, reason: str) -> "Conversation":
        """Return the conversation with a failed second question; the score is still completed.

        Raises:
            ValueError: The missing-tools turn is not open.
        """
        if MISSING_TOOLS_TURN not in self._open_turns():
            raise ValueError(f"turn {MISSING_TOOLS_TURN!r} is not open")
        return replace(self, missing_tools_failure=reason)

    def outcome(self) -> Judgment | FailedConversation | None:
        """Return the result; ``None`` while a request is open."""
        if self.open_requests():
            return None
        verdicts = [sample.result for sample in self._samples if isinstance(sample.result, Verdict)]
        failures = [
            sample.result
            for sample in self._samples
            if isinstance(sample.result, FailedConversation)
        ]
        if not verdicts:
            reasons = dict.fromkeys(failure.reason for failure in failures)
            return FailedConversation(
                "; ".join(reasons), any(failure.retriable for failure in failures)
            )
        totals = tuple(verdict.total for verdict in verdicts)
        missing_tools, error = self._missing_tools()
        return Judgment(
            verdict=_lower_median(verdicts),
            sample_totals=totals,
            spread=statistics.stdev(totals) if len(totals) > 1 else None,
            missing_tools=missing_tools,
            missing_tools_error=error,
            sample_errors=tuple(failure.reason for failure in failures),
        )

    def _open_turns(self) -> list[str]:
        return [request.turn for request in self.open_requests()]

    def _sample(self, number: int, replies: dict[str, Reply]) -> _Sample:
        turn = f"score-{number}"
        messages: tuple[Message, ...] = (Message("user", self.prompts.score),)
        if self.prompts.system:
            messages = (Message("system", self.prompts.system), *messages)
        first = replies.get(turn)
        if first is None:
            return _Sample(messages, turn, None)
        asks_outcome = self.prompts.asks_outcome
        asked = _after_first(messages, first, self.criteria, asks_outcome=asks_outcome)
        if not isinstance(asked, tuple):
            return _Sample((*messages, Message("assistant", first.text)), None, asked)
        second = replies.get(turn + _REMINDER)
        if second is None:
            return _Sample(asked, turn + _REMINDER, None)
        messages = (*asked, Message("assistant", second.text))
        parse = partial(parse_reminded, criteria=self.criteria, asks_outcome=asks_outcome)
        return _Sample(messages, None, _after_reminder(first, second, parse))

    def _kept_sample(self) -> _Sample | None:
        """Return the sample whose context the missing-tools turn continues."""
        verdicts = [sample.result for sample in self._samples if isinstance(sample.result, Verdict)]
        if not verdicts:
            return None
        return next(sample for sample in self._samples if sample.result is _lower_median(verdicts))

    def _missing_tools_done(self) -> bool:
        answered = any(turn == MISSING_TOOLS_TURN for turn, _ in self.replies)
        return answered or self.missing_tools_failure is not None

    def _missing_tools(self) -> tuple[str | None, str | None]:
        """Return answer and error of the second question."""
        reply = dict(self.replies).get(MISSING_TOOLS_TURN)
        if reply is None:
            return None, self.missing_tools_failure
        failure = _failure(reply)
        if failure is not None:
            return None, failure.reason
        is_answer = parse_missing_tools(reply.text).unparsed is None
        if _is_refusal(reply.text) and not is_answer:
            return None, "the judge refused to answer"
        return reply.text.strip(), None


def _after_first(
    messages: tuple[Message, ...],
    first: Reply,
    criteria: Sequence[RubricCriterion],
    *,
    asks_outcome: bool,
) -> Verdict | FailedConversation | tuple[Message, ...]:
    """Return the result of the first reply, or the messages of a reminder."""
    if first.is_truncated:
        # Without the cut text: a model that repeats itself would go on with it.
        *before, prompt = messages
        return (*before, Message("user", f"{prompt.content}\n\n{REMINDER_AFTER_CUT}"))
    parsed = _failure(first) or parse_verdict(first.text, criteria, asks_outcome=asks_outcome)
    if not isinstance(parsed, Problem):
        return parsed
    asked = reminder(
        *(parsed.reason, parsed.criteria), total=parsed.lacks_total, outcome=parsed.lacks_outcome
    )
    return (*messages, Message("assistant", first.text), Message("user", asked))


def why_useless(reply: Reply) -> str | None:
    """Return why a reply is unusable, whatever it says; ``None`` if it is an answer."""
    if reply.is_truncated:
        return "the judge's answer was cut by the token limit. Raise EVAL_JUDGE_MAX_OUTPUT_TOKENS"
    if reply.is_broken:
        return f"the endpoint gave up within the judge's answer ({reply.finish_reason})"
    if not reply.text.strip() and not reply.is_refused:
        return "the judge's answer was empty"
    return None


def _failure(reply: Reply) -> FailedConversation | None:
    """Return the reason why a reply is unusable regardless of its text."""
    useless = why_useless(reply)
    if useless is not None:
        return FailedConversation(useless, retriable=True)
    if reply.is_refused:
        return FailedConversation(f"the judge refused ({reply.finish_reason})", retriable=False)
    return None


def _after_reminder(
    first: Reply, second: Reply, parse: Callable[[str, str], Verdict | Problem]
) -> Verdict | FailedConversation:
    """Return the verdict of both replies together."""
    failure = _failure(second)
    # A total that the first reply has already counts, even if the second one is unusable. A cut
    # reply counts for nothing, whatever it says.
    known = "" if first.is_truncated else first.text
    added = "" if failure else second.text
    parsed = parse(known or added, added)
    if not isinstance(parsed, Problem):
        return parsed
    if failure is not None:
        return failure
    is_refused = _is_refusal(first.text) and _is_refusal(second.text)
    why = "the judge refused" if is_refused else "no verdict, even after a reminder"
    if first.is_truncated:
        why = f"{why_useless(first)}. A short answer has no verdict"
    return FailedConversation(f"{why}: {parsed.reason}", retriable=not is_refused)


def _is_refusal(text: str) -> bool:
    return _REFUSAL.match(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")) is not None


def logged_turn(
    turn: str, reply: Reply, usage: Usage | None, at_us: int, **others: Any
) -> LoggedTurn:
    """Return the record of a reply and its tokens; ``others`` are the remaining fields."""
    tokens: tuple[int | None, int | None, int | None] = (None, None, None)
    if usage is not None:
        tokens = usage.input_tokens, usage.cached_tokens, usage.output_tokens
    return LoggedTurn(turn, reply.text, reply.finish_reason, *tokens, at_us=at_us, **others)


def _lower_median(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the median by total: of two middle ones the lower, of equal ones the earliest."""
    by_total = sorted(verdicts, key=lambda verdict: verdict.total)
    return by_total[(len(by_total) - 1) // 2]
