"""Scores from files in memory, which equal the stored scores."""

import io
import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, BinaryIO

import pytest

from evaluation_pipelines.build import DateBuilt
from evaluation_pipelines.sessions.domain.find_session import (
    SessionNotFoundError,
    find_session,
    session_rows,
)
from evaluation_pipelines.sessions.score import ScoredTelemetry, score_files
from evaluation_pipelines.settings import Settings
from evaluation_pipelines_tests.sessions.odd_sessions import odd_session, other_programs
from evaluation_pipelines_tests.telemetry.collector import seeded
from evaluation_pipelines_tests.workplace import open_workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line, session


def score(*contents: bytes, name: str = "logs.jsonl", **chosen: Any) -> ScoredTelemetry:
    """Score files with these contents."""
    files = [(name, io.BytesIO(content)) for content in contents]
    return score_files(files, Settings(**chosen))


def keys(scored: ScoredTelemetry) -> list[str]:
    return [row["session_key"] for row in scored.sessions]


class RecordedProgress:
    """Progress that records its advances."""

    def __init__(self) -> None:
        self.advanced: list[int] = []

    def begin(self, what: str, total: int) -> None:
        """Do nothing: the caller of ``score_files`` knows the sizes."""

    def advance(self, units: int) -> None:
        """Record the units."""
        self.advanced.append(units)

    def tell(self, detail: str) -> None:
        """Nothing: reading tells nothing else."""


# -- the same as stored ----------------------------------------------------------------------------

DON = {"session_id": "worn", "masque": "Codesmith", "donned_at": "2026-06-01T12:00:30Z"}

ODD = [
    session("a") + session("b", DAY_S / 4) + session("a", 3 * DAY_S),
    # the same records once more, as a backup or a client that sends again
    session("a"),
    # one session id in two organizations, and in none
    session("a", organization__id="acme") + session("a", organization__id="beta"),
    session("worn") + session("worn", 60) + json.dumps(DON).encode() + b"\n",
    session("by-attribute", masque__name="Codesmith", team__id="platform"),
    # a broken clock, broken values, a denied call, a session without any call
    line(claude("user_prompt", 4, session__id="b", event__timestamp="1986-06-01T12:00:00Z")),
    line(claude("api_request", 5, session__id="b", cost_usd="-1", output_tokens="many")),
    line(claude("tool_decision", 6, session__id="b", tool_use_id="t", decision="reject")),
    line(claude("user_prompt", 7, session__id="quiet", prompt="Hello?")),
    # in a session that began before the first partition
    line(claude("user_prompt", -600 * DAY_S, session__id="early")),
]


def test_a_large_file_read_in_many_batches_scores_as_in_one() -> None:
    content = b"".join(session(f"s{n}", n) for n in range(20))
    progress = RecordedProgress()
    whole = score(content)
    files = [("logs.jsonl", io.BytesIO(content))]
    pieces = score_files(files, Settings(batch_bytes=1_000), progress)
    assert pieces.sessions == whole.sessions
    assert (len(progress.advanced) > 5, sum(progress.advanced)) == (True, len(content))
    assert pieces.counts == whole.counts
    assert whole.counts.bytes == len(content)


def test_the_content_level_is_known_although_texts_are_dropped() -> None:
    """Texts are dropped because a file larger than memory consists mostly of them."""
    prompt = claude("user_prompt", prompt="Fix it")
    reply = claude("assistant_response", 1, response="Done")
    assert score(line(prompt)).sessions[0]["content_level"] == "prompts"
    assert score(line(prompt, reply)).sessions[0]["content_level"] == "full"
    redacted = claude("user_prompt", prompt="<REDACTED>")
    assert score(line(redacted)).sessions[0]["content_level"] == "none"


# -- files -----------------------------------------------------------------------------------------


def test_empty_files_and_no_files_hold_no_session() -> None:
    for scored in (score(), score(b"", b"{}\n\n")):
        assert (scored.sessions, scored.quarantined) == ([], [])


def test_what_cannot_be_read_is_given_with_its_file_and_place() -> None:
    good = session("s")
    scored = score(good + b"oops\n", b"\xff\n" + good)
    assert keys(scored) == ["s#baseline-1"]
    assert [(name, quarantined_line.offset) for name, quarantined_line in scored.quarantined] == [
        ("logs.jsonl", len(good)),
        ("logs.jsonl", 0),
    ]
    assert (scored.counts.lines, scored.counts.quarantined) == (4, 2)


def test_a_line_over_the_limit_is_not_read_and_says_which_setting_helps() -> None:
    good = session("s")
    long = line(claude("user_prompt", prompt="x" * 10_000))
    scored = score(long + good, max_line_bytes=len(good))
    assert keys(scored) == ["s#baseline-1"]
    ((_, refused),) = scored.quarantined
    assert (refused.length_bytes, "EVAL_MAX_LINE_BYTES" in refused.reason) == (len(long) - 1, True)


# -- finding a session -----------------------------------------------------------------------------


def test_the_newest_session_is_the_one_that_began_last() -> None:
    rows = score(session("late", 60) + session("early") + session("early", 600)).sessions
    assert find_session(rows, None)["session_id"] == "late"


IN_TWO_ORGANIZATIONS = b"".join(
    session("a", organization__id=organization) for organization in ("acme", "beta")
)


def test_a_session_of_several_organizations_is_found_with_its_organization() -> None:
    rows = score(IN_TWO_ORGANIZATIONS).sessions
    for name in ("a", "a#baseline-1", None):
        assert find_session(rows, name, "acme")["organization_id"] == "acme"
    with pytest.raises(SessionNotFoundError, match="There is no session of other in this"):
        find_session(rows, "a", "other")


def test_the_newest_session_with_a_masque_comes_before_newer_ones_without() -> None:
    rows = score(session("old", masque="A") + session("worn", 60, masque="B") + session("b", 90))
    assert find_session(rows.sessions, None)["session_id"] == "worn"
    assert find_session(rows.sessions, "b")["session_id"] == "b"


def test_what_a_session_did_after_the_doff_is_not_the_newest() -> None:
    don = {"session_id": "s", "masque": "Codesmith", "donned_at": "2026-06-01T12:00:00Z"}
    worn = don | {"doffed_at": "2026-06-01T12:01:00Z"}
    rows = score(session("s") + session("s", 100) + json.dumps(worn).encode()).sessions
    assert [row["attribution"] for row in rows] == ["clean", "remainder"]
    assert find_session(rows, None)["masque"] == "Codesmith"


TWO = r"is in several organizations: add --organization \(acme, beta\), name one of: a#base"


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", None, "There is no session in this telemetry"),
        (session("a"), "b", "There is no session b among the 1 "),
        (IN_TWO_ORGANIZATIONS, "a", TWO),
        (IN_TWO_ORGANIZATIONS, "a#baseline-1", TWO),
        (
            session("a", masque="A") + session("a", 9, masque="B"),
            "a",
            "a has several windows. Name one of: a#a-1, a#b-1",
        ),
    ],
)
def test_an_unknown_or_ambiguous_session_is_an_error_that_lists_the_choices(
    content: bytes, name: str | None, message: str
) -> None:
    with pytest.raises(SessionNotFoundError, match=message):
        find_session(score(content).sessions, name)


# -- one session -----------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_bytes", [8 * 2**20, 1])
@pytest.mark.parametrize("name", ["a", "b", "worn", "by-attribute", "quiet", "early"])
def test_one_session_scores_as_it_does_among_all_others(
    name: str, batch_bytes: int, tmp_path: Path
) -> None:
    everything = [row for row in score(*ODD).sessions if row["session_id"] == name]
    assert everything
    for key in (name, everything[-1]["session_key"]):
        only = score_only(key, ODD, tmp_path, batch_bytes=batch_bytes)
        assert only.sessions == everything


def test_lines_of_other_sessions_are_not_decoded(tmp_path: Path) -> None:
    others = b"".join(session(f"other-{n}") for n in range(50))
    # One line has the id with an escape, and the last line has no newline.
    lines = session("wanted") + session("wanted", 60).replace(b"wanted", b"w\\u0061nted")
    content = others + lines + others + session("wanted", 120)[:-1]
    found = score_only("wanted", [content], tmp_path, batch_bytes=4_000)
    assert found.counts.lines == 3  # a line a session
    assert found.sessions == score_only("wanted", [content], tmp_path).sessions


def test_a_session_whose_id_cannot_be_prefiltered_is_found(tmp_path: Path) -> None:
    content = session("5") + session("6") + session("a/b")
    for name in ("5", "a/b"):
        found = score_only(name, [content], tmp_path)
        assert [row["session_id"] for row in found.sessions] == [name]


def score_only(
    name: str, contents: Sequence[bytes], folder: Path, **chosen: Any
) -> ScoredTelemetry:
    """Score one session of some files."""
    with ExitStack() as stack:
        files: list[tuple[str, BinaryIO]] = []
        for number, content in enumerate(contents):
            path = folder / f"{number}.jsonl"
            path.write_bytes(content)
            files.append((path.name, stack.enter_context(path.open("rb"))))
        return score_files(files, Settings(**chosen), session=name)


SESSIONS_PER_ROUND = 50


@pytest.mark.parametrize(("seed", "rounds"), [(1, 3), pytest.param(2, 200, marks=pytest.mark.slow)])
def test_files_score_in_memory_as_their_tables_do(tmp_path: Path, seed: int, rounds: int) -> None:
    """10,000 sessions in the slow one: in one to four ingests, builds between them or not."""
    random = seeded(seed)
    for number in range(rounds):
        sessions = [odd_session(random, index) for index in range(SESSIONS_PER_ROUND)]
        lines = [line for session in sessions for line in session] + [other_programs()]
        random.shuffle(lines)
        compare(tmp_path / str(number), lines, random)


def compare(folder: Path, lines: list[bytes], random: Random) -> None:
    cuts = sorted(random.sample(range(len(lines)), random.randint(0, 3)))
    ends = zip([0, *cuts], [*cuts, len(lines)], strict=True)
    contents = [b"".join(lines[start:end]) for start, end in ends]
    with open_workplace(folder, shards=random.choice((1, 4))) as workplace:
        for number, content in enumerate(contents):
            workplace.land(f"{number}.jsonl", content)
            workplace.ingest()
            if random.random() < 0.5:
                workplace.build()
        assert {type(result) for result in workplace.build()} <= {DateBuilt}
        stored = session_rows(workplace.sessions(), workplace.performance())
        files = [(f"{n}.jsonl", io.BytesIO(content)) for n, content in enumerate(contents)]
        scored = score_files(files, workplace.settings).sessions
    key = ("organization_id", "session_key")
    assert [[row[name] for name in key] for row in scored] == [
        [row[name] for name in key] for row in stored
    ]
    for mine, theirs in zip(scored, stored, strict=True):
        different = {
            column: (mine[column], theirs[column])
            for column in mine
            if mine[column] != theirs[column]
        }
        assert not different, [mine[name] for name in key]
