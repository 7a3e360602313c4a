"""Untrusted text of a session: the fence around it, and signs that it addresses the judge.

All telemetry is data. It is placed between two lines that contain an unpredictable boundary, and
each of its lines begins with a bar, so that no line of it can be mistaken for the closing line.
Times, labels and marks that this program adds to the text are sealed with a word that the text does
not contain, so that no text can imitate them.

A sign is no verdict: a session about prompts contains the same words.
"""

import base64
import codecs
import hashlib
import itertools
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

LINE_END = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

# Look-alikes of a, e, o, c, d (Cyrillic) and of o, a (Greek).
_SHARED = str.maketrans("\u0430\u0435\u043e\u0441\u0501\u03bf\u03b1", "aeocdoa")

SEAL = "\ue000"
"""Ends what this program writes into a transcript; the fence replaces it by a random word.

It belongs to a private area of Unicode, whose characters are removed from all logged text.
"""

LATIN_LOOK_ALIKES = _SHARED | str.maketrans(
    # Cyrillic, then Greek
    "\u0440\u0445\u0443\u0456\u0458\u0455\u051b\u04bb\u043a\u043c\u0442"
    "\u03b5\u03b9\u03ba\u03bd\u03c1\u03c4\u03c5\u03c7",
    "pxyijsqhkmteikvptux",
)
"""Lower-case Cyrillic and Greek letters to the Latin letters that they look like."""

HEX_LOOK_ALIKES = _SHARED | str.maketrans(
    # b and c, then o in three alphabets, then Cyrillic palochka, dotless i, l and i
    "\u044c\u03b2\u03f2\u043e\u03bfo\u04cf\u0131li",
    "bbc0001111",
)
"""Characters to the hexadecimal digits that they look like; o becomes 0, and i and l become 1."""


class CategoryFilter(dict[int, int | None]):
    """``str.translate`` table that deletes the characters of some Unicode categories.

    The entry of a character is computed when it is first needed.
    """

    def __init__(self, categories: Iterable[str], keep: str = "") -> None:
        """Create a table.

        Args:
            categories: General categories to delete, such as ``Cf``.
            keep: Characters that stay although their category is deleted.
        """
        super().__init__((ord(character), ord(character)) for character in keep)
        self._categories = frozenset(categories)

    def __missing__(self, code: int) -> int | None:
        self[code] = None if unicodedata.category(chr(code)) in self._categories else code
        return self[code]


BAR = "| "

_BOUNDARY = re.compile(r"[0-9A-Za-z]{16,128}")
_REMOVED = "[removed]"
_SEAL_LETTERS = "bcdfghjkmnpqrstvwxz"
_SEAL_LENGTH = 4


def seal_word(boundary: str, *texts: str) -> str:
    """Return a word of 4 letters that is in none of ``texts``, derived from ``boundary``.

    In a text that contains very many words the word is longer.
    """
    folded = [text.casefold() for text in texts]
    words = (_drawn_word(boundary, attempt) for attempt in itertools.count())
    return next(word for word in words if not any(word in text for text in folded))


def _drawn_word(boundary: str, attempt: int) -> str:
    drawn = hashlib.sha256(f"seal {attempt} of {boundary}".encode()).digest()
    letters = drawn[: _SEAL_LENGTH + attempt // 100]
    return "".join(_SEAL_LETTERS[byte % len(_SEAL_LETTERS)] for byte in letters)


def unsealed(text: str) -> str:
    """Return a text for people, without seals."""
    return text.replace(SEAL, "")


def fenced(text: str, boundary: str, seal: str = "") -> str:
    """Return ``text`` behind bars, between an opening and a closing line with ``boundary``.

    Args:
        text: Untrusted text. Every spelling of the boundary is removed from it.
        boundary: 16 to 128 ASCII letters and digits, new and random for each judgment.
        seal: Word in place of each ``SEAL``, see ``seal_word``.

    Raises:
        ValueError: The boundary is too short or too long, or has other characters.
    """
    if not _BOUNDARY.fullmatch(boundary):
        raise ValueError("a boundary must be 16 to 128 random ASCII letters and digits")
    sealed = without_boundary(text, boundary).replace(SEAL, f" {seal}" if seal else "")
    lines = LINE_END.split(sealed)
    behind_bars = "\n".join(f"{BAR}{line}".rstrip() for line in lines)
    return f"<<<material {boundary}>>>\n{behind_bars}\n<<<end of material {boundary}>>>"


def without_boundary(text: str, boundary: str) -> str:
    """Replace every spelling of ``boundary`` in ``text`` with ``[removed]``.

    Case, width, accents, look-alike characters and separators between characters are ignored.
    """
    folded_boundary = _plainest(boundary)
    if folded_boundary not in _plainest(text):
        return text
    folded, positions = _plainest_with_positions(text)
    parts: list[str] = []
    end = 0
    found = folded.find(folded_boundary)
    while found >= 0:
        # The replacement keeps the text around it from forming the boundary again.
        parts += text[end : positions[found]], _REMOVED
        end = positions[found + len(folded_boundary) - 1] + 1
        found = folded.find(folded_boundary, found + len(folded_boundary))
    return "".join(parts) + text[end:]


def _plainest_with_positions(text: str) -> tuple[str, list[int]]:
    """Return the folded text, and for each of its characters the position in ``text``."""
    folded: list[str] = []
    positions: list[int] = []
    for position, character in enumerate(text):
        for letter in _plainest(character):
            folded.append(letter)
            positions.append(position)
    return "".join(folded), positions


def _plainest(text: str) -> str:
    """Return the letters and digits of ``text``, each in its plainest form."""
    plain = text if text.isascii() else unicodedata.normalize("NFKD", text)
    return "".join(filter(str.isalnum, plain.casefold().translate(HEX_LOOK_ALIKES)))


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


def _language_signs(language: Mapping[str, Any]) -> _Signs:
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
    return tuple(map(_language_signs, sign_rows()["languages"].values()))


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
        or any(signs.search(form) for form in _decoded(text, lower))
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
