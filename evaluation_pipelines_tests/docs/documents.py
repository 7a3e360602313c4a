"""The documents as their readers see them: fenced blocks, headings, links and names in code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs"

_FENCE = re.compile(r"(?P<indent> *)```(?P<info>.*)")
_LINK = re.compile(r"(?<!\\)\]\((?P<target>[^)\s]+)\)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: what follows the opening fence, its text, and the lines of both fences."""

    info: str
    body: str
    first: int
    last: int
    indent: str

    @property
    def language(self) -> str:
        """First word after the fence."""
        return self.info.partition(" ")[0]

    @property
    def is_run(self) -> bool:
        """Whether the block says that it can be run as it stands."""
        return self.info.endswith(" run")


def documents() -> list[Path]:
    """Every document that a reader is led to."""
    return [*sorted(ROOT.glob("*.md")), *sorted(FOLDER.glob("*.md"))]


def named(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def blocks(text: str) -> list[Block]:
    """All fenced blocks in their order; a fence may be indented, its text is not.

    Raises:
        ValueError: a block is never closed.
    """
    found: list[Block] = []
    lines = text.split("\n")
    opened: tuple[int, str, str] | None = None
    for number, line in enumerate(lines):
        fence = _FENCE.fullmatch(line.rstrip())
        if fence is None:
            continue
        if opened is None:
            opened = (number, fence["indent"], fence["info"].strip())
        else:
            first, indent, info = opened
            body = "\n".join(line.removeprefix(indent) for line in lines[first + 1 : number])
            found.append(Block(info, body, first, number, indent))
            opened = None
    if opened is not None:
        raise ValueError(f"line {opened[0] + 1}: a block that is never closed")
    return found


def prose(text: str) -> str:
    """The text without its blocks and comments."""
    lines = text.split("\n")
    for block in reversed(blocks(text)):
        del lines[block.first : block.last + 1]
    return _COMMENT.sub("", "\n".join(lines))


def code(text: str) -> str:
    """What stands in blocks and between backticks, a piece a line."""
    inline = re.findall(r"`([^`\n]+)`", prose(text))
    return "\n".join([*(block.body for block in blocks(text)), *inline])


def links(text: str) -> Iterator[str]:
    """Targets of all links and pictures, in the prose."""
    return (match["target"] for match in _LINK.finditer(prose(text)))


def anchors(text: str) -> set[str]:
    """What a link may name after ``#``: headings as GitHub spells them."""
    headings = re.findall(r"^#+ +(.+)$", prose(text), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


def table_rows(text: str, heading: str) -> list[list[str]]:
    """Cells of the first table under a heading, without its head."""
    section = text.partition(f"{heading}\n")[2]
    assert section, f"there is no heading {heading!r}"
    rows = re.search(r"(?:^\|.*\|$\n?)+", section, re.MULTILINE)
    assert rows, f"there is no table under {heading!r}"
    lines = rows[0].strip().split("\n")[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
