r"""Redaction of secrets and personal data, by the rows of ``secrets.toml``.

Each secret is replaced by ``[redacted:<kind>]``. Checks of the matched values keep placeholders,
and code that only handles secrets, as they are. Only the number of secrets by kind is recorded,
never a value.

JSON stays JSON: an escape such as ``\n`` is never cut, and a number outside of quotes is replaced
by a string.
"""

import json
import re
import tomllib
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from evaluation_pipelines.judging.domain.prompt.secret_checks import CHECKS


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without secrets, and the number of removed secrets by kind."""

    text: str
    counts: dict[str, int]


class SecretPattern(NamedTuple):
    """A row of ``secrets.toml``, which describes its columns."""

    kind: str
    hints: str
    check: str
    pattern: str
    example: str
    near_miss: str


@dataclass(frozen=True, slots=True)
class _Rule:
    """A compiled row."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    accepts: Callable[[str], bool]
    group: str | int


_FLAGS = {
    "forms": re.NOFLAG,
    "places": re.IGNORECASE | re.MULTILINE,
    "surroundings": re.IGNORECASE | re.MULTILINE,
    "words": re.IGNORECASE,
    "personal": re.MULTILINE,
    "numbers": re.NOFLAG,
}
"""Flags of the patterns of each table."""

_PART = re.compile(r"\{([A-Z][A-Z0-9_]*)\}")


def secret_rows() -> dict[str, list[SecretPattern]]:
    """Read all rows by table, with their parts in place."""
    path = files("evaluation_pipelines.judging.domain.prompt").joinpath("secrets.toml")
    document = tomllib.loads(path.read_text("utf-8"))
    parts = document.pop("parts")

    def whole(text: str) -> str:
        return _PART.sub(lambda found: whole(parts[found[1]]), text)

    return {
        table: [
            SecretPattern(kind, whole(hints), check, whole(pattern), example, near_miss)
            for kind, hints, check, pattern, example, near_miss in rows
        ]
        for table, rows in document.items()
    }


def compiled(rows: Mapping[str, Sequence[SecretPattern]]) -> dict[str, list[_Rule]]:
    """Compile rows by table; a table may be missing."""
    return {
        table: [_rule(row, flags | re.ASCII) for row in rows.get(table, ())]
        for table, flags in _FLAGS.items()
    }


def _rule(row: SecretPattern, flags: re.RegexFlag) -> _Rule:
    pattern = re.compile(row.pattern, flags)
    group = "secret" if "secret" in pattern.groupindex else 0
    return _Rule(row.kind, tuple(row.hints.split(",")), pattern, CHECKS[row.check], group)


@cache
def tables() -> dict[str, list[_Rule]]:
    """Return all rules; read when the first text is redacted: most processes never do."""
    return compiled(secret_rows())


def personal_kinds() -> tuple[str, ...]:
    """Return the kinds of personal data."""
    rules = (*tables()["personal"], *tables()["numbers"])
    return tuple(dict.fromkeys(each.kind for each in rules))


_LONG_WORD = re.compile(r"[^\s\"'`,;(){}\[\]<>|\\]{14,}")
_NUMBER = re.compile(r"(?<![\w.])[+(]?\d[\d .()/-]{6,}")
_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}

# A word also begins after an escape of JSON, and after an encoded character of a URL.
_ESCAPE_BEFORE = re.compile(r"(?:\\[nrtbf]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9a-fA-F]{2})\Z")
_LONGEST_ESCAPE = 6

# Characters before the end of a private key in which its beginning is searched.
_MAX_KEY_LENGTH = 16_000
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_REVERSED_KEY_BODY = re.compile(r"[A-Za-z0-9+/=\s\\]*")
_HEADLESS = _Rule("private-key", (), re.compile(rf"[A-Za-z0-9+/=\s\\]*{_KEY_END.pattern}"), bool, 0)


def redact(text: str, *, personal: Collection[str], seal: str = "") -> Redacted:
    """Replace each secret by ``[redacted:<kind>]``.

    Args:
        text: Any text.
        personal: Kinds of personal data that are replaced too, of ``personal_kinds``.
        seal: Added to each mark before its bracket; tells marks from a text that imitates them.
    """
    marks = _Marks(text, seal)
    for rule, found in _matches(text, personal):
        marks.add(rule, *found.span(rule.group))
    return marks.applied()


def _matches(text: str, personal: Collection[str]) -> Iterator[tuple[_Rule, re.Match[str]]]:
    """Yield all matches, those of specific rules first."""
    rules = tables()
    lower = text.lower()
    if len(lower) != len(text):  # a few capitals become two characters
        lower = text.translate(_ASCII_LOWER)
    yield from _matches_of_forms(text, lower)
    for rule in rules["places"]:
        for hint in rule.hints:
            if hint in lower:  # it rarely is
                yield from _matches_at(rule, text, _positions(lower, hint))
    yield from _headless_keys(text)
    for rule in rules["surroundings"]:
        if any(hint in lower for hint in rule.hints):
            yield from ((rule, found) for found in rule.pattern.finditer(text))
    for rule in (*rules["words"], *(each for each in rules["personal"] if each.kind in personal)):
        yield from ((rule, found) for found in rule.pattern.finditer(text))
    if numbers := [each for each in rules["numbers"] if each.kind in personal]:
        positions = [found.start() for found in _NUMBER.finditer(text)]
        for rule in numbers:
            yield from _matches_at(rule, text, positions)


def _matches_of_forms(text: str, lower: str) -> Iterator[tuple[_Rule, re.Match[str]]]:
    long_words = "\n".join(_LONG_WORD.findall(lower))
    if not long_words:
        return
    for rule in tables()["forms"]:
        if any(hint in long_words for hint in rule.hints):
            matches = rule.pattern.finditer(text)
            yield from ((rule, found) for found in matches if _begins_word(text, found.start()))


def _headless_keys(text: str) -> Iterator[tuple[_Rule, re.Match[str]]]:
    """Yield private keys whose beginning was truncated."""
    done = 0
    for end in _KEY_END.finditer(text):
        start = max(done, end.start() - _MAX_KEY_LENGTH)
        body = _REVERSED_KEY_BODY.match(text[start : end.start()][::-1])
        begin = end.start() - (len(body[0]) if body else 0)
        if whole := _HEADLESS.pattern.match(text, begin):
            yield _HEADLESS, whole
        done = end.end()


def _positions(text: str, hint: str) -> Iterator[int]:
    position = text.find(hint)
    while position >= 0:
        yield position
        position = text.find(hint, position + 1)


def _matches_at(
    rule: _Rule, text: str, positions: Iterable[int]
) -> Iterator[tuple[_Rule, re.Match[str]]]:
    for position in positions:
        if found := rule.pattern.match(text, position):
            yield rule, found


@dataclass(slots=True)
class _Marks:
    """Places of a text that marks replace; the first mark at a place stays.

    Marks that the text has already stay too; their kind is ``None``.
    """

    text: str
    seal: str
    _starts: list[int] = field(default_factory=list)
    _spans: list[tuple[int, int, str | None]] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for found in _any_mark(self.seal).finditer(self.text):
            self._put(*found.span(), None)

    def add(self, rule: _Rule, start: int, end: int) -> None:
        """Add a mark if the value there is accepted and no other mark overlaps it."""
        start, end = _without_cut_escapes(self.text, start, end)
        if self.is_free(start, end) and rule.accepts(self.text[start:end]):
            self._put(start, end, rule.kind)
            self._counts[rule.kind] += 1

    def is_free(self, start: int, end: int) -> bool:
        """Return whether a span has characters and overlaps no other mark."""
        index = bisect(self._starts, start)
        ends_before = index == 0 or self._spans[index - 1][1] <= start
        begins_after = index == len(self._starts) or self._starts[index] >= end
        return start < end and ends_before and begins_after

    def _put(self, start: int, end: int, kind: str | None) -> None:
        index = bisect(self._starts, start)
        self._starts.insert(index, start)
        self._spans.insert(index, (start, end, kind))

    def applied(self) -> Redacted:
        """Return the text with the marks."""
        parts: list[str] = []
        done = 0
        for start, end, kind in self._spans:
            if kind is None:
                continue
            quote = _quote_of_bare_value(self.text, start, end)
            parts += self.text[done:start], quote, f"[redacted:{kind}{self.seal}]", quote
            done = end
        text = "".join(parts) + self.text[done:]
        if parts and self.text.lstrip().startswith(("{", "[")):
            text = _with_quoted_marks(self.text, text, self.seal)
        return Redacted(text, dict(sorted(self._counts.items())))


@cache
def _any_mark(seal: str) -> re.Pattern[str]:
    return re.compile(rf"\[redacted:[\w-]{{1,30}}{re.escape(seal)}\]")


def _begins_word(text: str, start: int) -> bool:
    if not start or not text[start - 1].isalnum():
        return True
    return bool(_ESCAPE_BEFORE.search(text[max(0, start - _LONGEST_ESCAPE) : start]))


def _without_cut_escapes(text: str, start: int, end: int) -> tuple[int, int]:
    r"""Shrink a span whose ends would cut an escape such as ``\n``."""
    if start and text[start - 1] == "\\" and start < end and text[start] in "nrtbfu\"'/\\":
        start += 5 if re.match(r"u[0-9a-fA-F]{4}", text[start:end]) else 1
    backslashes = len(text[start:end]) - len(text[start:end].rstrip("\\"))
    return start, end - backslashes % 2


_NAME_BEFORE = re.compile(r"(\\{0,7}\")\s{0,4}:\s{0,4}\Z")
_VALUE_END = re.compile(r"\s{0,9}(?:[,}\]]|\\{1,7}n|\Z)")


def _quote_of_bare_value(text: str, start: int, end: int) -> str:
    """Return the quotes that a mark needs in place of a number of JSON, as in ``"pin": 12``."""
    name = _NAME_BEFORE.search(text[max(0, start - 16) : start])
    return name[1] if name and _VALUE_END.match(text, end) else ""


def _with_quoted_marks(before: str, text: str, seal: str) -> str:
    """Return ``text`` with quotes around its marks outside of strings, if it was JSON before."""
    try:
        json.loads(before)
    except (ValueError, RecursionError):
        return text
    pattern = re.compile(rf'"(?:[^"\\]|\\.)*+"|({_any_mark(seal).pattern})')
    return pattern.sub(lambda found: f'"{found[1]}"' if found[1] else found[0], text)
