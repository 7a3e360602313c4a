r"""What a judge's second answer says: which tools were missing, and why.

The judge is asked for a numbered list, a name, a colon and a rationale for each tool, or for a
plain sentence when none is missing. It is free text all the same. Whatever is neither is counted
as unparsed with a reason, and nothing is guessed: no name is made out of a sentence.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from evaluation_pipelines.judging.domain.prompt.sanitize import plain_text

LONGEST_NAME = 80

_ITEM = re.compile(r"([ \t]*)[*#]{0,4}[ \t]*\d{1,3}[.)][*]{0,3}(?:[ \t]+(.*))?")
# What stands in code or in brackets separates nothing: "git log (`--format=x: y`): why".
_ENCLOSED = re.compile(r"`[^`\n]{0,200}`|\([^()\n]{0,200}\)")
_SEPARATOR = re.compile(r":(?=\s|[*]|$)|\s[-\u2013]{1,2}\s|\s?\u2014\s?")
_NAME_LABEL = re.compile(r"[*]{0,2}(?:tool|name)[*]{0,2}\s?:[*]{0,2}\s", re.IGNORECASE)
_REASON_LABEL = re.compile(r"[-*\s]*(?:rationale|reason|why)[*]{0,2}\s?[:\u2014-]", re.IGNORECASE)
_MARKED_WHOLE = re.compile(r"[*]{0,3}`[^`]+`[*]{0,3}|[*]{2}[^*]+[*]{2}")

_NO_NAME = re.compile(r"(?:none|nothing|n/?a|no (?:\w+ ){0,3}tools?)\b.{0,40}", re.IGNORECASE)
_NONE_MISSING = re.compile(
    r"none\W*|"
    r".*\bno (?:\w+ ){0,3}tools? (?:\w+ ){0,3}(?:missing|lacking|needed)\b.*|"
    r".*\b(?:none|nothing) (?:is|are|was|were|seems?|appears?)(?: to be)? missing\b.*|"
    r".*\b(?:there|i) (?:is|are|was|were|see|find|found) no missing tools?\b.*",
    re.IGNORECASE,
)
_YET = re.compile(
    r"\b(?:but|except|besides|however|although|though|apart from|other than|doubt|yet)\b",
    re.IGNORECASE,
)
_LONGEST_SENTENCE = 300


class Kind(StrEnum):
    """What a text is."""

    LIST = "list"
    NONE_MISSING = "none_missing"
    UNPARSED = "unparsed"


@dataclass(frozen=True, slots=True)
class MissingTool:
    """A tool by its normalised name, and why it was missed; the rationale may be empty."""

    tool: str
    rationale: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read in a text.

    Attributes:
        kind: ``list`` when it names at least one tool.
        tools: The tools in their order.
        nameless_items: Items of the list that name no tool.
        reason: Why a text is ``unparsed``; None for the others.
    """

    kind: Kind
    tools: tuple[MissingTool, ...] = ()
    nameless_items: int = 0
    reason: str | None = None


def read_missing_tools(text: str) -> Reading:
    """Read the answer to the question which tools were missing."""
    plain = plain_text(text).strip()
    items = [_tool(each) for each in _items(plain)]
    tools = tuple(each for each in items if each is not None)
    if tools:
        return Reading(Kind.LIST, tools, len(items) - len(tools))
    if _says_none(plain) or (len(items) == 1 and _says_none(_without_number(plain))):
        return Reading(Kind.NONE_MISSING)
    if items:
        return Reading(Kind.UNPARSED, (), len(items), "a numbered list without a name in it")
    reason = "no numbered list, and no plain word that none is missing" if plain else "empty"
    return Reading(Kind.UNPARSED, reason=reason)


def tool_name(written: str) -> str | None:
    """The name of a tool as it is counted, or None for what is none.

    Two names are the same when they are equal without markdown marks around them, quotation marks,
    a full stop at the end, repeated blanks and Unicode variants of a letter, and without the
    capital of a first word that is otherwise small: so ``**Grep**`` is ``grep``. All else tells
    tools apart: ``git log`` is not ``git log -p``, ``ls -R`` not ``ls -r``, ``WebSearch`` not
    ``web search``.
    """
    bare = written.strip().replace("**", "").strip().strip("*").strip()
    name = " ".join(unicodedata.normalize("NFKC", bare.replace("`", "")).split())
    name = name.strip("\"'\u201c\u201d\u2018\u2019 ").rstrip(".").rstrip()
    first, blank, rest = name.partition(" ")
    if first.isalpha() and first[1:] == first[1:].lower():
        first = first.lower()
    name = f"{first}{blank}{rest}"
    if not 0 < len(name) <= LONGEST_NAME or not any(map(str.isalnum, name)):
        return None
    return None if _NO_NAME.fullmatch(name) else name


def _items(text: str) -> Iterator[list[str]]:
    """The items of the outermost numbered list, each as its lines without the number."""
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
            yield item  # a paragraph of its own: the list has ended, or goes on after it
            item = None
        elif item is not None:
            item.append(line)
        after_blank = not line.strip()
    if item is not None:
        yield item


def _tool(lines: list[str]) -> MissingTool | None:
    head, labels = _NAME_LABEL.subn("", lines[0].strip(), count=1)
    more = " ".join(" ".join(lines[1:]).split())
    hidden = _ENCLOSED.sub(lambda found: "x" * len(found[0]), head)
    separator = _SEPARATOR.search(hidden)
    if separator is not None:
        written, rationale = head[: separator.start()], f"{head[separator.end() :]} {more}"
    elif more or labels or _MARKED_WHOLE.fullmatch(head):
        written, rationale = head, more
    else:
        return None  # a sentence
    name = tool_name(written)
    rationale = _REASON_LABEL.sub("", rationale.strip(), count=1).strip("* ")
    return None if name is None else MissingTool(name, rationale)


def _says_none(text: str) -> bool:
    if len(text) > _LONGEST_SENTENCE or "\n" in text or _YET.search(text):
        return False
    return _NONE_MISSING.fullmatch(text) is not None


def _without_number(text: str) -> str:
    found = _ITEM.fullmatch(text)
    return (found[2] or "").strip("* ") if found else text
