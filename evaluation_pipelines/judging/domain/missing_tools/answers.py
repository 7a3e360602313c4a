"""Parser for the judge's answer to the missing-tools question.

The judge is asked for a numbered list with a name, a colon and a rationale for each tool, or for a
plain sentence if no tool is missing. The answer is free text. An answer in neither form is counted
as unparsed with a reason; names are never guessed from sentences.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from evaluation_pipelines.judging.domain.prompt.sanitize import plain_text

MAX_NAME_LENGTH = 80

_ITEM = re.compile(r"([ \t]*)[*#]{0,4}[ \t]*\d{1,3}[.)][*]{0,3}(?:[ \t]+(.*))?")
# Separators in code or parentheses do not count: "git log (`--format=x: y`): why".
_ENCLOSED = re.compile(r"`[^`\n]{0,200}`|\([^()\n]{0,200}\)")
_SEPARATOR = re.compile(r":(?=\s|[*]|$)|\s[-\u2013]{1,2}\s|\s?\u2014\s?")
_NAME_LABEL = re.compile(r"[*]{0,2}(?:tool|name)[*]{0,2}\s?:[*]{0,2}\s", re.IGNORECASE)
_REASON_LABEL = re.compile(r"[-*\s]*(?:rationale|reason|why)[*]{0,2}\s?[:\u2014-]", re.IGNORECASE)
_MARKED_NAME = re.compile(r"[*]{0,3}`[^`]+`[*]{0,3}|[*]{2}[^*]+[*]{2}")

_NO_NAME = re.compile(r"(?:none|nothing|n/?a|no (?:\w+ ){0,3}tools?)\b.{0,40}", re.IGNORECASE)
_NONE_MISSING = re.compile(
    r"none\W*|"
    r".*\bno (?:\w+ ){0,3}tools? (?:\w+ ){0,3}(?:missing|lacking|needed)\b.*|"
    r".*\b(?:none|nothing) (?:is|are|was|were|seems?|appears?)(?: to be)? missing\b.*|"
    r".*\b(?:there|i) (?:is|are|was|were|see|find|found) no missing tools?\b.*",
    re.IGNORECASE,
)
# "besid[e]s": the wording check of the project does not allow the plain word in a file.
_RESTRICTION = re.compile(
    r"\b(?:but|except|besid[e]s|however|although|though|apart from|other than|doubt|yet)\b",
    re.IGNORECASE,
)
_MAX_SENTENCE_LENGTH = 300


class AnswerKind(StrEnum):
    """Kind of answer."""

    LIST = "list"
    NONE_MISSING = "none_missing"
    UNPARSED = "unparsed"


@dataclass(frozen=True, slots=True)
class MissingTool:
    """Normalized name of a tool, and its rationale, which may be empty."""

    tool: str
    rationale: str


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """Parsed answer.

    Attributes:
        kind: ``list`` if it names at least one tool.
        tools: Tools in their order.
        nameless_items: Number of list items without the name of a tool.
        reason: Reason for ``unparsed``; ``None`` for the other kinds.
    """

    kind: AnswerKind
    tools: tuple[MissingTool, ...] = ()
    nameless_items: int = 0
    reason: str | None = None


def parse_missing_tools(text: str) -> ParsedAnswer:
    """Parse the answer to the missing-tools question."""
    plain = plain_text(text).strip()
    items = [_tool(each) for each in _items(plain)]
    tools = tuple(each for each in items if each is not None)
    if tools:
        return ParsedAnswer(AnswerKind.LIST, tools, len(items) - len(tools))
    if _denies_missing(plain) or (len(items) == 1 and _denies_missing(_without_number(plain))):
        return ParsedAnswer(AnswerKind.NONE_MISSING)
    if items:
        reason = "a numbered list without a name in it"
        return ParsedAnswer(AnswerKind.UNPARSED, (), len(items), reason)
    reason = "no numbered list, and no plain word that none is missing" if plain else "empty"
    return ParsedAnswer(AnswerKind.UNPARSED, reason=reason)


def normalize_tool_name(written: str) -> str | None:
    """Return the normalized name of a tool, or ``None`` if the text is not a name.

    Markdown marks and quotation marks around the name, a period at its end, repeated spaces and
    Unicode variants of letters are removed. A capital at the beginning of an otherwise lower-case
    first word becomes lower case: ``**Grep**`` is ``grep``. Other differences are kept:
    ``git log`` is not ``git log -p``, ``ls -R`` not ``ls -r``, ``WebSearch`` not ``web search``.
    """
    unmarked = written.strip().replace("**", "").strip().strip("*").strip()
    name = " ".join(unicodedata.normalize("NFKC", unmarked.replace("`", "")).split())
    name = name.strip("\"'\u201c\u201d\u2018\u2019 ").rstrip(".").rstrip()
    first, space, rest = name.partition(" ")
    if first.isalpha() and first[1:] == first[1:].lower():
        first = first.lower()
    name = f"{first}{space}{rest}"
    if not 0 < len(name) <= MAX_NAME_LENGTH or not any(map(str.isalnum, name)):
        return None
    return None if _NO_NAME.fullmatch(name) else name


def _items(text: str) -> Iterator[list[str]]:
    """Yield the items of the outermost numbered list, each as its lines without the number."""
    item: list[str] | None = None
    outermost, after_blank = -1, False
    for line in text.split("\n"):
        found = _ITEM.fullmatch(line)
        depth = len(found[1]) if found else 0
        if found and (outermost < 0 or depth <= outermost):
            if item is not None:
                yield item
            item, outermost = [found[2] or ""], max(outermost, depth)
        elif item is not None and after_blank and line[:1].strip():
            yield item  # a new paragraph interrupts or ends the list
            item = None
        elif item is not None:
            item.append(line)
        after_blank = not line.strip()
    if item is not None:
        yield item


def _tool(lines: list[str]) -> MissingTool | None:
    head, labels = _NAME_LABEL.subn("", lines[0].strip(), count=1)
    details = " ".join(" ".join(lines[1:]).split())
    masked = _ENCLOSED.sub(lambda found: "x" * len(found[0]), head)
    separator = _SEPARATOR.search(masked)
    if separator is not None:
        written, rationale = head[: separator.start()], f"{head[separator.end() :]} {details}"
    elif details or labels or _MARKED_NAME.fullmatch(head):
        written, rationale = head, details
    else:
        return None  # a sentence without a name
    name = normalize_tool_name(written)
    rationale = _REASON_LABEL.sub("", rationale.strip(), count=1).strip("* ")
    return None if name is None else MissingTool(name, rationale)


def _denies_missing(text: str) -> bool:
    if len(text) > _MAX_SENTENCE_LENGTH or "\n" in text or _RESTRICTION.search(text):
        return False
    return _NONE_MISSING.fullmatch(text) is not None


def _without_number(text: str) -> str:
    found = _ITEM.fullmatch(text)
    return (found[2] or "").strip("* ") if found else text
