"""What is said to a judge and what comes back."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation with a judge."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The text of a judge, and why it ended: ``stop``, or ``length`` when it was cut."""

    text: str
    finish_reason: str
