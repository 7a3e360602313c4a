"""Markdown from untrusted values, read back by a real Markdown parser."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt  # comes with rich

from evaluation_pipelines.formatting import escaped, markdown_table

ATTACKS = [
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "<!-- no comment -->",
    "&lt;b&gt; &#60;b&#62;",
    "[click](javascript:alert(1))",
    "![pixel](https://example.org/pixel.png)",
    "<https://example.org>",
    "[ref]: https://example.org",
    "| a | new | cell |",
    "a \\| b \\\\| c",
    "`code` ``more`` ```fence",
    "**bold** _it_ __b__ ~~gone~~",
    "# heading",
    "> quote",
    "1. item",
    "- item",
    "--- | ---",
    "$$x$$",
    "line\nbreak\r\nand\u2028more\u2029",
    "\x1b[31mred\x00",
    "right\u202eto left",
]


class Cells(HTMLParser):
    """Collects the tags of some HTML and the text of its table cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a cell, or note what else there is."""
        self.tags.append((tag, dict(attrs)))
        if tag in ("td", "th"):
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        """Text within a cell."""
        if data != "\n":
            self.texts[-1] += data


def rendered(markdown: str) -> Cells:
    """What a reader of the markdown sees."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    cells = Cells()
    cells.feed(parser.render(markdown))
    cells.close()
    return cells


def on_one_line(text: str) -> str:
    """The text as a table can show it: what is not printable is a blank, none at the ends."""
    return "".join(character if character.isprintable() else " " for character in text).strip(" ")


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hostile_text_is_shown_as_it_is_and_never_interpreted(attack: str) -> None:
    cells = rendered(markdown_table((attack, "b"), [(attack, "2")]))

    assert cells.texts == [on_one_line(attack), "b", on_one_line(attack), "2"]
    assert {tag for tag, _ in cells.tags} == {"table", "thead", "tbody", "tr", "th", "td"}
    assert all(not attributes for _, attributes in cells.tags)


@given(st.lists(st.lists(st.text(max_size=30), min_size=2, max_size=2), min_size=1, max_size=3))
def test_whatever_a_cell_holds_the_table_keeps_its_shape_and_text(rows: list[list[str]]) -> None:
    cells = rendered(markdown_table(("a", "b"), rows))

    assert cells.texts == ["a", "b", *(on_one_line(text) for row in rows for text in row)]
    assert len(cells.tags) == 3 + 3 + len(rows) * 3  # table, head, body; tr + 2 cells a row


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (7, "7"),
        (0.5, r"0\.5"),
        (True, "True"),
        ("plain", "plain"),
        ("a_b", r"a\_b"),
        ("<&>", r"&lt;&amp;&gt;"),
        ("a\tb", "a b"),
        ("ü 漢", "ü 漢"),
    ],
)
def test_a_value_is_one_line_of_escaped_text(value: object, text: str) -> None:
    assert escaped(value) == text


def test_a_long_text_is_cut_before_it_is_escaped() -> None:
    assert escaped("x" * 120) == "x" * 120
    assert escaped("x" * 121) == "x" * 119 + "…"
    assert escaped("<" * 9, longest=3) == "&lt;&lt;…"


def test_the_cells_of_a_table_are_cut_at_the_length_asked_for() -> None:
    assert markdown_table(("heading",), [("letters",)], longest=4) == "| hea… |\n|---|\n| let… |"


def test_a_table_without_rows_says_so() -> None:
    assert markdown_table(("a", "b"), []) == "no rows"
