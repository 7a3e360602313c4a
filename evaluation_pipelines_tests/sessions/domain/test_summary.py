"""Summaries and records of the score of one session."""

from decimal import Decimal
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.people.domain.identities import Identifier, Identities, Person
from evaluation_pipelines.sessions.domain.find_session import AmbiguousBeginningError
from evaluation_pipelines.sessions.domain.performance import score_sessions
from evaluation_pipelines.sessions.domain.session_filter import (
    hint,
    people_named,
    repositories_named,
    short_name,
    short_names,
)
from evaluation_pipelines.sessions.domain.summary import (
    session_record,
    session_summary,
    to_yaml,
    used_by,
)
from evaluation_pipelines_tests.world.rows import session, sessions_frame


def row(**columns: object) -> dict[str, Any]:
    """Return a row of ``agent_sessions`` joined with its row of ``session_performance``."""
    sessions = sessions_frame([session(**columns)])
    return sessions.row(0, named=True) | score_sessions(sessions).row(0, named=True)


def test_the_yaml_of_a_session() -> None:
    # quality 9.0, autonomy 10 / 2 * 2, productivity 9 / 5 * 10 capped, 600 / 1000 * 10,
    # 10 - 0.09 / 9 * 100; composite 2.7 + 2.5 + 2.0 + 0.9 + 0.9
    assert to_yaml(session_summary(row(masque="Code Reviewer", duration_s=3000.0))) == (
        "masque: Code Reviewer\n"
        "duration_min: 50\n"
        "active_min: 5\n"
        "dimensions:\n"
        "  quality: 9.0\n"
        "  autonomy: 10.0\n"
        "  productivity: 10.0\n"
        "  token_efficiency: 6.0\n"
        "  cost_efficiency: 9.0\n"
        "composite: 9.0\n"
        "recommendation: keep\n"
        "stats:\n"
        "  total_cost: 0.09\n"
        "  total_tools: 10\n"
        "  tools_ok: 9\n"
        "  tool_success_pct: 90\n"
        "  prompts: 2\n"
        "  total_tokens: 1000\n"
        "  cache_tokens: 600\n"
    )


def test_the_yaml_of_an_unscorable_session_says_why() -> None:
    nothing = row(
        total_tools=0,
        tools_ok=0,
        total_tokens=None,
        cache_read_tokens=None,
        cost_usd=None,
        active_s=0.0,
    )

    assert to_yaml(session_summary(nothing)) == (
        "masque: baseline\n"
        "duration_min: 5\n"
        "active_min: 1\n"
        "dimensions:\n"
        "  quality: null\n"
        "  autonomy: null\n"
        "  productivity: null\n"
        "  token_efficiency: null\n"
        "  cost_efficiency: null\n"
        "composite: null\n"
        "recommendation: null\n"
        "reason: no tool call with a known outcome\n"
        "stats:\n"
        "  total_cost: null\n"
        "  total_tools: 0\n"
        "  tools_ok: 0\n"
        "  tool_success_pct: null\n"
        "  prompts: 2\n"
        "  total_tokens: null\n"
        "  cache_tokens: null\n"
    )


def test_a_partial_session_says_so_and_why_and_has_null_where_unknown() -> None:
    summary = session_summary(row(cost_usd=None))

    assert (summary["partial"], summary["reason"]) == (True, "cost unknown")
    assert list(summary)[5:] == ["recommendation", "partial", "reason", "stats"]
    assert summary["dimensions"]["cost_efficiency"] is None
    assert summary["stats"]["total_cost"] is None
    assert summary["composite"] == Decimal("9.0")


@pytest.mark.parametrize(("failed", "warns"), [(4, False), (5, True), (10, True)])
def test_a_session_in_which_half_of_the_calls_failed_has_a_warning(
    failed: int, warns: bool
) -> None:
    """Whatever is recommended: with 5 of 10 failed calls it is still a keep."""
    summary = session_summary(row(tools_failed=failed, tools_ok=10 - failed))

    assert summary.get("warning") == (f"{failed} of 10 tool calls failed" if warns else None)
    assert summary["recommendation"] == ("doff" if failed == 10 else "keep")


@pytest.mark.parametrize(
    ("source_cli", "tool_class", "has_note"),
    [
        ("gemini_cli", "shell", True),
        ("qwen_code", "shell", True),
        ("gemini_cli", "read", False),
        ("claude_code", "shell", False),
    ],
)
def test_unknown_exit_codes_are_a_note(source_cli: str, tool_class: str, has_note: bool) -> None:
    mix = [{"key": tool_class, "value": 10}]
    summary = session_summary(row(source_cli=source_cli, tool_mix=mix))

    assert ("does not send all exit codes" in summary.get("note", "")) is has_note


@pytest.mark.parametrize(
    ("columns", "key", "expected"),
    [
        ({"cost_usd": 0.1}, "total_cost", "0.10"),
        ({"cost_usd": 0.0}, "total_cost", "0.00"),
        ({"cost_usd": 0.005}, "total_cost", "0.01"),
        ({"cost_usd": 1.005}, "total_cost", "1.01"),  # 1.00499999999999989... in binary
        ({"cost_usd": 0.0949999999999999}, "total_cost", "0.10"),  # 0.095 with noise
        ({"cost_usd": 1e25}, "total_cost", "10000000000000000000000000.00"),
        ({"cost_usd": 1e300}, "total_cost", f"1{'0' * 300}.00"),
        ({"cost_usd": float("inf")}, "total_cost", "null"),
        ({"tools_ok": 1, "total_tools": 8}, "tool_success_pct", "13"),  # 12.5
        ({"tools_ok": 2, "total_tools": 3}, "tool_success_pct", "67"),
        ({"active_s": 29.0}, "active_min", "1"),
        ({"duration_s": 29.0}, "duration_min", "1"),
        ({"active_s": 89.0}, "active_min", "1"),
        ({"active_s": 150.0}, "active_min", "3"),  # 2.5
        ({"duration_s": 150.0}, "duration_min", "3"),
        ({"tools_ok": 1, "total_tools": 8}, "quality", "1.3"),  # 1.25
        ({"tools_ok": 8, "total_tools": 8}, "quality", "10.0"),
    ],
    ids=str,
)
def test_numbers_are_rounded_half_up_to_fixed_places(
    columns: dict[str, object], key: str, expected: str
) -> None:
    lines = to_yaml(session_summary(row(**columns))).splitlines()

    assert f"{key}: {expected}" in [line.strip() for line in lines]


@given(masque=st.text())
def test_any_name_is_read_back_unchanged_and_adds_no_key(masque: str) -> None:
    summary = session_summary(row(masque=masque))

    read_back = yaml.safe_load(to_yaml(summary))

    assert read_back["masque"] == masque
    assert list(read_back) == list(summary)


def test_names_keep_their_letters() -> None:
    assert to_yaml(session_summary(row(masque="審査員"))).startswith("masque: 審査員\n")


def test_the_record_keeps_every_bit_and_says_which_session_it_is() -> None:
    assert session_record(row(tools_ok=2, total_tools=3, active_s=100.0, cost_usd=0.123456)) == {
        "organization_id": "default",
        "session_key": "s1#baseline-1",
        "session_id": "s1",
        "source_cli": "claude_code",
        "scorable": True,
        "masque": "baseline",
        "duration_min": 5.0,
        "active_min": 100.0 / 60,
        "dimensions": {
            "quality": 2 / 3 * 10,
            "autonomy": 3.0,
            "productivity": 10.0,
            "token_efficiency": 6.0,
            "cost_efficiency": 10 - 0.123456 / 2 * 100,
        },
        # 0.30 * 6.6667 + 0.25 * 3 + 0.20 * 10 + 0.15 * 6 + 0.10 * 3.8272
        "composite": pytest.approx(2.0 + 0.75 + 2.0 + 0.9 + 0.38272),
        "recommendation": "review",
        "stats": {
            "total_cost": 0.123456,
            "total_tools": 3,
            "tools_ok": 2,
            "tool_success_pct": 2 / 3 * 100,
            "prompts": 2,
            "total_tokens": 1000,
            "cache_tokens": 600,
        },
    }


def test_an_infinite_cost_is_unknown_since_json_has_none() -> None:
    record = session_record(row(cost_usd=float("inf")))

    assert record["stats"]["total_cost"] is None


def test_the_record_of_an_unscorable_session_says_why_after_the_recommendation() -> None:
    keys = list(session_record(row(total_tools=0, tools_ok=0)))

    assert keys[keys.index("recommendation") + 1] == "reason"


WHO = Identities(
    people=(
        Person(
            person_id="finn",
            name="Finn Falk",
            ids=(
                Identifier(kind="email", value="finn@orchard.example"),
                Identifier(kind="user_id", value="u-7"),
            ),
        ),
        Person(person_id="gone", name="Finn Falk"),
    )
)


def test_a_repository_has_a_short_name() -> None:
    known = ["https://git.example/a/shop.git", "b/shop", "c/web"]
    assert repositories_named("shop", known) == ["b/shop", "https://git.example/a/shop.git"]
    assert repositories_named("web", known) == ["c/web"]
    assert repositories_named("b/shop", known) == []


def test_a_person_has_ids_and_a_name() -> None:
    for typed in ("Finn@orchard.example", "u-7", "finn falk"):
        assert people_named(typed, {"finn", "ada@x"}, WHO) == ["finn"]
    assert people_named("Ada@X", {"finn", "ada@x"}, WHO) == ["ada@x"]
    assert people_named("U-7", {"finn"}, WHO) == []
    assert people_named("gone", {"ada@x"}, WHO) == ["gone"]  # known, without a session


def test_near_names_are_offered_and_else_some_that_are_known() -> None:
    assert hint("Aspen", ["aspen-4", "birch-2"]) == "did you mean 'aspen-4'?"
    many = "known: 'm0', 'm1', 'm2', 'm3', 'm4' and 2 more"
    assert hint("zzzz", [f"m{at}" for at in range(7)]) == many


def test_of_many_sessions_that_begin_alike_five_are_named() -> None:
    found = AmbiguousBeginningError("s", [(f"s{at}", "default") for at in range(7)])
    assert str(found) == "Several sessions start with s: s0, s1, s2, s3, s4 and 2 more"


def test_a_repository_is_called_by_the_last_part_of_its_address() -> None:
    assert short_name("https://git.example/team/shop.git") == "shop"
    assert short_name("team/shop/") == "shop"
    assert short_name("shop") == "shop"
    assert short_name("/") == "/"


def test_two_that_would_have_one_name_keep_their_addresses() -> None:
    assert short_names(["a/shop", "b/shop.git", "git/engine", None]) == {
        "a/shop": "a/shop",
        "b/shop.git": "b/shop.git",
        "git/engine": "engine",
    }


def test_known_costs_are_of_sessions_whose_cost_is_known() -> None:
    used = {"kind": "skill", "name": "plan", "uses": 1, "calls": 2, "api_requests": 1}
    sessions = [
        session(
            session_id=name,
            session_key=f"{name}#baseline-1",
            used=[used | {"total_tokens": 10, "cost_usd": cost}],
        )
        for name, cost in (("s1", 0.5), ("s2", None))
    ]
    (row,) = used_by("skill", sessions_frame(sessions)).to_dicts()
    assert (row["sessions"], row["cost_usd"], row["known_costs"]) == (2, 0.5, 1)
