"""``score``: scores of telemetry files without storing anything."""

import gzip
import os
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import yaml

from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import claude, line, session

TRANSCRIPTS = Path(__file__).parents[1] / "data" / "transcripts"
SAMPLE = str(SAMPLES / "claude_code" / "logs.jsonl")

MASQUE = "e108dda7-c6b0-4cbb-b888-829969ca46ba#codesmith-1"


def test_the_newest_session_is_printed_as_yaml_with_a_note_about_the_others(
    program: Program,
) -> None:
    ran = program("score", SAMPLE)
    assert ran.out.startswith("masque: Codesmith\nduration_min: 1\nactive_min: 1\n")
    assert ran.err == (
        f"{MASQUE} is the latest with a masque of 17 sessions: "
        "use --all for all of them, --session for another one\n"
    )
    assert list(program.folder.iterdir()) == []


def test_a_session_is_found_by_its_id(program: Program) -> None:
    ran = program("score", SAMPLE, "--session", "6747efea-76a5-4f49-bc13-322b873d7c25")
    # One prompt, one answered request of 2311 + 5 tokens, no tool call.
    assert (ran.code, ran.err) == (0, "")
    assert yaml.safe_load(ran.out)["stats"]["total_tokens"] == 2316


def test_all_sessions_are_documents_of_one_yaml_stream(
    program: Program,
) -> None:
    ran = program("score", SAMPLE, "--all")
    documents = list(yaml.safe_load_all(ran.out))
    assert (ran.code, ran.err, len(documents)) == (0, "", 17)
    keys = [line for line in ran.out.splitlines() if line.startswith("# ")]
    assert keys[0] == "# 69f7cc18-63ff-4845-9b92-b41477e9aa18#baseline-1 of default"
    assert keys[1] == "# 6747efea-76a5-4f49-bc13-322b873d7c25#baseline-1 of default"
    assert keys[-1] == "# 97263027-c850-4b2e-94b5-31d2aecb378b#baseline-1 of default"
    assert documents[1]["reason"] == "no tool call with a known outcome"


def test_several_files_and_folders_are_read_together(program: Program) -> None:
    folder = program.folder / "landing"
    (folder / "agent").mkdir(parents=True)
    (folder / "agent" / "a.jsonl").write_bytes(session("a"))
    (folder / "notes.txt").write_bytes(b"no telemetry")
    (program.folder / "b.jsonl").write_bytes(session("b", 60))
    ran = program("score", "landing", "b.jsonl", "-", "--all", "--format", "json", stdin=b"{}\n")
    assert [item["session_id"] for item in ran.items()] == ["a", "b"]


def test_the_first_invalid_lines_are_reported_and_the_others_scored(program: Program) -> None:
    bad = b"".join(b"bad %d\n" % n for n in (0, 0, 1, 2, 3, 4, 5, 5, 6))
    (program.folder / "logs.jsonl").write_bytes(b"\xff\n" + bad + session("s"))
    ran = program("score", "logs.jsonl")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "masque: baseline")
    first, second, *others = ran.err.splitlines()
    assert first == "warning: logs.jsonl, byte 0: not read: not UTF-8 at byte 0"
    assert second.startswith("warning: logs.jsonl, byte 2 (2 equal lines): not read: not JSON: ")
    assert second.endswith(" (character 0)")
    # Of 10 lines, the odd one and those with 0 to 3 are shown.
    assert (len(others), others[-1]) == (4, "warning: 4 more lines or records not read")


def test_telemetry_without_a_session_prints_its_contents(program: Program) -> None:
    foreign = line({**claude("x"), "body": {}}).replace(b"com.anthropic.claude_code", b"other")
    content = foreign + b'{"resourceMetrics": []}\n' + line(claude("user_prompt", session__id=""))
    ran = program("score", "-", stdin=content)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        "warning: metrics, not used: 1",
        "warning: unrecognized records: 1",
        "warning: records without a session: 1",
        "error: There is no session in this telemetry.",
    ]


def test_impossible_times_that_were_replaced_are_named(program: Program) -> None:
    noon = {"timeUnixNano": "noon", "observedTimeUnixNano": "noon"}
    record = claude("user_prompt", 0, session__id="s") | noon
    (program.folder / "logs.jsonl").write_bytes(session("s") + line(record))
    ran = program("score", "logs.jsonl")
    told = "warning: times missing or impossible, replaced by the time of ingest: 1"
    assert f"{told}\n" in ran.err
    both = line(claude("user_prompt", 0, session__id="o"), record)
    (program.folder / "logs.jsonl").write_bytes(both)
    assert f"{told}\n" in program("score", "logs.jsonl", "--all").err
    for chosen in ([], ["--session", "o"]):  # the time is that of s, in the same line
        err = program("score", "logs.jsonl", *chosen).err
        assert f"{told} (of all sessions in the lines read)\n" in err


def test_what_is_not_read_of_a_folder_is_named(program: Program) -> None:
    folder = program.folder / "logs"
    folder.mkdir()
    sent = session("s-1")
    (folder / "a.jsonl").write_bytes(sent + sent[:50])
    (folder / "b.ndjson").write_bytes(sent)
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(sent)[:-9])
    told = program("score", "--all", str(folder)).err

    assert (
        f"warning: {folder}/a.jsonl: its last line is not complete: 50 bytes are not read" in told
    )
    assert "warning: b.ndjson: names must end in .jsonl, .json or .pb, " in told
    assert f"warning: {folder}/c.jsonl.gz: its end is missing. The lines before it are read" in told


def test_a_folder_in_which_nothing_has_arrived_yet_names_the_next_step(program: Program) -> None:
    answer = program("score", "data/landing/received")
    assert answer.code == 1
    assert "no telemetry has arrived: data/landing/received is not there yet" in answer.err
    assert "start your agent" in answer.err


OF_OPENCODE_2 = """
CREATE TABLE session (id text PRIMARY KEY, parent_id text, time_updated integer);
CREATE TABLE message (session_id text, time_updated integer, data text);
CREATE TABLE session_v2 (id text PRIMARY KEY, time_updated integer);
INSERT INTO session_v2 VALUES ('ses_1', 1800000000000);
"""


def test_the_latest_session_of_this_machine_is_scored_from_its_transcript(
    program: Program, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    program.set("HOME", str(home))
    program.set("CLAUDE_CONFIG_DIR", None)
    none = program("score", "--local")
    assert (none.code, none.out) == (1, "")
    assert none.err.startswith("error: no transcript of a session found on this machine.")
    assert "Supported: Claude Code, " in program("ingest", "--local").out
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(OF_OPENCODE_2)
    for more in ([], ["--session", "absent"]):
        warning, error = program("score", "--local", *more).err.splitlines()
        assert warning == f"warning: not read: {path}: 1 session with messages of OpenCode 2"
        assert error.startswith("error: no transcript of ")
    path.unlink()
    shutil.rmtree(program.folder / "data", ignore_errors=True)
    shutil.copytree(TRANSCRIPTS / "claude_code" / "2.1.150", home / ".claude")
    latest = "21f14f16-79e3-48d4-aa6f-d5ae28708feb"
    files = sorted(home.rglob("*.jsonl"), key=lambda line: latest in str(line))
    for second, path in enumerate(files):  # the fork is older
        os.utime(path, (1_764_400_000 + second,) * 2)
    ran = program("score", "--local")
    assert ran.code == 0
    assert yaml.safe_load(ran.out)["stats"] == {
        # Requests 1 to 11 and 14, n of them counts 100 + n and 20 + n and 1,050 cached tokens.
        "total_cost": 0.04,
        "total_tools": 8,
        "tools_ok": 6,
        "tool_success_pct": 75,
        "prompts": 3,
        "total_tokens": 1280 + 320 + 80_000 + 600,
        "cache_tokens": 80_000,
    }
    assert f"{latest}.jsonl" in ran.err
    # A later session in which no tool was called has no score of its own.
    (own,) = (path for path in files if path.stem == latest)
    talk = own.with_stem("5d0c1c3e-79e3-48d4-aa6f-d5ae28708feb")
    kept = [row for row in own.read_text().splitlines(keepends=True) if '"type":"tool_' not in row]
    talk.write_text("".join(kept).replace(latest, talk.stem).replace('uuid":"', 'uuid":"0'))
    assert f"transcript: {own}" in program("score", "--local").err
    talk.unlink()
    fork = "7aadf2ba-ea34-4cef-876c-0f4ca5fdc613"
    assert "the latest session with a tool call. To score another one: --local" in ran.err
    assert f"To score another one: --local --session ID, such as {fork}" in ran.err
    for name in (fork, f"{fork[:8]}…#baseline-1"):
        other = program("score", "--local", "--session", name)
        assert (other.code, yaml.safe_load(other.out)["stats"]["prompts"]) == (0, 1)
        assert "for another one" not in other.err
    (odd,) = (path for path in files if path.stem == fork)
    sound = odd.read_text()
    odd.write_text(re.sub(r'"output_tokens":\d+', '"output_tokens":-5', sound))
    told = program("score", "--local", "--session", fork).err
    assert re.search(r"warning: impossible values, set to null: \d+\n", told)
    odd.write_text(sound)
    unknown = program("score", "--local", "--session", "absent")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err.startswith("error: no transcript of session absent found on this machine.")
    assert list(program.folder.iterdir()) == [home]
    ingested = program("ingest", "--local")
    assert ingested.out.splitlines()[-1] == "next: evaluation-pipelines build"
    assert "Supported:" not in ingested.out
    assert program("ingest", "--local", "--again").code == 2
