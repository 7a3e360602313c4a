"""The judge's answer about missing tools, and the counts of tools."""

from datetime import UTC, date, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.missing_tools import (
    SCORE_COLUMNS,
    ParsedAnswer,
    Period,
    count_missing_tools,
    most_named,
    normalize_tool_name,
    parse_missing_tools,
)
from evaluation_pipelines.schemas import JUDGE_SCORES, MISSING_TOOLS

FREE_TEXT = "neither a list nor a statement that no tool is missing"

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
    "1. Grep: a\n\n**Improvements of existing tools**\n\n1. Bash: exit codes.": [("grep", "a")],
    "None.\n\nImprovements of existing tools:\n1. Bash: exit codes.": [],
    "1. g\u200brep: hidden\x1b[31m letters": [("grep", "hidden letters")],
}


@pytest.mark.parametrize("text", LISTS)
def test_a_numbered_list_names_tools_with_their_rationale(text: str) -> None:
    found = parse_missing_tools(text)
    assert found == ParsedAnswer(tuple(LISTS[text]))


def test_an_item_without_a_name_is_counted_but_names_no_tool() -> None:
    found = parse_missing_tools(f"1. It should have run the tests.\n2. make: do.\n3. {'x' * 81}: y")
    assert found.tools == (("make", "do."),)
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
    assert parse_missing_tools(text) == ParsedAnswer()


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
    assert (found.tools, found.unparsed) == ((), reason)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        *(("Grep", "grep", True), ("**Git  log**", "git log", True), ("\uff47rep", "grep", True)),
        *(("`pytest -x`.", "pytest -x", True), ("\u201cmake\u201d", "make", True)),
        *(("git log", "git log -p", False), ("ls -R", "ls -r", False), ("PS", "ps", False)),
        *(("WebSearch", "web search", False), ("cat Makefile", "cat makefile", False)),
        *(("grep", "rg", False), ("grep tool", "grep", False), ("a_b", "a-b", False)),
    ],
)
def test_spellings_of_one_name_are_the_same_tool(one: str, other: str, is_same: bool) -> None:
    assert (normalize_tool_name(one) == normalize_tool_name(other)) is is_same
    assert not is_same or normalize_tool_name(one) == other
    for no_name in ("", "**", "...", "none", "N/A", "no further tool", "x" * 81):
        assert normalize_tool_name(no_name) is None


PIECES = st.sampled_from(
    ["1. ", "2) ", "\n", ":", " - ", "**", "`", "(", ")", "  ", "Grep", "none", "\x1b[", "\u2028"]
)


@given(st.one_of(st.text(), st.lists(PIECES).map("".join)))
def test_any_text_is_parsed_consistently(text: str) -> None:
    found = parse_missing_tools(text)
    assert not found.tools or found.unparsed is None
    for tool, rationale in found.tools:
        assert normalize_tool_name(tool) == tool
        assert rationale == rationale.strip()
    if not any(letter.isdecimal() or letter in "-*\u2022|[{" for letter in text):
        assert not found.tools


JUNE_1 = date(2026, 6, 1)
PERIOD = Period(JUNE_1, date(2026, 6, 29))


def scoring(number: int, text: str | None, day: int = 1, **columns: Any) -> dict[str, Any]:
    """Return a completed scoring of session ``s<number>``, which began on ``day`` of June."""
    defaults = {
        "organization_id": "default",
        "session_key": f"s{number}#baseline-1",
        "judge_profile_id": "default",
        "session_date": date(2026, 6, day),
        "score_id": f"score {number}",
        "agent_model": "model-a",
        "judge_model": "judge-1",
        "status": "completed",
        "completed_at": datetime(2026, 6, day, 12, tzinfo=UTC),
        "missing_tools_analysis": text,
        "missing_tools_error": None if text else "the endpoint was down",
    }
    return defaults | columns


def scores(*rows: dict[str, Any]) -> pl.DataFrame:
    schema = {name: JUDGE_SCORES.schema[name] for name in SCORE_COLUMNS}
    return pl.DataFrame(rows, schema=schema, orient="row")


def masques_of(**masques: str | None) -> pl.DataFrame:
    rows = [("default", f"{name}#baseline-1", masque) for name, masque in masques.items()]
    names = ["organization_id", "session_key", "masque"]
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def test_a_tool_counts_once_per_session() -> None:
    found = count_missing_tools(
        scores(
            scoring(1, "1. Grep: first\n2. make: a\n3. grep: again", 1),
            scoring(2, "1. **Grep**: second", 9, agent_model="model-b"),
            scoring(3, "None is missing.", 3),
            scoring(4, "It went well.", 4),
        ),
        masques_of(s1="Codesmith", s2=None, s3=None, s4=None),
        PERIOD,
    )
    grep, make = found.tools.rows(named=True)
    assert grep == {
        "organization_id": "default",
        "period_start": JUNE_1,
        "period_end": date(2026, 6, 29),
        "tool": "grep",
        "sessions": 2,
        # Sessions 1, 2 and 3: the answer for session 4 is unparsed.
        "asked_sessions": 3,
        "mentions": 3,
        "agent_models": ["model-a", "model-b"],
        "judge_models": ["judge-1"],
        "masques": ["Codesmith", "baseline"],
        "examples": [
            {"session_key": "s2#baseline-1", "rationale": "second"},
            {"session_key": "s1#baseline-1", "rationale": "first"},
        ],
        "first_date": JUNE_1,
        "last_date": date(2026, 6, 9),
    }
    assert (make["tool"], make["sessions"], make["mentions"]) == ("make", 1, 1)
    assert found.lines() == [
        "named by judge-1",
        "2 lists of missing tools",
        "1 answers that name no tool",
        "1 answers that are no list, not counted",
        "1 unparsed: neither a list nor a statement that no tool is missing",
    ]


def test_every_completed_scoring_of_the_period_is_counted_in_one_line() -> None:
    found = count_missing_tools(
        scores(
            scoring(1, "1. old: x", score_id="a"),
            scoring(1, "1. new: x", 2, session_date=JUNE_1, score_id="b"),
            scoring(1, "1. new: by another profile", judge_profile_id="other"),
            scoring(2, None),
            scoring(3, "1. Run the tests.\n2. make: x"),
            scoring(4, "1. open: x", status="failed"),
            scoring(5, "1. early: x", session_date=date(2026, 5, 31)),
            scoring(6, "1. late: x", session_date=date(2026, 6, 29)),
        ),
        masques_of(),
        PERIOD,
    )
    assert sum(found.answers.values()) == 5
    assert found.lines() == [
        "named by judge-1",
        "3 lists of missing tools",
        "1 judgments without an answer about tools",
        "1 older judgments of the same session and profile, not counted",
        "1 items of lists name no tool and are not counted",
    ]
    counted = found.tools.select("tool", "sessions", "mentions", "masques").rows()
    # Two profiles name the tool for one session; the masque of a deleted session is unknown.
    assert counted == [("make", 1, 1, []), ("new", 1, 2, [])]


def test_organizations_are_counted_separately() -> None:
    found = count_missing_tools(
        scores(
            scoring(1, "1. make: ours"),
            scoring(1, "1. make: theirs", organization_id="other"),
            scoring(2, "None.", organization_id="other"),
        ),
        masques_of(s1=None),
        PERIOD,
    )
    columns = ("organization_id", "sessions", "asked_sessions", "masques")
    assert found.tools.select(columns).rows() == [
        ("default", 1, 1, ["baseline"]),
        ("other", 1, 2, []),
    ]


@pytest.mark.parametrize(
    ("rows", "sessions", "rationale"),
    [
        # Few, short, on one line and the newest first; of one date in the order of their sessions.
        (
            [scoring(n, f"1. make: {n}\x1b[31m\n{'y' * 300}", n) for n in range(1, 6)],
            *(["s5", "s4", "s3"], f"5 {'y' * 237}\u2026"),
        ),
        ([scoring(n, "1. make: x") for n in (2, 1, 3)], ["s1", "s2", "s3"], "x"),
    ],
)
def test_examples_are_few_and_short(
    rows: list[dict[str, Any]], sessions: list[str], rationale: str
) -> None:
    (row,) = count_missing_tools(scores(*rows), masques_of(), PERIOD).tools.rows(named=True)
    assert [example["session_key"][:2] for example in row["examples"]] == sessions
    assert row["examples"][0]["rationale"] == rationale


def test_without_scorings_the_table_is_empty() -> None:
    found = count_missing_tools(scores(), masques_of(), PERIOD)
    assert found.tools.schema == MISSING_TOOLS.schema
    assert (found.tools.height, found.lines()) == (0, [])
    assert str(found.period) == "2026-06-01 until 2026-06-29"


def test_tools_of_as_many_sessions_are_in_the_order_of_mentions_and_then_of_names() -> None:
    rows = [("make", 5, 6), ("grep", 5, 6), ("cat", 5, 7), ("awk", 6, 6)]
    frame = pl.DataFrame(rows, schema=["tool", "sessions", "mentions"], orient="row")

    assert most_named(frame)["tool"].to_list() == ["awk", "cat", "grep", "make"]
