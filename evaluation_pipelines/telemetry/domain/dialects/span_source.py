"""Base of the span sources: the meaning of the attributes of each library."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import Convert, read_attributes, text
from evaluation_pipelines.telemetry.domain.dialects.dialect import Row
from evaluation_pipelines.telemetry.domain.dialects.libraries import Library
from evaluation_pipelines.telemetry.domain.dialects.messages import (
    Message,
    flat_message,
    newest_first,
    parsed,
)
from evaluation_pipelines.telemetry.domain.otlp import Span

CALL, REPLY, ASKED = "call", "reply", "asked"
AGENT, CHAIN, ANSWER = "agent", "chain", "answer"
TOOL, EXECUTION, APPROVAL, PART = "tool", "execution", "approval", "part"
OUTCOME = "outcome"

UNNAMED = "subagent"
"""Name of a sub-agent that sends none."""

_ERROR = (2, "2", "STATUS_CODE_ERROR")
_CANCELLED = ("cancel", "aborterror", "aborted")
_DETAILS = "gen_ai.client.inference.operation.details"
"""Event with messages, which most libraries send as attributes."""


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
        return next((sent for found, sent in reversed(self.events) if found == name), {})

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
    def succeeded(self) -> bool | None:
        """Outcome of a tool by status and error, None if it was cancelled or refused."""
        if not (self.has_failed or self.events or "error.type" in self.attributes):
            return True
        kind = self.error_type
        error = f"{kind} {self.error}".lower()
        if kind == "denied" or any(word in error for word in _CANCELLED):
            return None
        return not (self.has_failed or self.attributes.get("error.type") is not None)

    def first(self, names: tuple[str, ...]) -> Any:
        """Return the value of the first attribute with one."""
        for name in names:
            value = self.attributes.get(name)
            if value is not None:
                return value
        return None

    def has(self, names: tuple[str, ...]) -> bool:
        """Return True if one of some attributes was sent, even empty."""
        return any(name in self.attributes for name in names)

    def messages(self, places: tuple[str, ...], role: str) -> Iterator[Message]:
        """Yield the messages in the first place with any, the last one first.

        Args:
            places: Attributes. One with a dot at its end is the prefix of an attribute per field,
                and ``@`` is before the names of span events with a message each.
            role: Whose message a plain text is.
        """
        for place in places:
            value = self.attributes.get(place)
            found = self._spread(place, role) if value is None else newest_first(value, role)
            if (last := next(found, None)) is not None:
                yield last
                yield from found
                return

    def _spread(self, place: str, role: str) -> Iterator[Message]:
        """Return messages in several attributes, or in span events."""
        if place.endswith("."):
            return flat_message(self.attributes, place)
        if place.startswith("@") and self.events:
            return self._sent_as_events(place[1:].split())
        value = self.event(_DETAILS).get(place) if self.events else None
        return iter(()) if value is None else newest_first(value, role)

    def _sent_as_events(self, names: list[str]) -> Iterator[Message]:
        for name, sent in reversed(self.events):
            content = parsed(sent.get("content") or sent.get("message"))
            if name in names and content:
                role = "assistant" if name.endswith("choice") else name.split(".")[-2]
                yield from newest_first({"role": role, "parts": content}, role)


@dataclass(frozen=True, slots=True, eq=False)
class SpanSource:
    """Meaning of the spans of one library, or of one convention.

    Attributes:
        source_cli: Value of the column ``source_cli``.
        scopes: Its instrumentation scopes, as ``fnmatch`` takes them. Spans of others are read by
            marks or the GenAI conventions, else counted by scope and name.
        marks: Prefixes of attributes that only it writes, in any scope.
        needs: Attributes without which it leaves a span of its scopes unread.
        kinds: Attributes with the kind of a span. The first one sent counts.
        roles: Kind -> role. Any other kind is a part.
        columns: Attribute -> column and conversion, for calls and tools.
        ran_by: As in a Dialect.
        session: Attributes with the id of a session, the most reliable first.
        content: Prefixes of attributes with messages, history or descriptions, which are not kept.
        asked: Places of the messages sent with a call to a model, as in ``SpanView.messages``.
        replied: The same for its reply.
        prompted: The same for the start of a turn.
        answered: The same for its end.
        agent: Attributes with the name of the agent. The first one sent counts.
        parameters: The same for the parameters of a tool.
        results: The same for its result. Without it, a call with parameters was cancelled.
        outcome: Returns the outcome of a tool, given the one by status and result.
        role: Returns the role of a span, given that of its kind.
        refine: Completes the row of a call, as in a Dialect.
        completes: Returns more attributes, read from others or from events.
        failed: Whether a call to a model failed.
        cached: Attributes with cached tokens. A call without any of them has an unknown number. If
            this is empty, a call that sends none has 0.
        includes_cached: True if input tokens include cached ones.
        tool_classes: Tool -> class.
        is_read: False if its spans only repeat the logs of the program: they are counted by name.
        libraries: Name for ``agent-config`` -> library with these spans.
    """

    kinds: tuple[str, ...]
    roles: Mapping[str, str]
    columns: Mapping[str, tuple[str, Convert]]
    source_cli: str = "genai"
    scopes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    ran_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    session: tuple[str, ...] = ("session.id", "gen_ai.conversation.id", "conversation.id")
    content: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    replied: tuple[str, ...] = ()
    prompted: tuple[str, ...] = ()
    answered: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    outcome: Callable[[SpanView, bool | None], bool | None] = lambda _, success: success
    role: Callable[[SpanView, str], str] = lambda _, role: role
    refine: Callable[[Row, dict[str, Any]], object] = lambda *_: None
    completes: Callable[[SpanView], dict[str, Any]] | None = None
    failed: Callable[[SpanView], bool] = attrgetter("has_failed")
    cached: tuple[str, ...] = ()
    includes_cached: bool = True
    tool_classes: Mapping[str, str] = field(default_factory=dict)
    is_read: bool = True
    libraries: Mapping[str, Library] = field(default_factory=dict)

    def recognizes(self, scope: str, names: frozenset[str]) -> bool:
        """Return True if it wrote spans of this scope with attributes of these names."""
        if any(fnmatchcase(scope, pattern) for pattern in self.scopes):
            return names.issuperset(self.needs)
        return any(name.startswith(self.marks) for name in names)

    def succeeded(self, view: SpanView) -> bool | None:
        """Return the outcome of a tool: None if it was cancelled or refused."""
        success = view.succeeded
        if success and view.has(self.parameters) and not view.has(self.results):
            success = None
        return self.outcome(view, success)
