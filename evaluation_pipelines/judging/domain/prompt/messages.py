"""Messages of a conversation with a judge."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation with a judge."""

    role: Literal["system", "user", "assistant"]
    content: str


_CUT = frozenset(("length", "max_tokens", "max_output_tokens", "model_length"))
_BROKEN = frozenset(("error", "abort", "aborted", "cancelled", "canceled"))
_REFUSED = frozenset(
    ("content_filter", "refusal", "safety", "recitation", "prohibited_content", "blocklist", "spii")
)


@dataclass(frozen=True, slots=True)
class Reply:
    """The text of a judge and the reason it ended, such as ``stop`` or ``length``.

    Endpoints name the same reason in several ways and cases.
    """

    text: str
    finish_reason: str

    @property
    def is_truncated(self) -> bool:
        """True if a limit cut the text."""
        return self.finish_reason.lower() in _CUT

    @property
    def is_broken(self) -> bool:
        """True if the endpoint gave up before the text was complete."""
        return self.finish_reason.lower() in _BROKEN

    @property
    def is_refused(self) -> bool:
        """True if the endpoint or its filter withheld the answer."""
        return self.finish_reason.lower() in _REFUSED
