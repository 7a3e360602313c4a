"""Parser of the missing-tools answer: lists, denials, and unparsed answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.missing_tools.answers import (
    AnswerKind,
    MissingTool,
    normalize_tool_name,
    parse_missing_tools,
)

FREE_TEXT = "no list, and no plain word that none is missing"

LISTS = {
    "1. Grep: finds it at once.\n2. git log -p: shows when.": [
        ("grep", "finds it at once."),
        ("git log -p", "shows when."),
    ],
    "First:\n\n1) **pytest** \u2014 proves it.\n\n2) `ls *` - lists: all.\n\nPoor.": [
        ("pytest", "proves it."),
        ("ls *", "lists: all."),
    ],
    "**1. Grep**: why\n**2.** Unit tests: yes": [("grep", "why"), ("unit tests", "yes")],
    "### 1. Grep\nRationale: one\nand two\n\n### 2. **Read:** three": [
        ("grep", "one and two"),
        ("read", "three"),
    ],
    "1. Tool: Grep\n   - Why: it finds\n   1. quickly: yes\n2. Tool: make": [
        ("grep", "it finds 1. quickly: yes"),
        ("make", ""),
    ],
    "1. rg (`--json: x`): a": [("rg (--json: x)", "a")],
    "1. **Read**\n2. `stat`": [("read", ""), ("stat", "")],
    "1. mcp__git__log: a\n1. Grep: b": [("mcp__git__log", "a"), ("grep", "b")],
    "9. curl http://x:80/y: is it up?": [("curl http://x:80/y", "is it up?")],
    "- Grep: finds it at once.\n- **git log -p** \u2014 shows when.": [
        ("grep", "finds it at once."),
        ("git log -p", "shows when."),
    ],
    "* `pytest`: proves it\n  * quickly: yes\n* make: do": [
        ("pytest", "proves it * quickly: yes"),
        ("make", "do"),
    ],
    "Two:\n\n| # | Tool | Why |\n|---|:---|---|\n| 1 | `Grep` | finds it |\n| 2 | make | |": [
        ("grep", "finds it"),
        ("make", ""),
    ],
    '[{"tool": "Grep", "rationale": "finds it"}, {"name": "make"}]': [
        ("grep", "finds it"),
        ("make", ""),
    ],
    '```json\n{"missing_tools": ["Grep", "make"]}\n```': [("grep", ""), ("make", "")],
    "<think>\n1. ls: no\n</think>\n1. Grep: yes": [("grep", "yes")],
    "1. g\u200brep: hidden\x1b[31m letters": [("grep", "hidden letters")],
}


@pytest.mark.parametrize("text", LISTS)
def test_a_numbered_list_names_tools_with_their_rationale(text: str) -> None:
    found = parse_missing_tools(text)
    assert found.kind is AnswerKind.LIST
    assert found.tools == tuple(MissingTool(*each) for each in LISTS[text])
    assert (found.nameless_items, found.reason) == (0, None)


def test_an_item_without_a_name_is_counted_but_names_no_tool() -> None:
    found = parse_missing_tools(f"1. It should have run the tests.\n2. make: do.\n3. {'x' * 81}: y")
    assert found.tools == (MissingTool("make", "do."),)
    assert found.nameless_items == 2


@pytest.mark.parametrize(
    "text",
    [
        "No tool is missing.",
        "None.",
        "none",
        "Nothing is missing.",
        "In this session no other tools were missing.",
        "There is no missing tool.",
        "1. None",
        "1. No tool is missing.",
        "- None.",
        "No critical missing tools identified.",
        "No critical missing tools were identified.",
        "**No missing tools were identified.**",
        "No missing tools.",
        "There were no missing critical tools in this session.",
        "No significant tool omissions were noted.",
        "[]",
        '{"missing_tools": []}',
        "| Tool | Why |\n|---|---|\n| None | all were used |",
        "<think>\n1. ls: maybe\n</think>\nNone.",
    ],
)
def test_a_plain_denial_is_an_answer(text: str) -> None:
    found = parse_missing_tools(text)
    assert (found.kind, found.tools, found.reason) == (AnswerKind.NONE_MISSING, (), None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n\u200b ", "empty"),
        ("I'm sorry, I cannot help with that.", FREE_TEXT),
        ("{broken json", FREE_TEXT),
        ('[{"colour": "red"}]', "a list without a name in it"),
        ("| When | Where |\n|---|---|\n| now | here |", FREE_TEXT),
        ("No missing tools were identified, but grep would have helped.", FREE_TEXT),
        ("No tool is missing except grep.", FREE_TEXT),
        ("There is no doubt that one tool was missing.", FREE_TEXT),
        ("No tool is missing.\nGrep is.", FREE_TEXT),
        (f"No tool is missing. {'x' * 300}", FREE_TEXT),
        ("It took 3.5 hours: too long", FREE_TEXT),
        ("1. It should have run the tests.", "a list without a name in it"),
        ("1. None: all were used", "a list without a name in it"),
    ],
)
def test_other_answers_are_unparsed_with_a_reason(text: str, reason: str) -> None:
    found = parse_missing_tools(text)
    assert (found.kind, found.tools, found.reason) == (AnswerKind.UNPARSED, (), reason)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Grep", "grep"),
        ("**Git  log**", "git log"),
        ("`pytest -x`.", "pytest -x"),
        ("\u201cmake\u201d", "make"),
        ("\uff47rep", "grep"),
    ],
)
def test_spellings_of_one_name_are_the_same_tool(one: str, other: str) -> None:
    assert normalize_tool_name(one) == normalize_tool_name(other) == other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("git log", "git log -p"),
        ("ls -R", "ls -r"),
        ("WebSearch", "web search"),
        ("cat Makefile", "cat makefile"),
        ("PS", "ps"),
        ("grep", "rg"),
        ("grep tool", "grep"),
        ("a_b", "a-b"),
    ],
)
def test_different_names_are_different_tools(one: str, other: str) -> None:
    assert normalize_tool_name(one) != normalize_tool_name(other)


@pytest.mark.parametrize("written", ["", "**", "...", "none", "N/A", "no further tool", "x" * 81])
def test_a_text_that_is_not_a_name_is_none(written: str) -> None:
    assert normalize_tool_name(written) is None


PIECES = st.sampled_from(
    ["1. ", "2) ", "\n", ":", " - ", "**", "`", "(", ")", "  ", "Grep", "none", "\x1b[", "\u2028"]
)


@given(st.one_of(st.text(), st.lists(PIECES).map("".join)))
def test_any_text_is_parsed_consistently(text: str) -> None:
    found = parse_missing_tools(text)
    assert (found.kind is AnswerKind.LIST) == bool(found.tools)
    assert (found.kind is AnswerKind.UNPARSED) == (found.reason is not None)
    for each in found.tools:
        assert normalize_tool_name(each.tool) == each.tool
        assert each.rationale == each.rationale.strip()
    if not any(letter.isdecimal() or letter in "-*\u2022|[{" for letter in text):
        assert found.kind is not AnswerKind.LIST
