"""Working through the audit sample at the terminal."""

from datetime import UTC, datetime, timedelta

import pytest

from evaluation_pipelines_tests.otlp_builders import NOON_NS, session
from evaluation_pipelines_tests.program import Program


@pytest.fixture
def sampled(program: Program) -> Program:
    """Seven sessions of yesterday, of which five are drawn."""
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    second = (noon - timedelta(days=1)).timestamp() - NOON_NS / 1e9
    program.land("logs.jsonl", b"".join(session(f"s{n}", second + n) for n in range(7)))
    program("ingest")
    program("build")
    return program


def waiting(program: Program) -> list[str]:
    return [row[0] for row in program("scorecards", "audit", "--list").table()]


def states(program: Program) -> list[tuple[str, str]]:
    """Source and reason of what was said."""
    rows = program("scorecards", "overrides").table()
    return [(row[5], row[-1]) for row in rows]


def test_five_sessions_of_yesterday_wait_and_stay_the_same(sampled: Program) -> None:
    first = waiting(sampled)

    assert len(first) == 5
    assert waiting(sampled) == first


def test_a_reviewer_confirms_corrects_skips_and_stops(sampled: Program) -> None:
    sample = waiting(sampled)
    answers = b"\nabc\n500\n7\ntoo kind\ns\nq\n"
    ran = sampled("scorecards", "audit", "--annotator", "Ada", stdin=answers)

    assert ran.code == 0
    assert "abc is not a number" in ran.err
    assert "score 500 is not on the scale of general-performance, 0 to 100" in ran.err
    assert f"{sample[0]}: confirmed" in ran.out
    assert f"{sample[1]}: now 7" in ran.out
    assert "2 sessions looked at, 3 still waiting" in ran.out
    assert sorted(states(sampled)) == [("audit", "confirmed"), ("audit", "kind")]
    assert waiting(sampled) == sample[2:]


def test_what_is_asked_about_is_shown(sampled: Program) -> None:
    shown = sampled("scorecards", "audit", "--annotator", "Ada", stdin=b"q\n").out

    for line in ("1 of 5: s", "1 of 1 tool calls succeeded", "general-performance version 1"):
        assert line in shown
    assert "performance.composite" in shown


def test_when_all_is_answered_nothing_waits(sampled: Program) -> None:
    sampled("scorecards", "audit", "--annotator", "Ada", stdin=b"\n" * 5)

    assert sampled("scorecards", "audit", "--annotator", "Ada").out == (
        "No session of the audit sample is waiting.\n"
    )


def test_a_session_that_no_profile_scores_any_more_is_passed_over(sampled: Program) -> None:
    sample, file = waiting(sampled), sampled.folder / "g.yaml"
    text = "id: general-performance\nversion: 2\nname: x\nmatch_labels: [ops]\nmethod: heuristic\n"
    file.write_text(f"{text}criteria: [{{id: tool_count}}]\n")
    sampled("judges", "set", str(file))
    ran = sampled("scorecards", "audit", "--annotator", "Ada")

    assert f"{sample[0]} cannot be looked at any more" in ran.err
    assert "0 sessions looked at, 5 still waiting" in ran.out


def test_a_reviewer_says_who_they_are(program: Program) -> None:
    ran = program("scorecards", "audit")

    assert ran.code == 2
    assert "--annotator" in ran.err
