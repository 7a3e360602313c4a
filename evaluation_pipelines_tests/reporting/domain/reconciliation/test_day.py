"""The books of a day as people read them."""

from datetime import UTC, date, datetime

import polars as pl

from evaluation_pipelines.reporting.domain.reconciliation.day import DayBooks, Unattributed
from evaluation_pipelines.reporting.domain.reconciliation.equations import Equation, Term
from evaluation_pipelines.reporting.domain.reconciliation.states import STATES
from evaluation_pipelines.schemas import EVALUATION_BOOKS

SOUND = Equation("sheep", Term(3, "sheep"), (Term(2, "white"), Term(1, "black")))
BROKEN = Equation("wolves", Term(1, "wolves"))


def day(*equations: Equation) -> DayBooks:
    """Four sessions: one scored, three that failed for two reasons."""
    rows = [("scored", "by p"), ("failed", "late"), ("failed", "lost"), ("failed", "lost")]
    stood = [{"state": state, "reason": reason} for state, reason in rows]
    return DayBooks(
        date(2026, 6, 1),
        datetime(2026, 6, 2, tzinfo=UTC),
        pl.DataFrame(stood, schema=EVALUATION_BOOKS.schema),
        equations,
        (Unattributed(7, "goats", "of the neighbour"),),
        judge_cost_usd=None,
    )


def test_a_day_balances_when_all_its_equations_do() -> None:
    assert day(SOUND).is_balanced
    assert not day(SOUND, BROKEN).is_balanced


def test_states_are_counted_in_their_order_with_their_reasons() -> None:
    found = day(SOUND)
    assert list(found.states) == list(STATES)
    assert {state: number for state, number in found.states.items() if number} == {
        "scored": 1,
        "failed": 3,
    }
    assert found.reasons("failed") == [("lost", 2), ("late", 1)]
    assert found.reasons("excluded") == []


def test_the_tables_show_everything_zeros_too() -> None:
    shown = day(SOUND, BROKEN).shown()
    assert shown["states"].select("state", "sessions").rows()[6:8] == [("scored", 1), ("failed", 3)]
    assert shown["states"].height == 9
    assert shown["equations"].rows() == [
        ("sheep", "sheep", 3, "2 white + 1 black", 0),
        ("wolves", "wolves", 1, "0", 1),
    ]
    assert shown["not part of a session"].rows() == [(7, "goats", "of the neighbour")]
