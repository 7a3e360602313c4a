"""The outcomes of a session in one row, worked out by hand."""

from typing import Any

import pytest

from evaluation_pipelines.outcomes.domain.by_session import COLUMNS, by_session
from evaluation_pipelines.schemas import SESSION_KEY, SESSION_OUTCOMES
from evaluation_pipelines_tests.world.rows import frame


def _row(kind: str, value: float | None, **more: Any) -> dict[str, Any]:
    given = {"organization_id": "o", "session_key": "s", "kind": kind, "value": value}
    return {**given, "reference": "c1", "source": "git", **more}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([_row("commit", 1)], {"commit": True, "outcome": "committed"}),
        (
            [_row("merged", 0), _row("merged", 1, reference="c2")],
            {"merged": True, "outcome": "1 of 2 merged"},
        ),
        (
            [
                *(
                    _row(kind, 1, source=source)
                    for kind in ("merged", "reverted")
                    for source in "ab"
                ),
                *(_row("merged", 1, reference=name) for name in ("c2", "c3")),
                *(_row("reverted", 0, reference=name) for name in ("c2", "c3")),
                *(_row(kind, None, reference="c4") for kind in ("merged", "reverted")),
            ],
            {"merged": True, "reverted": True, "outcome": "1 of 3 reverted"},
        ),
        (
            [_row("merged", 0), _row("merged", 0, reference="c2")],
            {"merged": False, "outcome": "not merged"},
        ),
        ([_row("merged", None)], {}),
        # Two sources contradict about one reference.
        ([_row("merged", 0), _row("merged", 1, source="outside")], None),
        ([_row("reverted", 0)], {"reverted": False}),
        (
            [_row("merged", 1), _row("reverted", 1), _row("tests_after_last_edit", 1)],
            {"merged": True, "reverted": True, "tests_after_last_edit": "passed"}
            | {"outcome": "reverted, tests: passed"},
        ),
        # (10 * 0.5 + 30 * 0.9) / 40 = 0.8; one without a value does not count.
        (
            [
                _row("survival_7d", 0.5, lines=10),
                _row("survival_7d", 0.9, lines=30, reference="c2"),
                _row("survival_7d", None, lines=60, reference="c3"),
            ],
            {"survival_7d": 0.8, "outcome": "80% alive"},
        ),
        # 0.996 is not all, and 0.004 is not none.
        ([_row("survival_7d", 0.996)], {"survival_7d": 0.996, "outcome": "99% alive"}),
        ([_row("survival_7d", 0.004)], {"survival_7d": 0.004, "outcome": "1% alive"}),
        ([_row("survival_7d", 1)], {"survival_7d": 1.0, "outcome": "100% alive"}),
        ([_row("survival_7d", 0)], {"survival_7d": 0.0, "outcome": "0% alive"}),
        (
            [_row("tests_after_last_edit", None, reference=None)],
            {"tests_after_last_edit": "none", "outcome": "tests: none"},
        ),
        (
            [_row("tests_after_last_edit", 0, reference=None)],
            {"tests_after_last_edit": "failed", "outcome": "tests: failed"},
        ),
        ([_row("x_own", 1)], None),
    ],
)
def test_the_columns_of_a_session(
    rows: list[dict[str, Any]], expected: dict[str, Any] | None
) -> None:
    found = by_session(frame(SESSION_OUTCOMES.schema, rows))
    assert found.columns == [*SESSION_KEY, *COLUMNS]
    if expected is None:
        assert found.is_empty()
    else:
        known = {**dict.fromkeys(COLUMNS), **expected}
        assert found.select(COLUMNS.names()).to_dicts() == [pytest.approx(known)]
