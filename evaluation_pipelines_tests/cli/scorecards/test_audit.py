"""``scorecards audit``: review of the audit sample."""

from datetime import UTC, datetime, timedelta

import pytest

from evaluation_pipelines_tests.otlp_builders import NOON_NS, session
from evaluation_pipelines_tests.program import Program


@pytest.fixture
def sampled(program: Program) -> Program:
    """Seven sessions of yesterday, five of which are drawn."""
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    second = (noon - timedelta(days=1)).timestamp() - NOON_NS / 1e9
    program.land("logs.jsonl", b"".join(session(f"s{n}", second + n) for n in range(7)))
    program("ingest")
    program("build")
    return program


def to_review(program: Program) -> list[str]:
    return [row[0] for row in program("scorecards", "audit", "--list").table()]


def states(program: Program) -> list[tuple[str, str]]:
    """Return source and last word of the reason of each override."""
    rows = program("scorecards", "overrides").table()
    return [(row[5], row[-1]) for row in rows]


def test_five_sessions_of_yesterday_are_drawn_once(sampled: Program) -> None:
    first = to_review(sampled)

    assert len(first) == 5
    assert to_review(sampled) == first


def test_a_reviewer_confirms_corrects_skips_and_stops(sampled: Program) -> None:
    sample = to_review(sampled)
    answers = b"\nabc\n500\n7\ntoo kind\ns\nq\n"
    ran = sampled("scorecards", "audit", "--annotator", "Ada", stdin=answers)

    assert ran.code == 0
    assert "abc is not a number" in ran.err
    assert "score 500 is not on the scale of general-performance, 0 to 100" in ran.err
    assert f"{sample[0]}: confirmed" in ran.out
    assert f"{sample[1]}: now 7" in ran.out
    assert "2 sessions reviewed, 3 left to review" in ran.out
    assert sorted(states(sampled)) == [("audit", "confirmed"), ("audit", "kind")]
    assert to_review(sampled) == sample[2:]


def test_the_session_to_review_is_shown(sampled: Program) -> None:
    shown = sampled("scorecards", "audit", "--annotator", "Ada", stdin=b"q\n").out

    for line in ("1 of 5: s", "1 of 1 tool calls succeeded", "general-performance version 1"):
        assert line in shown
    assert "performance.composite" in shown


def test_a_reviewed_sample_has_no_session_left(sampled: Program) -> None:
    sampled("scorecards", "audit", "--annotator", "Ada", stdin=b"\n" * 5)

    assert sampled("scorecards", "audit", "--annotator", "Ada").out == (
        "The audit sample has no session to review.\n"
    )


def test_a_session_without_its_profile_is_skipped(sampled: Program) -> None:
    sample, file = to_review(sampled), sampled.folder / "g.yaml"
    text = "id: general-performance\nversion: 2\nname: x\nmatch_labels: [ops]\nmethod: heuristic\n"
    file.write_text(f"{text}criteria: [{{id: tool_count}}]\n")
    sampled("judges", "set", str(file))
    ran = sampled("scorecards", "audit", "--annotator", "Ada")

    assert f"{sample[0]} can no longer be reviewed" in ran.err
    assert "0 sessions reviewed, 5 left to review" in ran.out


def test_the_name_of_the_reviewer_is_required(program: Program) -> None:
    ran = program("scorecards", "audit")

    assert ran.code == 2
    assert "--annotator" in ran.err
