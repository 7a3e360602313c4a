"""A prompt can be queued while calls run: they wait for their results."""

from typing import NamedTuple

import msgspec
import pytest

from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.telemetry.local_transcripts import (
    Piece,
    TranscriptFile,
    find_transcripts,
    read_transcript,
)
from evaluation_pipelines_tests.telemetry.transcripts.captures import SESSIONS, put

# What lines of calls, prompts and answers have.
LINES = {
    "claude_code/2.1.332": (b'"type":"tool_use"', b'"type":"user"', b'"type":"assistant"'),
    "codex/0.104.0": (b'"type":"function_call"', b'"type":"user_message"', b'"turn_context"'),
    "codex/0.171.0": (b'"type":"function_call"', b'"type":"UserMessage"', b'"turn_context"'),
    "qwen_code/0.24.4": (b'"functionCall"', b'"provenance":"real_user"', b'"type":"assistant"'),
    "genai/1.0.102": (b'"tool.execution_start"', b'"user.message"', b'"assistant.message"'),
}


def transcript(capture: str) -> TranscriptFile:
    """Return the transcript of a capture's session without its sub-agents."""
    put(capture)
    session_id = SESSIONS[capture][0]
    (file,) = (
        file
        for file in find_transcripts()[0]
        if session_id in str(file.path) and "subagents" not in str(file.path)
    )
    return file


def written(file: TranscriptFile, lines: list[bytes]) -> TranscriptFile:
    file.path.write_bytes(b"".join(lines))
    (found,) = (found for found in find_transcripts()[0] if found.path == file.path)
    return found


def read(file: TranscriptFile, piece: Piece | None = None) -> Piece:
    start = (piece.end, piece.context) if piece else (0, {})
    (found,) = read_transcript(file, load_settings(), start[0], context=start[1], is_final=False)
    return found


def calls(*pieces: Piece) -> list[dict[str, str]]:
    """Return the attributes of calls with their outcomes."""
    records = [
        {pair["key"]: next(iter(pair["value"].values())) for pair in record["attributes"]}
        for piece in pieces
        for line in piece.content.splitlines()
        for record in msgspec.json.decode(line)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    ]
    return [record for record in records if record["event.name"].startswith("transcript.tool_")]


class Captured(NamedTuple):
    """A transcript: its lines, where the first and the last call are, a prompt, the last answer."""

    file: TranscriptFile
    lines: list[bytes]
    first: int
    last: int
    prompt: bytes
    last_answer: bytes


@pytest.fixture(params=LINES)
def captured(request: pytest.FixtureRequest) -> Captured:
    call, prompt, answer = LINES[request.param]
    file = transcript(request.param)
    lines = file.path.read_bytes().splitlines(keepends=True)
    first, *_, last = [number for number, line in enumerate(lines) if call in line]
    prompts, answers = ([line for line in lines if mark in line] for mark in (prompt, answer))
    return Captured(file, lines, first, last, prompts[0], answers[-1])


def test_a_call_is_whole_if_a_prompt_is_queued_while_it_runs(captured: Captured) -> None:
    file, lines, at, _, queued, _ = captured
    expected = calls(read(file))
    assert expected
    first = read(written(file, [*lines[: at + 1], queued]))
    file = written(file, [*lines[: at + 1], queued, *lines[at + 1 :]])
    assert calls(first) == []
    assert calls(first, read(file, first)) == expected
    assert calls(read(file)) == expected


def test_an_interrupted_call_waits_until_the_next_answer(captured: Captured) -> None:
    file, lines, at, _, next_prompt, last_answer = captured
    file = written(file, [*lines[: at + 1], next_prompt])
    assert read(file).end <= sum(map(len, lines[:at]))
    file = written(file, [*lines[: at + 1], next_prompt, last_answer])
    assert read(file).end == file.size_bytes


def test_a_prompt_queued_during_an_ended_call_gives_up_no_later_call(captured: Captured) -> None:
    file, lines, first, last, queued, last_answer = captured
    expected = calls(read(file))
    before, between, after = lines[: first + 1], lines[first + 1 : last + 1], lines[last + 1 :]
    assert calls(read(written(file, [*before, *between]))) == expected[:-1]
    file = written(file, [*before, queued, *between, last_answer, *after])
    assert calls(read(file)) == expected
