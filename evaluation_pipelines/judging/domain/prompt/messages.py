"""Messages of a conversation with a judge: replies without thinking, and estimated tokens.

Reasoning models write their thoughts before the answer; these are no part of it. The tokenizer of
the judge is unknown, and tokenizers differ by more than an estimate does.
"""

import math
import re
import string
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
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


_NAMES = "(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad)"
_HARMONY_ANSWER = r"(?:<\|start\|>assistant)?<\|channel\|>\s*final\s*<\|message\|>"
# An opening tag counts at the beginning of a line: an analysis may quote one within a sentence.
_TAG = re.compile(
    rf"(?P<indent>^[ \t]*)?(?:"
    rf"(?P<open><{_NAMES}>|\[THINK\]|\u25c1think\u25b7|<\|channel\|>\s*analysis\b)"
    rf"|(?P<close></{_NAMES}>|\[/THINK\]|\u25c1/think\u25b7|{_HARMONY_ANSWER}))",
    re.IGNORECASE | re.MULTILINE,
)
_LINE_END = re.compile(r"[ \t]*(?:\n|\Z)")


def without_thinking(text: str) -> str:
    """Return a reply without thoughts, whose tags may lack the opening or the closing one."""
    kept: list[str] = []
    begin, is_open, was_open = 0, False, False
    for tag in _TAG.finditer(text):
        begins_line = tag["indent"] is not None
        if tag["open"]:
            if begins_line and not is_open:
                kept.append(text[begin : tag.start()])
                is_open = was_open = True
        elif is_open:
            begin, is_open = tag.end(), False
        elif not was_open and (begins_line or _LINE_END.match(text, tag.end())):
            # Some chat templates put the opening tag into the prompt.
            begin, was_open = tag.end(), True
    if not was_open:
        return text
    return "".join([*kept, "" if is_open else text[begin:]]).strip()


MARGIN = 1.1

_TOKENS_PER_MESSAGE = 8
_LETTERS_PER_TOKEN = 4.0
_DIGITS_PER_TOKEN = 1.8
_MARKS_PER_TOKEN = 1.6
_TOKENS_PER_LINE = 1.2
_TOKENS_PER_SPACE = 0.15
_TOKENS_PER_NON_ASCII = 1.3
# Random text has short tokens: one more where letters and digits alternate.
_TOKENS_PER_CHANGE = 0.7

_LETTERS = string.ascii_letters.encode()
_DIGITS = string.digits.encode()
_MARKS = string.punctuation.encode()
_CHANGE = re.compile(rb"[a-z](?=[A-Z0-9])|[0-9](?=[A-Za-z])")


# The tokens of a prompt are needed for its price, for each request and again in the next turn. The
# cache holds more prompts than are in progress at the same time.
@lru_cache(128)
def estimated_tokens(text: str) -> int:
    """Return the estimated tokens of ``text``, rather too many than too few."""
    plain = text.encode("ascii", "ignore")
    tokens = (
        _count(plain, _LETTERS) / _LETTERS_PER_TOKEN
        + _count(plain, _DIGITS) / _DIGITS_PER_TOKEN
        + _count(plain, _MARKS) / _MARKS_PER_TOKEN
        + len(_CHANGE.findall(plain)) * _TOKENS_PER_CHANGE
        + plain.count(b"\n") * _TOKENS_PER_LINE
        + plain.count(b" ") * _TOKENS_PER_SPACE
        + (len(text) - len(plain)) * _TOKENS_PER_NON_ASCII
    )
    return math.ceil(tokens * MARGIN)


def estimated_message_tokens(messages: Iterable[Message]) -> int:
    """Return the estimated tokens of a conversation.

    Each message has 8 tokens more than its text, for the additions of chat templates.
    """
    return sum(estimated_tokens(message.content) + _TOKENS_PER_MESSAGE for message in messages)


def _count(text: bytes, characters: bytes) -> int:
    return len(text) - len(text.translate(None, characters))
