"""HTML from untrusted values: what is put in is shown, never obeyed."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_LONGEST = 200
LONGEST_SENTENCE = 1000
"""What the report says itself has room for the names in it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table.

    Attributes:
        shown: What stands there.
        below: What stands under it, smaller.
        sort: Number it is sorted by; ``shown`` where there is none.
        kind: Class of the cell: ``n`` for numbers, ``name``, ``said``, ``time``, or nothing.
        tag: A word beside it, and after a colon its class: ``best:good``.
        link: Id of the place on the page that it leads to; never a text of telemetry.
    """

    shown: str
    below: str = ""
    sort: float | None = None
    kind: str = ""
    tag: str = ""
    link: str = ""


def escaped(value: object, longest: int = _LONGEST) -> str:
    """Text as HTML that shows exactly that, on one line, cut where it is very long."""
    said = str(value)
    said = said if len(said) <= longest else f"{said[: longest - 1]}…"
    return html.escape("".join(each if each.isprintable() else " " for each in said))


def number_cell(shown: str, sort: float | None, below: str = "") -> Cell:
    """A cell with a number."""
    return Cell(shown, below, sort, "n")


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, sortable: bool = True) -> str:
    """A table; a heading that ends in a blank and ``#`` is that of numbers."""
    head = "".join(_heading(each, sortable=sortable) for each in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )


def _heading(name: str, *, sortable: bool) -> str:
    said = escaped(name.removesuffix(" #"))
    inner = f'<button type="button">{said}</button>' if sortable else said
    kind = ' class="n"' if name.endswith(" #") else ""
    return f'<th scope="col"{kind}>{inner}</th>'


def _cell(cell: Cell) -> str:
    kind = f' class="{cell.kind}"' if cell.kind else ""
    value = "" if cell.kind != "n" else f' data-v="{"" if cell.sort is None else repr(cell.sort)}"'
    below = f'<span class="small">{escaped(cell.below)}</span>' if cell.below else ""
    word, _, look = cell.tag.partition(":")
    tag = f' <span class="tag {look}">{escaped(word)}</span>' if word else ""
    shown = escaped(cell.shown)
    shown = f'<a href="#{cell.link}">{shown}</a>' if cell.link else shown
    return f"<td{kind}{value}>{shown}{tag}{below}</td>"


def items(lines: Iterable[str]) -> str:
    """A list of sentences."""
    said = (escaped(each, LONGEST_SENTENCE) for each in lines)
    return f"<ul>{''.join(f'<li>{each}</li>' for each in said)}</ul>"


def figure(caption: str, picture: str, note: str = "") -> str:
    """A chart with its caption; ``picture`` is SVG that was made safe."""
    below = f'<p class="small muted">{escaped(note)}</p>' if note else ""
    return f"<figure><figcaption>{escaped(caption)}</figcaption>{picture}{below}</figure>"
