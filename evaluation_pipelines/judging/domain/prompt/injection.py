"""Signs that a text of a session addresses the judge or imitates a verdict.

A sign is no verdict: a session about prompts contains the same words.
"""

import base64
import codecs
import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from evaluation_pipelines.judging.domain.prompt.characters import (
    LATIN_LOOK_ALIKES,
    CategoryFilter,
)

# Combining marks and invisible characters.
_WITHOUT_MARKS = CategoryFilter(("Mn", "Me", "Cf"))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().translate(_WITHOUT_MARKS)


class _Signs(NamedTuple):
    """Folded words of a language, and the pattern that is searched if a text contains them."""

    ignoring: tuple[str, ...]
    rules: tuple[str, ...]
    full_marks: tuple[str, ...]
    near: re.Pattern[str]

    def are_in(self, text: str) -> bool:
        """Return whether a folded text has signs in this language."""
        if any(word in text for word in self.full_marks):
            return True
        return (
            any(word in text for word in self.rules)
            and any(word in text for word in self.ignoring)
            and self.near.search(text) is not None
        )


def _signs_of(language: Mapping[str, Any]) -> _Signs:
    ignoring, rules, full_marks = (
        tuple(_folded(word.strip()) for word in language[name].split(","))
        for name in ("ignoring", "rules", "full_marks")
    )
    start = r"\b" if language.get("has_spaces", True) else ""
    first, second = (f"{start}(?:{'|'.join(map(re.escape, words))})" for words in (ignoring, rules))
    between = "[^\n.!?\u3002]{0,40}?"
    near = re.compile(f"{first}{between}{second}|{second}{between}{first}")
    return _Signs(ignoring, rules, full_marks, near)


@cache
def sign_rows() -> dict[str, Any]:
    """Read ``injection.toml``, which describes its tables."""
    path = files("evaluation_pipelines.judging.domain.prompt").joinpath("injection.toml")
    return tomllib.loads(path.read_text("utf-8"))


@cache
def _foreign() -> tuple[_Signs, ...]:
    """Return the signs in all languages; compiled on first use."""
    return tuple(map(_signs_of, sign_rows()["languages"].values()))


@cache
def _signs() -> re.Pattern[str]:
    """Return the pattern of English signs; compiled on first use."""
    rows = (sign_rows()[table] for table in ("score_lines", "orders", "chat_formats"))
    patterns = (f"(?:{pattern})" for table in rows for pattern, _, _ in table)
    return re.compile("|".join(patterns), re.MULTILINE)


# The tag block repeats ASCII as invisible characters; only hidden text needs it.
_HIDDEN_ASCII = re.compile("[\U000e0020-\U000e007f]{4}")

# Orders without anything between their letters but single separators.
_SPACED = re.compile(r"(?<!\w)\w(?:[ ._*-]{1,3}\w(?!\w)){11,400}")
_SQUASHED = re.compile(
    r"(?:ignore|disregard|forget|bypass)(?:all|any|the|your)*(?:previous|prior|above|earlier)"
    r"|ignore\w{0,20}(?:rubric|instructions)|fullmarks|perfectscore|(?:give|score|award)\w{0,12}100"
)
_LEET_LINE = re.compile(
    r"^(?=(?:[^\n]{0,60}?\b[a-z]*[013457@$]{1,3}[a-z]{1,20}){3})[^\n]{1,500}", re.MULTILINE
)
_LEET = str.maketrans("013457@$", "oieastas")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{32,4000}={0,2}")
_MAX_DECODED = 100
_REVERSED_HINTS = ("snoitcurtsni", "cirbur", "erocs", "skram lluf")
_ROT13_HINTS = ("vafgehpgvbaf", "ehoevp", "shyy znexf", "fpber")


def is_injection_suspected(text: str) -> bool:
    """Return whether ``text`` addresses a judge or imitates a verdict.

    Case, width, combining marks, invisible characters and look-alikes of Latin letters are ignored.
    Spaced, reversed and encoded forms of the plainest orders are found too.
    """
    lower = text.lower() if text.isascii() else _folded(text)
    latin = lower.translate(LATIN_LOOK_ALIKES) if not lower.isascii() else lower
    signs = _signs()
    return (
        _HIDDEN_ASCII.search(text) is not None
        or signs.search(lower) is not None
        or (latin != lower and signs.search(latin) is not None)
        or any(language.are_in(lower) for language in _foreign())
        or any(signs.search(each) for each in _decoded(text, lower))
        or any(_SQUASHED.search(re.sub(r"\W|_", "", run[0])) for run in _SPACED.finditer(lower))
    )


def _decoded(text: str, lower: str) -> Iterator[str]:
    """Yield what simple codes in ``text`` say, in lower case."""
    if any(hint in lower for hint in _REVERSED_HINTS):
        yield lower[::-1]
    if any(hint in lower for hint in _ROT13_HINTS):
        yield codecs.encode(lower, "rot13")
    for line in _LEET_LINE.finditer(lower):
        yield line[0].translate(_LEET)
    for number, code in enumerate(_BASE64.finditer(text)):
        if number >= _MAX_DECODED:
            return
        try:
            yield base64.b64decode(code[0] + "=" * (-len(code[0]) % 4)).decode().lower()
        except ValueError:
            continue


_TAIL = 200


@dataclass(slots=True)
class InjectionDetector:
    """Detector for the texts of one session, in their order."""

    has_found: bool = False
    _tails: dict[str, str] = field(default_factory=dict)

    def read(self, plain: str, label: str, *, logged: str) -> None:
        """Look for signs in a text, and in the end of the one before it with its beginning.

        Args:
            plain: The text as a judge sees it, without terminal codes and hidden characters.
            label: Kind of the text, such as ``result``.
            logged: The text as logged.
        """
        if self.has_found:
            return
        joined = f"{self._tails.get(label, '')} {plain[:_TAIL]}"
        self._tails[label] = plain[-_TAIL:]
        self.has_found = (
            is_injection_suspected(plain)
            or _HIDDEN_ASCII.search(logged) is not None
            or is_injection_suspected(joined)
        )
