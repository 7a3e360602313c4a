"""Messages of a conversation with a judge."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation with a judge."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The text of a judge and the reason it ended, such as ``stop`` or ``length``."""

    text: str
    finish_reason: str

    @property
    def is_truncated(self) -> bool:
        """True if a token limit cut the text; endpoints name that in two ways."""
        return self.finish_reason in ("length", "max_tokens")
