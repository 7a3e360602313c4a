"""Form of the requests to one endpoint: OpenAI-compatible servers differ in what they accept.

A server that rejects a field gets the request once more without it or in another way; the client
keeps what was accepted for all later requests.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evaluation_pipelines.judging.domain.prompt.messages import Message
from evaluation_pipelines.judging.endpoint.replies import storable_text


@dataclass(frozen=True, slots=True)
class RequestForm:
    """How a request is written.

    Attributes:
        limit_name: Field with the longest reply; older servers know ``max_tokens`` only.
        has_temperature: Whether the temperature is sent; some models accept the default only.
        has_system: Whether instructions are a message of their own; otherwise they precede the
            first message of the user.
        streams: Whether the reply is requested as a stream; some servers send nothing else.
    """

    limit_name: str = "max_completion_tokens"
    has_temperature: bool = True
    has_system: bool = True
    streams: bool = False

    def body(
        self,
        model: str,
        messages: Sequence[Message],
        max_output_tokens: int,
        temperature: float | None,
    ) -> dict[str, Any]:
        """Return the body of a request."""
        sent = messages if self.has_system else _without_system(messages)
        body: dict[str, Any] = {
            "model": model,
            "messages": [
                {"role": each.role, "content": storable_text(each.content)} for each in sent
            ],
            self.limit_name: max_output_tokens,
        }
        if temperature is not None and self.has_temperature:
            body["temperature"] = temperature
        if self.streams:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    def instead_of(self, rejection: str) -> "RequestForm | None":
        """Return the form to try after a rejection; ``None`` if there is no other way.

        Args:
            rejection: What the endpoint wrote.
        """
        for words, change in _ALTERNATIVES:
            if words.search(rejection):
                changed = replace(self, **change)
                return None if changed == self else changed
        return None


_SYSTEM_ROLE = (
    r"\bsystem (?:role|message|prompt|instr)|\brole\b.*\bsystem\b|\broles? must alternate"
)

_ALTERNATIVES: tuple[tuple[re.Pattern[str], dict[str, Any]], ...] = tuple(
    (re.compile(words, re.IGNORECASE), change)
    for words, change in (
        (r"\btemperature\b", {"has_temperature": False}),
        (r"\bmax_(?:completion|output)?_?tokens\b", {"limit_name": "max_tokens"}),
        (r"\bstream(?:ing)?\b", {"streams": True}),
        (_SYSTEM_ROLE, {"has_system": False}),
    )
)
"""Words in a rejection, and what to change then."""

_NAMES_FIELD = re.compile(
    r"\b(?:temperature|max_\w*tokens|stream(?:ing|_options)?)\b"
    r"|\b(?:invalid|unknown|unsupported) model\b"
    r"|\bmodel\b.{0,80}\b(?:exist|found|available|supported|required|deprecated)\b",
    re.IGNORECASE,
)


def names_field(rejection: str) -> bool:
    """Return whether a rejection is about a field of every request, not about a session."""
    return _NAMES_FIELD.search(rejection) is not None


def is_about_form(rejection: str) -> bool:
    """Return whether a rejection is about how requests are written, whatever the session."""
    return names_field(rejection) or RequestForm().instead_of(rejection) is not None


def names_system_role(answer: str) -> bool:
    """Return whether an answer is about a system message, or about the order of roles."""
    return re.search(_SYSTEM_ROLE, answer, re.IGNORECASE) is not None


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with the instructions at the beginning of the first one of the user."""
    first, *rest = messages
    if first.role != "system" or not rest:
        return list(messages)
    return [replace(rest[0], content=f"{first.content}\n\n{rest[0].content}"), *rest[1:]]
