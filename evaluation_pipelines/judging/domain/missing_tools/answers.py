"""Parser for the judge's answer to the missing-tools question.

The judge is asked for a numbered list with a name, a colon and a rationale for each tool, or for a
plain sentence if no tool is missing. Bullets, tables and JSON are read, too. Another answer is
counted as unparsed with a reason; names are never guessed from sentences.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from evaluation_pipelines.judging.domain.prompt.sanitize import plain_text
from evaluation_pipelines.judging.domain.thinking import without_thinking

MAX_NAME_LENGTH = 80

_NUMBERED = re.compile(r"([ \t]*)[*#]{0,4}[ \t]*\d{1,3}[.)][*]{0,3}(?:[ \t]+(.*))?")
_BULLETED = re.compile(r"([ \t]*)[-*\u2022](?:[ \t]+(.*))?")
_CODE_FENCE = re.compile(r"```\w*\n(.*?)\n?```", re.DOTALL)
_NAME_KEYS = ("tool", "name", "tool_name", "tool name", "missing tool", "tools", "missing_tool")
_REASON_KEYS = ("rationale", "reason", "why", "explanation", "justification", "description")
# Separators in code or parentheses do not count: "git log (`--format=x: y`): why".
_ENCLOSED = re.compile(r"`[^`\n]{0,200}`|\([^()\n]{0,200}\)")
_SEPARATOR = re.compile(r":(?=\s|[*]|$)|\s[-\u2013]{1,2}\s|\s?\u2014\s?")
_NAME_LABEL = re.compile(r"[*]{0,2}(?:tool|name)[*]{0,2}\s?:[*]{0,2}\s", re.IGNORECASE)
_REASON_LABEL = re.compile(r"[-*\s]*(?:rationale|reason|why)[*]{0,2}\s?[:\u2014-]", re.IGNORECASE)
_MARKED_NAME = re.compile(r"[*]{0,3}`[^`]+`[*]{0,3}|[*]{2}[^*]+[*]{2}")

_NO_NAME = re.compile(r"(?:none|nothing|n/?a|no (?:\w+ ){0,3}tools?)\b.{0,40}", re.IGNORECASE)
_ADVERB = r"(?:were|was|are|is|have been|has been|could be|can be)"
_SEEN = r"(?:identified|found|noted|observed|noticed|detected|named|evident|apparent)"
_NONE_MISSING = re.compile(
    r"none\W*|"
    rf".*\bno (?:\w+ ){{0,3}}(?:tools?|omissions?) (?:{_ADVERB} )?{_SEEN}\b.*|"
    rf".*\bno missing (?:\w+ ){{0,2}}tools?\b.*|"
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
    plain = plain_text(without_thinking(text)).strip()
    structured = _from_json(plain) or _from_table(plain)
    if structured:
        return structured
    items = list(_items(plain, _NUMBERED)) or list(_items(plain, _BULLETED))
    named = [_tool(each) for each in items]
    tools = tuple(each for each in named if each is not None)
    if tools:
        return ParsedAnswer(AnswerKind.LIST, tools, len(items) - len(tools))
    if _denies_missing(plain) or (len(items) == 1 and _denies_missing(_without_number(plain))):
        return ParsedAnswer(AnswerKind.NONE_MISSING)
    if items:
        return _unparsed("a list without a name in it", len(items))
    return _unparsed("no list, and no plain word that none is missing" if plain else "empty")


def _unparsed(reason: str, nameless: int = 0) -> ParsedAnswer:
    return ParsedAnswer(AnswerKind.UNPARSED, (), nameless, reason)


def _from_json(text: str) -> ParsedAnswer | None:
    """Return the answer in a JSON list of tools, or an object that holds one."""
    fenced = _CODE_FENCE.fullmatch(text)
    body = fenced[1] if fenced else text
    if body[:1] not in {"[", "{"}:
        return None
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(document, dict):
        lists = [each for each in document.values() if isinstance(each, list)]
        document = lists[0] if len(lists) == 1 else [document]
    return _from_pairs([_json_pair(each) for each in document])


def _json_pair(entry: object) -> tuple[str, str]:
    if isinstance(entry, str):
        return entry, ""
    if not isinstance(entry, dict):
        return "", ""
    fields = {str(name).lower(): str(value) for name, value in entry.items()}
    name = next((fields[key] for key in _NAME_KEYS if key in fields), "")
    return name, next((fields[key] for key in _REASON_KEYS if key in fields), "")


def _from_table(text: str) -> ParsedAnswer | None:
    """Return the answer in a Markdown table with a column of names."""
    rows = [_cells(line) for line in text.split("\n") if line.lstrip().startswith("|")]
    if len(rows) < 3 or not all(re.fullmatch(r":?-+:?", each) for each in rows[1]):
        return None
    titles = [each.strip("* ").lower() for each in rows[0]]
    name = next((n for n, title in enumerate(titles) if title in _NAME_KEYS), None)
    if name is None:
        return None
    why = next((n for n, title in enumerate(titles) if title in _REASON_KEYS), -1)
    body = [row for row in rows[2:] if len(row) == len(titles)]
    return _from_pairs([(row[name], "" if why < 0 else row[why]) for row in body])


def _cells(line: str) -> list[str]:
    return [each.strip() for each in line.strip().strip("|").split("|")]


def _from_pairs(pairs: list[tuple[str, str]]) -> ParsedAnswer:
    """Return the answer of pairs of name and rationale; none at all is a denial."""
    if all(_NO_NAME.fullmatch(name.strip()) for name, _ in pairs):
        return ParsedAnswer(AnswerKind.NONE_MISSING)
    named = [(normalize_tool_name(name), " ".join(why.split())) for name, why in pairs]
    tools = tuple(MissingTool(name, why) for name, why in named if name is not None)
    if not tools:
        return _unparsed("a list without a name in it", len(pairs))
    return ParsedAnswer(AnswerKind.LIST, tools, len(pairs) - len(tools))


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


def _items(text: str, pattern: re.Pattern[str]) -> Iterator[list[str]]:
    """Yield the items of the outermost list, each as its lines without the mark of the item."""
    item: list[str] | None = None
    outermost, after_blank = -1, False
    for line in text.split("\n"):
        found = pattern.fullmatch(line)
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
    found = _NUMBERED.fullmatch(text) or _BULLETED.fullmatch(text)
    return (found[2] or "").strip("* ") if found else text
