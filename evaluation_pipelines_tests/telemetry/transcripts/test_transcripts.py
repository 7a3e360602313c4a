"""Transcripts of agents become the same events and sessions as telemetry."""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from evaluation_pipelines.attention.domain.items import attention
from evaluation_pipelines.attention.gather import gather
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.tables.telemetry import TRANSCRIPTS as READ_POSITIONS
from evaluation_pipelines.telemetry import local_transcripts, transcript_ingest
from evaluation_pipelines.telemetry.domain.dialects.codex.transcript import CodexTranscript
from evaluation_pipelines.telemetry.domain.dialects.registry import TRANSCRIPT_READERS
from evaluation_pipelines.telemetry.domain.dialects.transcript import Transcript, without_folders
from evaluation_pipelines.telemetry.ledger.transcript_reads import TranscriptReads
from evaluation_pipelines.telemetry.local_transcripts import find_transcripts, read_transcript
from evaluation_pipelines_tests.telemetry.transcripts.captures import (
    CALLS,
    FORKS,
    NOT_GROWING,
    RATES,
    SESSIONS,
    THOUGHTS,
    TRANSCRIPTS,
    UNKNOWN,
    WRITTEN,
    facts,
    put,
    read,
    session,
)
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace


@pytest.mark.parametrize("program", TRANSCRIPT_READERS, ids=lambda reader: reader.source_cli)
def test_the_versions_of_a_program_are_those_of_its_captures(program: type[Transcript]) -> None:
    folders = (TRANSCRIPTS / program.source_cli).iterdir()
    minors = sorted(tuple(map(int, folder.name.split(".")[:2])) for folder in folders)
    first, last = [".".join(map(str, minor)) for minor in (minors[0], minors[-1])]
    assert program.versions == (first if first == last else f"{first} to {last}")


def test_gemini_cli_home_names_the_folder_of_dot_gemini(
    workplace: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("gemini_cli/0.61.0").rename(tmp_path / "elsewhere")
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path / "elsewhere"))
    read(workplace)
    assert workplace.landed()["source_cli"].unique().to_list() == ["gemini_cli"]


@pytest.mark.parametrize("capture", SESSIONS)
def test_a_session_has_what_its_model_saw(workplace: Workplace, capture: str) -> None:
    put(capture)
    read(workplace)
    session_id, requests, numbers, prompts, calls = SESSIONS[capture]
    row = session(workplace, session_id)
    assert row["api_requests"] == requests
    program = row["source_cli"]
    assert row["output_tokens"] == 20 * requests + numbers + requests * THOUGHTS.get(program, 0)
    counts: tuple[int | None, ...]
    counts = (100 * requests + numbers, 1000 * numbers, WRITTEN.get(program, 0) * requests)
    if capture in ("genai/1.0.20", "genai/1.0.49"):
        counts = (None, None, None)  # of a request these versions keep the output alone
    assert tuple(row[f"{name}_tokens"] for name in ("input", "cache_read", "cache_creation")) == (
        counts
    )
    if program in RATES:
        tokens = [row[f"{name}_tokens"] for name in ("input", "output", "cache_read")]
        price = sum(rate * count for rate, count in zip(RATES[program], tokens, strict=True))
        # Of 50 tokens into the cache 30 stay there for five minutes and 20 for an hour.
        price += requests * (3.75 * 30 + 6 * 20) if program in WRITTEN else 0
        # Before 1.18 OpenCode adds the 5 tokens of reasoning to an output that has them.
        price += requests * 5 * 2 if capture in ("opencode/1.0.152", "opencode/1.2.27") else 0
        assert row["cost_usd"] == pytest.approx(price / 1e6)
    assert row["prompts"] == prompts
    assert tuple(row[name] for name in CALLS) == calls
    assert program == capture.partition("/")[0]
    known: dict[str, str | None] = {"branch": "master", "version": capture.partition("/")[2]}
    known |= dict.fromkeys(UNKNOWN[program].split(", "))
    assert (row["branch"], row["service_version"]) == (known["branch"], known["version"])


@pytest.mark.parametrize("capture", FORKS)
def test_a_fork_has_only_its_own_requests(workplace: Workplace, capture: str) -> None:
    put(capture)
    read(workplace)
    session_id, number = FORKS[capture]
    row = session(workplace, session_id)
    assert (row["api_requests"], row["input_tokens"], row["prompts"]) == (1, 100 + number, 1)
    assert row["total_tools"] == 0


@pytest.mark.parametrize("capture", sorted(SESSIONS.keys() - NOT_GROWING))
def test_a_growing_transcript_is_read_once(
    workplace: Workplace, capture: str, tmp_path: Path
) -> None:
    home = put(capture)
    if capture in FORKS:
        for fork in home.rglob(f"*{FORKS[capture][0]}.jsonl"):
            fork.unlink()
    with open_workplace(tmp_path / "at once") as other:
        read(other)
        expected, lines = facts(other), TranscriptReads(other.ledger).lines()
    named = [path for path in home.rglob("*.jsonl") if SESSIONS[capture][0][:8] in str(path)]
    (path,) = [item for item in named if item.parent.name != "subagents"]
    content = path.read_bytes()
    path.write_bytes(b"")
    size = len(content) // 23  # most ends are within a line
    for end in range(0, len(content), size):
        with path.open("ab") as file:
            file.write(content[end : end + size])
        read(workplace, datetime.fromtimestamp(path.stat().st_mtime + 1, UTC))
    read(workplace)  # in rest: the last message counts as it is
    assert facts(workplace).equals(expected)
    assert TranscriptReads(workplace.ledger).lines() == lines


def test_a_killed_reading_goes_on_in_mid_file(
    workplace: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("codex/0.58.0")
    with open_workplace(tmp_path / "at once") as other:
        read(other)
        expected = facts(other)
    monkeypatch.setattr(local_transcripts, "_RECORDS_PER_PIECE", 1)
    monkeypatch.setattr(transcript_ingest, "_COMMITTED_BYTES", 1)
    commit, commits = TranscriptReads.commit, iter((True, True))

    def killed(*arguments: Any) -> None:
        if not next(commits, False):
            raise KeyboardInterrupt
        commit(*arguments)

    with monkeypatch.context() as kill:
        kill.setattr(TranscriptReads, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            read(workplace)
    read(workplace)
    assert facts(workplace).unique("event_id", maintain_order=True).equals(expected)


def test_a_rewritten_transcript_counts_once(workplace: Workplace) -> None:
    home = put("claude_code/2.1.150")
    read(workplace)
    session_id, requests, *_ = SESSIONS["claude_code/2.1.150"]
    (path,) = home.rglob(f"{session_id}.jsonl")
    # As a compaction by other tools leaves it: the first prompt and its answer are gone.
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[7:]))
    read(workplace)
    assert session(workplace, session_id)["api_requests"] == requests


@pytest.mark.parametrize("capture", SESSIONS)
def test_no_folder_of_a_home_is_stored(workplace: Workplace, tmp_path: Path, capture: str) -> None:
    put(capture)
    read(workplace)
    workplace.build()
    events = repr([workplace.landed().to_dicts(), workplace.sessions().to_dicts()])
    files = [path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert not [file for file in (*files, events.encode()) if b"/home/" in file]
    # Read positions name no session: it may have to be forgotten.
    with workplace.ledger.engine.connect() as connection:
        positions = repr(connection.execute(sa.select(READ_POSITIONS)).all())
    assert SESSIONS[capture][0] not in positions


def test_a_declined_command_of_a_program_of_codex_was_refused() -> None:
    reader = CodexTranscript()
    ran = {"type": "CommandExecution", "command": ["rm", "x"]}
    payloads = (
        ("response_item", {"type": "custom_tool_call", "call_id": "c", "name": "exec"}),
        *(
            (
                "event_msg",
                {"type": "item_completed", "item": {**ran, "id": status, "status": status}},
            )
            for status in ("completed", "failed", "declined")
        ),
    )
    for offset, (kind, payload) in enumerate(payloads):
        reader.read(json.dumps({"type": kind, "payload": payload}).encode(), offset)
    assert [(record.name, record.columns["success"]) for record in reader.records] == [
        ("tool_result", True),
        ("tool_result", False),
        ("tool_decision", None),
    ]


def test_a_read_position_of_codex_names_no_sub_agent() -> None:
    home = put("codex/0.171.0")
    (path,) = home.rglob(f"*{SESSIONS['codex/0.171.0'][0]}.jsonl")
    spawned = b'"source":{"subagent":{"thread_spawn":{"agent_nickname":"Ada"}}}'
    content = path.read_bytes().replace(b'"source":"exec"', spawned)
    half = content.index(b"\n", len(content) // 2) + 1
    path.write_bytes(content[:half])
    contents, position, context = [], 0, dict[str, Any]()
    for _ in range(2):
        (file,) = (file for file in find_transcripts()[0] if file.path == path)
        (piece,) = read_transcript(file, load_settings(), position, context=context, is_final=False)
        contents.append(piece.content)
        position, context = piece.end, piece.context
        assert "Ada" not in repr(context)
        path.write_bytes(content)
    calls = [line for part in contents for line in part.split(b"transcript.tool_result")[1:]]
    assert len(calls) == 7
    assert all(b'{"key":"subagent","value":{"stringValue":"Ada"' in call for call in calls)


@pytest.mark.parametrize(
    ("remote", "name"),
    [
        ("/home/ada/shop.git", "shop.git"),
        ("file:///home/ada/shop/", "shop"),
        (r"C:\Users\ada\shop", "shop"),
        ("C:\\Users\\ada\\shop\\", "shop"),
        (r"\\server\ada\shop", "shop"),
        ("//server/ada/shop//", "shop"),
        ("../ada/shop", "shop"),
        ("git@example.com:acme/shop.git", "example.com:acme/shop.git"),
        ("ssh://ada@example.com:22/acme/shop", "ssh://example.com:22/acme/shop"),
        ("https://ada:token@example.com/acme/shop", "https://example.com/acme/shop"),
        ("https://token@example.com/acme/shop?t=1", "https://example.com/acme/shop"),
        ("https://example.com/acme/shop", "https://example.com/acme/shop"),
    ],
)
def test_a_remote_is_kept_without_folders_users_and_passwords(remote: str, name: str) -> None:
    assert without_folders(remote) == name


def test_no_password_of_a_remote_is_stored(workplace: Workplace, tmp_path: Path) -> None:
    home = put("codex/0.171.0")
    remote = b"https://ada:hunter2@example.com/acme/shop.git"
    for path in home.rglob("*.jsonl"):
        path.write_bytes(path.read_bytes().replace(b"https://example.com/acme/shop.git", remote))
    read(workplace)
    row = session(workplace, SESSIONS["codex/0.171.0"][0])
    assert row["repository"] == "https://example.com/acme/shop.git"
    files = [path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert not any(b"hunter2" in content for content in files)


def test_only_figures_are_stored(workplace: Workplace) -> None:
    put("claude_code/2.1.150")
    read(workplace)
    landed = workplace.landed()
    assert landed["content"].null_count() == landed["tool_parameters"].null_count() == landed.height
    stored = b"".join(path.read_bytes() for path in workplace.landing.root.rglob("*.jsonl"))
    for text in (b"FULL please work", b"look around", b"zebra", b"gamma", b"notes.txt", b"broken"):
        assert text not in stored


def test_texts_are_stored_on_request(tmp_path: Path) -> None:
    put("claude_code/2.1.150")
    with open_workplace(tmp_path / "texts", transcript_texts=True) as with_texts:
        read(with_texts)
        calls = with_texts.landed().filter(event_name="tool_result", tool_name="Bash")
        prompts = with_texts.landed().filter(event_name="user_prompt")["content"]
        stored = [path.read_bytes() for path in with_texts.landing.root.rglob("*.jsonl")]
    assert any(
        b'{"key":"cwd","value":{"stringValue":"/home/ada/shop"}}' in event for event in stored
    )
    assert [json.loads(parameter)["command"] for parameter in calls["tool_parameters"]] == [
        "ls -la",
        "echo broken >&2; exit 3",
        "grep zebra notes.txt",
    ]
    assert calls["exit_code"].to_list() == [None, 3, None]
    assert calls["error"].to_list() == [None, "Exit code 3\nbroken", None]
    assert "FULL please work" in prompts.to_list()


def test_lines_that_cannot_be_read_are_named(workplace: Workplace) -> None:
    home = put("claude_code/2.1.150")
    (path,) = home.rglob(f"{SESSIONS['claude_code/2.1.150'][0]}.jsonl")
    content = path.read_bytes()
    broken = b'{"type":"user","message":{"role":\n'
    unknown = b'{"type":"hologram","version":"9.9.9","x":1}\n{"type":7}\n'
    path.write_bytes(content + broken + unknown + b'{"type":"assistant"')
    report = read(workplace)
    assert report.transcripts is not None
    assert dict(report.transcripts.unknown) == {
        ("claude_code", "hologram"): 1,
        ("claude_code", "of another form"): 1,
    }
    (item,) = [
        item for item in attention(gather(workplace.stores, NOW)) if item.kind == "transcripts"
    ]
    assert item.seen == "2 lines of transcripts of unknown kinds"
    assert [str(part) for part in item.parts] == [
        "claude_code of unknown version: 100% known",
        "claude_code 2.1.150: 100% known",
        "claude_code 9.9.9: 0% known",
    ]
    (row,) = workplace.quarantined().to_dicts()
    assert f"{path}, byte {len(content)}, {len(broken) - 1} bytes: not JSON" in row["reason"]
    assert read(workplace).counts.quarantined == 0


def test_links_and_files_of_others_are_passed_over(workplace: Workplace, tmp_path: Path) -> None:
    home = put("claude_code/2.1.150")
    folder = home / "projects" / "-home-ada-shop"
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(b"{}\n")
    (folder / "link.jsonl").symlink_to(outside)
    (folder / "itself.jsonl").symlink_to(folder / "itself.jsonl")
    (home / "projects" / "loop").symlink_to(home)
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "empty.jsonl").touch()
    (folder / "others.jsonl").write_bytes(b"{}\n")
    os.chown(folder / "others.jsonl", 12345, -1)
    report = read(workplace).transcripts
    assert report is not None
    assert report.files == 3
    reasons = {Path(file.path).name: file.reason for file in report.skipped}
    no_file = "a link, or not a regular file"
    assert reasons == {
        "link.jsonl": no_file,
        "itself.jsonl": no_file,
        "pipe.jsonl": no_file,
        "others.jsonl": "it belongs to another user",
    }


@pytest.mark.parametrize(
    ("version", "session_id", "requests", "calls", "only_telemetry"),
    [
        # Telemetry of 2.0 has no ids of calls, but the requests for titles. It misses the read of
        # no file, and that a write was refused.
        ("2.0.76", "3e7b9894-0b29-4470-9297-4538a705533d", 18, (8, 6, 2, 1), (7, 6, 1, 0)),
        ("2.1.332", "8f8010e6-3578-43f8-a655-0f0e75ce31a8", 11, (8, 6, 2, 1), (8, 6, 2, 1)),
        # Telemetry has neither ids of calls nor exit codes.
        ("gemini-0.61.0", "5ab402ae-821b-43ca-8d69-14deed30b0e9", 6, (6, 4, 2, 0), (6, 5, 1, 0)),
    ],
)
def test_a_session_in_telemetry_and_transcripts_counts_once(
    workplace: Workplace,
    version: str,
    session_id: str,
    requests: int,
    calls: tuple[int, ...],
    only_telemetry: tuple[int, ...],
) -> None:
    capture = TRANSCRIPTS / "both" / version
    workplace.land("logs.jsonl", (capture / "logs.jsonl").read_bytes())
    read(workplace)
    telemetry = session(workplace, session_id)
    home = ".gemini" if (capture / "tmp").exists() else ".claude"
    shutil.copytree(capture, Path(os.environ["HOME"]) / home)
    read(workplace)
    both = session(workplace, session_id)
    assert tuple(telemetry[name] for name in CALLS) == only_telemetry
    assert tuple(both[name] for name in CALLS) == calls
    assert both["api_requests"] == requests
    for name in ("prompts", "total_tokens", "cost_usd", "api_ms", "missing_events"):
        assert both[name] == telemetry[name]
    branch = None if home == ".gemini" else "master"
    assert (telemetry["branch"], both["branch"]) == (None, branch)
