"""Base of the span sources: the meaning of the attributes of each library."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import Convert, read_attributes, text
from evaluation_pipelines.telemetry.domain.otlp import Span
from evaluation_pipelines.telemetry.domain.spans.messages import Message, newest_first

CALL, REPLY, ASKED = "call", "reply", "asked"
AGENT, CHAIN, ANSWER = "agent", "chain", "answer"
TOOL, EXECUTION, APPROVAL, PART = "tool", "execution", "approval", "part"

UNNAMED = "subagent"
"""Name of a sub-agent that sends none."""

_ERROR = (2, "2", "STATUS_CODE_ERROR")


class SpanView:
    """One span as sources read it.

    Attributes:
        scope: Name of its instrumentation scope.
        name: Its name.
        attributes: Attribute -> Python value.
        events: Name and attributes of its events.
    """

    def __init__(self, scope: str, span: Span, attributes: dict[str, Any]) -> None:
        self.scope, self.attributes, self._span = scope, attributes, span
        self.name = text(span.name) or ""
        self.events = [
            (text(event.name) or "", read_attributes(event.attributes))
            for event in span.events or ()
        ]

    def event(self, name: str) -> dict[str, Any]:
        """Return the attributes of the last event with a name, empty without one."""
        return next(
            (found for event_name, found in reversed(self.events) if event_name == name), {}
        )

    @property
    def has_failed(self) -> bool:
        """True if the status is that of an error."""
        return self._span.status is not None and self._span.status.code in _ERROR

    @property
    def error(self) -> str | None:
        """Text of the error: the status, else the exception."""
        status = text(self._span.status.message) if self._span.status else None
        return status or text(self.event("exception").get("exception.message"))

    @property
    def error_type(self) -> str | None:
        """Class of the error as sent."""
        kind = text(self.attributes.get("error.type"))
        return kind or text(self.event("exception").get("exception.type"))

    @property
    def linked_trace(self) -> str | None:
        """The trace of its first link."""
        return next((text(link.trace_id) for link in self._span.links or ()), None)

    @property
    def was_cancelled(self) -> bool:
        """True if the error is that of a cancellation."""
        error = f"{self.error_type} {self.error}".lower()
        return any(word in error for word in ("cancel", "aborterror", "aborted"))

    def first(self, names: tuple[str, ...]) -> Any:
        """Return the value of the first attribute with one."""
        return next((self.attributes[n] for n in names if self.attributes.get(n) is not None), None)

    def has(self, names: tuple[str, ...]) -> bool:
        """Return True if one of some attributes was sent, even empty."""
        return any(name in self.attributes for name in names)

    def messages(self, *names: str) -> Iterator[Message]:
        """Yield the messages in the first of some attributes with any, the last one first."""
        for name in names:
            value = self.attributes.get(name)
            if value is None:
                continue
            found = newest_first(value)
            if (last := next(found, None)) is not None:
                yield last
                yield from found
                return


Messages = Callable[[SpanView], Iterable[Message]]
"""Returns messages of a span, the last one first."""


def by_attributes(*names: str) -> Messages:
    """Return a function for the messages in the first of some attributes."""
    return lambda view: view.messages(*names)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a tool call: ``success`` is None if it was cancelled or refused."""

    success: bool | None
    is_denied: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class SpanSource:
    """Meaning of the spans of one library, or of one convention.

    Attributes:
        source_cli: Value of the column ``source_cli``.
        recognizes: Scope and names of the attributes -> whether this source wrote a span.
        kinds: Attributes with the kind of a span. The first one sent counts.
        roles: Kind -> role. Any other kind is a part.
        columns: Attribute -> column and conversion, for calls and tools.
        asked: Messages sent with a call to a model.
        replied: Messages in the reply.
        prompted: Messages at the start of a turn.
        answered: Messages at its end.
        agent: Attributes with the name of the agent. The first one sent counts.
        parameters: The same for the parameters of a tool.
        results: The same for its result.
        outcome: Returns the outcome of a tool.
        role_of: Role of a span, given its kind and the role of this. None if the kind decides.
        parameters_of: Parameters of a tool from other places.
        result_of: Result of a tool from other places.
        completes: Returns more attributes, read from others.
        failed: Whether a call to a model failed.
        includes_cached: True if input tokens include cached ones.
        tells_cached: Scope and names of the attributes -> whether no count of cached tokens
            means 0, and not unknown.
        tool_classes: Tool -> class.
    """

    source_cli: str
    recognizes: Callable[[str, frozenset[str]], bool]
    kinds: tuple[str, ...]
    roles: Mapping[str, str]
    columns: Mapping[str, tuple[str, Convert]]
    asked: Messages
    replied: Messages
    prompted: Messages
    answered: Messages
    agent: tuple[str, ...]
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    outcome: Callable[[SpanView], Outcome]
    role_of: Callable[[SpanView, str, str], str] | None = None
    parameters_of: Callable[[SpanView], Any] | None = None
    result_of: Callable[[SpanView], Any] | None = None
    completes: Callable[[SpanView], dict[str, Any]] | None = None
    failed: Callable[[SpanView], bool] = attrgetter("has_failed")
    includes_cached: bool = True
    tells_cached: Callable[[str, frozenset[str]], bool] = lambda _, __: True
    tool_classes: Mapping[str, str] = field(default_factory=dict)


def outcome_by_status(view: SpanView) -> Outcome:
    """Return the outcome of a tool by status and error of its span."""
    if view.error_type == "denied":
        return Outcome(None, is_denied=True)
    if view.was_cancelled:
        return Outcome(None)
    return Outcome(not (view.has_failed or view.attributes.get("error.type") is not None))
