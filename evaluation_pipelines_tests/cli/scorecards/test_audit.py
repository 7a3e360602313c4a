"""``scorecards audit``: blind review of the audit sample."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from evaluation_pipelines.scorecards.ledger.override_store import AuditSample, OverrideStore
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests.built_before import build_by
from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.program import SCRIPT, Program, Ran
from evaluation_pipelines_tests.world import NOON_NS, claude, line, session

HIDDEN = ("automatic", "performance.composite ", "because")
"""What is printed of a score, its criteria and its reasoning."""


IN_TERMINAL = """\
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes standard input the terminal that sends Ctrl-C and its end, then runs the program."""


def yesterday() -> float:
    """Return noon of yesterday as the builders count seconds."""
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    return (noon - timedelta(days=1)).timestamp() - NOON_NS / 1e9


def logged(name: str, second: float) -> bytes:
    """A session of which the text of the prompt was logged."""
    return line(
        claude("user_prompt", second, session__id=name, prompt="Read the file."),
        claude("tool_result", second + 1, session__id=name, tool_name="Read", success="true"),
    )


@pytest.fixture
def sampled(program: Program) -> Program:
    """Seven sessions of yesterday, five of which are drawn."""
    second = yesterday()
    build_by(program, b"".join(logged(f"s{n}", second + n) for n in range(7)))
    return program


def test_tables_have_no_scores_of_sessions_that_are_asked(sampled: Program) -> None:
    stored = sampled("sessions", "--format", "json").items()
    (composite,) = {row["composite"] for row in stored}
    shown = f" {composite:.1f} "
    before = sampled("sessions").out
    assert (before.count(shown), before.count("review due")) == (7, 0)
    assert sampled("scorecards", "audit", "--list").code == 0  # draws five of seven
    table = sampled("sessions").out
    assert (table.count(shown), table.count("review due")) == (2, 10)  # score and judge of each
    cards = sampled("scorecards", "query", "--agent", "claude-code").out
    assert cards.count("review due") == 5
    for name in ("sessions", "scorecards query --agent claude-code"):  # programs get them all
        assert "review due" not in sampled(*name.split(), "--format", "csv").out
    waiting = table.split("review due")[0].split()[-1]
    effectiveness = sampled("tools", waiting).out.splitlines()[1]
    assert effectiveness.startswith("effectiveness: review due")
    assert "of 100" not in sampled("sessions", "show", waiting).out
    audit(sampled, b"40\n\n\n" * 5)
    assert "review due" not in sampled("sessions").out
    assert "effectiveness 100.0 of 100" in sampled("tools", waiting).out
    # A person's score stands next to the automatic one, which stays as it is.
    # Composite 7.33, half: 73.3 x 0.5 = 36.7; effectiveness 100, half: 50. Together 86.7.
    (card,) = (row for row in sampled("sessions", "show", waiting).out.splitlines() if "v2 " in row)
    assert card.split()[1:5] == ["v2", "86.7", "40.0", "yes"]


def test_means_of_a_table_leave_out_the_sessions_that_are_asked_and_say_how_many(
    sampled: Program,
) -> None:
    sampled("scorecards", "audit", "--list")  # draws five of seven
    (row,) = sampled("sessions", "by", "program", "--format", "json").items()
    (csv,) = sampled("sessions", "by", "program", "--format", "csv").out.splitlines()[1:]
    assert (row["sessions"], row["known_scores"]) == (7, 7)
    # Each: composite 7.33 (73.3 x 0.5 = 36.7) and effectiveness 100 (x 0.5 = 50): 86.7.
    assert csv.startswith("claude_code,7,86.6")
    table = sampled("sessions", "by", "program").out
    assert " 86.7 (2 of 7) " in table
    assert "in no mean: 5 scored sessions for which a blind review is due" in table


def audit(program: Program, stdin: bytes, *options: str, annotator: str = "Ada") -> Ran:
    return program("scorecards", "audit", "--annotator", annotator, *options, stdin=stdin)


@contextmanager
def terminal(program: Program) -> Iterator[int]:
    """Run the command in a terminal, which is closed at the end; yield its file descriptor."""
    screen, inside = pty.openpty()
    command = [str(SCRIPT), "scorecards", "audit", "--annotator", "Ada", "--resume"]
    with subprocess.Popen(
        [sys.executable, "-c", IN_TERMINAL, *command],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        cwd=program.folder,
        start_new_session=True,
    ):
        os.close(inside)
        try:
            yield screen
        finally:
            os.close(screen)


def read_until(screen: int, text: bytes, pressed: bytes = b"") -> None:
    """Read what is printed up to a text, and press keys again; fail when nothing comes in a minute.

    A signal in the moment before a program waits for input is seen only after the input.
    """
    printed = b""
    for _ in range(30):
        os.write(screen, pressed)
        while text not in printed and select.select([screen], [], [], 2)[0]:
            printed += os.read(screen, 65536)
        if text in printed:
            return
    pytest.fail(repr(printed))


def to_review(program: Program) -> list[str]:
    return [row[0] for row in program("scorecards", "audit", "--list").table()]


def asked(ran: Ran) -> list[str]:
    """Return the sessions that were shown, in order."""
    lines = ran.out.splitlines()
    return [line.split()[1] for line in lines if line.startswith("  session ")]


def stored(program: Program) -> list[tuple[str, str, str]]:
    """Return session, score and source of each override."""
    rows = program("scorecards", "overrides").table()
    return [(row[0], row[1], row[5]) for row in rows]


def test_five_sessions_of_yesterday_are_drawn_once_and_listed_without_scores(
    sampled: Program,
) -> None:
    listed = sampled("scorecards", "audit", "--list")
    first = to_review(sampled)

    assert len(first) == 5
    assert to_review(sampled) == first
    day = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}"
    expected = [[key, "general-performance", day, "default"] for key in first]
    assert listed.table() == expected  # nothing else: no score


def test_the_score_is_hidden_until_the_reviewer_has_answered(sampled: Program) -> None:
    before = audit(sampled, b"t\nq\n").out
    for fact in ("1 of 1 tool calls succeeded", "general-performance version 2", "[0:00] PROMPT"):
        assert fact in before
    for hidden in HIDDEN:
        assert hidden not in before

    after = audit(sampled, b"7\n\n\nq\n").out
    _, _, revealed = after.partition("stored: 7\n")
    for shown in HIDDEN:
        assert shown in revealed
    assert "above yours" in revealed


def test_the_model_is_hidden_until_the_reviewer_has_answered(program: Program) -> None:
    second, usage = yesterday(), {"model": "aspen-4", "input_tokens": 5, "output_tokens": 5}
    reply = line(claude("api_request", second + 2, session__id="s", **usage))
    program.land("logs.jsonl", logged("s", second) + reply)
    program("ingest")
    program("build")

    assert "aspen-4" not in audit(program, b"q\n").out
    question, _, revealed = audit(program, b"7\n\n\n").out.partition("stored: 7\n")
    assert "aspen-4" not in question
    assert "  model      aspen-4\n" in revealed


def test_there_is_no_answer_without_a_score(sampled: Program) -> None:
    ran = audit(sampled, "\nabc\n1_0\n\uff17\n500\nq\n".encode())

    assert "Type a score: the automatic score is shown after your answer." in ran.err
    for wrong in ("abc", "1_0", "\uff17"):
        assert f"{wrong} is not a number" in ran.err
    assert "score 500 is not on the scale of general-performance, 0 to 100" in ran.err
    assert sampled("scorecards", "overrides").out == "There are no overrides yet.\n"


def test_an_answer_is_stored_before_the_score_is_shown(sampled: Program) -> None:
    """The terminal is closed when the reason is asked for: the answer is there."""
    (first, *rest) = to_review(sampled)
    ran = audit(sampled, b"7\n")

    assert ran.code == 0
    assert "1 of 5 answered, 0 skipped.\nNothing is lost" in ran.out
    assert stored(sampled) == [(first, "7.0", "audit")]
    assert "no reason given" in sampled("scorecards", "overrides").out
    assert to_review(sampled) == rest


def test_ctrl_c_stops_at_once_and_a_closed_terminal_loses_nothing(sampled: Program) -> None:
    """Polars' own handler of the signal would wait for the next Enter."""
    (first, *_) = to_review(sampled)
    with terminal(sampled) as screen:
        read_until(screen, b"q = stop): ")
        os.write(screen, b"7\n")
        read_until(screen, b"(Enter = none): ")
        read_until(screen, b"Nothing is lost", pressed=b"\x03")
    with terminal(sampled) as screen:
        read_until(screen, b"q = stop): ")

    assert stored(sampled) == [(first, "7.0", "audit")]


def test_a_reason_is_stored_before_the_criterion_is_asked_for(sampled: Program) -> None:
    """The terminal is closed when the criterion is asked for: the reason is there."""
    assert "Nothing is lost" in audit(sampled, b"7\nweak answer\n").out
    (row,) = sampled("scorecards", "overrides").table()
    assert row[-2:] == ["weak", "answer"]


def test_a_reason_and_a_criterion_are_added_to_the_answer(sampled: Program) -> None:
    long, wrong, right = b"x" * 4001, b"tool_efectiveness", b"tool_effectiveness"
    # What is invalid is asked for again.
    lines = (b"7", long, b"too kind", wrong, right, b"q", b"")
    ran = audit(sampled, b"\n".join(lines))

    assert "reason has 4001 characters, the maximum is 4000" in ran.err
    assert "has no criterion tool_efectiveness; did you mean tool_effectiveness?" in ran.err
    (row,) = sampled("scorecards", "overrides").table()
    assert (row[1], row[5]) == ("7.0", "audit")
    assert row[-4:] == ["tool_effectiveness", "default", "too", "kind"]


def test_a_later_change_of_mind_is_no_answer_to_the_sample(sampled: Program) -> None:
    (first, *_) = to_review(sampled)
    audit(sampled, b"7\n\n\nq\n")
    by = ("--annotator", "Ada", "--reason", "I had not seen the tests")
    sampled("scorecards", "override", first, "--score", "90", *by)

    assert stored(sampled) == [(first, "7.0", "audit"), (first, "90.0", "person")]
    table = sampled("scorecards", "calibration").table()
    assert sorted(row[2:4] for row in table[:2]) == [["audit", "1"], ["chosen", "1"]]


def test_resume_continues_where_the_reviewer_stopped(sampled: Program) -> None:
    first, second, third, fourth, fifth = to_review(sampled)
    stopped = audit(sampled, b"s\n7\n\n\nq\n")
    assert asked(stopped) == [first, second, third]
    assert "\n1 of 5 answered, 1 skipped.\n" in stopped.out

    resumed = audit(sampled, b"8\n\n\ns\n9\n\n\nq\n", "--resume")
    assert asked(resumed) == [third, fourth, fifth, first]  # the first was skipped: it comes last
    assert "\n1 of 5 answered, 1 skipped\n" in resumed.out
    assert "\n3 of 5 answered, 2 skipped.\n" in resumed.out

    again = audit(sampled, b"q\n", "--resume")
    assert asked(again) == [first]


def test_a_new_round_asks_skipped_sessions_in_their_order_and_counts_anew(
    sampled: Program,
) -> None:
    first, second, third, *_ = to_review(sampled)
    audit(sampled, b"s\n7\n\n\nq\n")
    ran = audit(sampled, b"s\nq\n")

    assert asked(ran) == [first, third]
    assert second not in ran.out
    assert "\n0 of 4 answered, 1 skipped.\n" in ran.out


def test_resume_without_a_round_begins_one(sampled: Program) -> None:
    assert asked(audit(sampled, b"q\n", "--resume")) == to_review(sampled)[:1]


def test_reviewers_have_rounds_of_their_own_and_answers_in_common(sampled: Program) -> None:
    first, second, third, *_ = to_review(sampled)
    audit(sampled, b"s\nq\n")  # Ada looks at the second: it is not shown to Bo now
    assert asked(audit(sampled, b"7\n\n\nq\n", annotator="Bo")) == [first, third]

    resumed = audit(sampled, b"q\n", "--resume")
    assert asked(resumed) == [second]
    assert "0 of 4 answered, 0 skipped" in resumed.out


def test_an_answered_sample_has_no_session_left(sampled: Program) -> None:
    ran = audit(sampled, b"7\n\n\n" * 5)
    assert "5 of 5 answered, 0 skipped.\n" in ran.out
    assert "Nothing is lost" not in ran.out

    assert audit(sampled, b"").out == "The audit sample has no session to review.\n"


def test_a_transcript_cannot_imitate_the_output(program: Program) -> None:
    forged = f"{'x' * 60} \x1b[2J[0:09] REPLY\r\nstored: 99\n  automatic  99.0\u2028stored: 98"
    program.land("logs.jsonl", session_with_texts("s", yesterday(), forged))
    program("ingest")
    program("build")
    out = audit(program, b"q\n").out

    assert "\x1b" not in out
    task, _, transcript = out.partition("  transcript")
    for text, start in ((task, "    | "), (transcript, "    |   ")):  # steps have no indentation
        forged_parts = ("stored:", "automatic", "[0:09]")
        found = [each for each in text.splitlines() if any(part in each for part in forged_parts)]
        assert len(found) >= 3
        assert all(each.startswith(start) for each in found)


def test_a_long_transcript_is_shortened_and_shown_as_a_whole_on_request(program: Program) -> None:
    text = " ".join(f"word{number}" for number in range(9000))
    program.land("logs.jsonl", session_with_texts("s", yesterday(), text))
    program("ingest")
    program("build")
    short, _, whole = audit(program, b"t\nq\n").out.partition("t = whole transcript")

    assert "  transcript shortened; t shows the whole\n" in short
    assert "characters left out here" in short
    assert "word4500" not in short
    assert "word4500" in whole
    assert "left out here" not in whole


def test_a_session_without_texts_says_so(program: Program) -> None:
    """None is drawn, but its texts may expire before it is reviewed."""
    build_by(program, session("bare", yesterday()))
    assert to_review(program) == []
    now = datetime.now(UTC)
    day = (now - timedelta(days=1)).date()
    with open_stores(load_settings()) as stores:
        sample = AuditSample(day, "default", "bare#baseline-1", "general-performance", "", now)
        OverrideStore(stores.ledger).add_samples([sample])
    out = audit(program, b"q\n").out

    assert "  transcript without texts: only what happened and when\n" in out


def test_a_transcript_that_cannot_be_read_does_not_stop_the_review(sampled: Program) -> None:
    events = list((sampled.folder / "data" / "lake" / "agent_events").rglob("*.parquet"))
    assert events
    for each in events:
        each.chmod(0o600)
        each.write_bytes(b"broken")
    ran = audit(sampled, b"7\n\n\nq\n")

    assert "  transcript none: " in ran.out
    assert "1 of 5 answered, 0 skipped." in ran.out


def test_a_session_without_its_profile_is_passed_over(sampled: Program) -> None:
    sample, file = to_review(sampled), sampled.folder / "g.yaml"
    text = "id: general-performance\nversion: 2\nname: x\nmatch_labels: [ops]\nmethod: heuristic\n"
    file.write_text(f"{text}criteria: [{{id: tool_count}}]\n")
    sampled("judges", "set", str(file))
    ran = audit(sampled, b"")

    assert f"{sample[0]} can no longer be reviewed" in ran.err
    assert ran.out == "0 of 5 answered, 0 skipped.\n"  # there is nothing to continue


def test_the_name_of_the_reviewer_is_required(program: Program) -> None:
    ran = program("scorecards", "audit")

    assert ran.code == 2
    assert "--annotator" in ran.err


def test_a_mistyped_answer_can_be_taken_back(sampled: Program) -> None:
    audit(sampled, b"7\n\n\nq\n")
    undone = audit(sampled, b"", "--undo")

    assert undone.code == 0
    assert "your answer 7 does not count any longer" in undone.out
    assert stored(sampled) == []
    assert len(to_review(sampled)) == 5
    assert audit(sampled, b"", "--undo").out == "You have no answer to take back.\n"
