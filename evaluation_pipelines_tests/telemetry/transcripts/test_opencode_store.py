"""The store of OpenCode is read in place: its database, or files before 1.2."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.telemetry import local_transcripts, opencode_store
from evaluation_pipelines.telemetry.domain.dialects.opencode.transcript import OpenCodeTranscript
from evaluation_pipelines.telemetry.local_transcripts import local_session
from evaluation_pipelines.telemetry.transcript_ingest import TranscriptReport
from evaluation_pipelines_tests.telemetry.transcripts.captures import (
    SESSIONS,
    STORES,
    contents,
    facts,
    put,
    read,
    session,
)
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

CAPTURED = datetime(2026, 11, 29, 12, 28, tzinfo=UTC)
"""When the last message of OpenCode 1.18.33 was written, to the minute."""

ONE_STEP = """
DELETE FROM message WHERE session_id != 'ses_dd8b9e1eeffeh0YtZXGoSfETy3'
    OR time_created NOT IN (1795955236746, 1795955239210, 1795955257851);
CREATE TABLE ended AS SELECT * FROM message WHERE time_created = 1795955239210;
CREATE TABLE ended_parts AS SELECT * FROM part WHERE data ->> 'type' IN ('tool', 'step-finish');
UPDATE message SET data = json_remove(data, '$.time.completed');
UPDATE part SET data = json_set(data, '$.state.status', 'running');
DELETE FROM part WHERE data ->> 'type' = 'step-finish';
"""
"""A prompt, a step that runs a shell (its input was 102 tokens), and the next prompt."""


@pytest.mark.parametrize("rests", [False, True])
@pytest.mark.parametrize("queued", [False, True])
def test_a_step_that_takes_long_is_read_at_its_end(
    workplace: Workplace, *, rests: bool, queued: bool
) -> None:
    path = put("opencode/1.18.33") / "opencode" / "opencode.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(ONE_STEP)
        if not queued:
            database.execute("DELETE FROM message WHERE time_created = 1795955257851")
    now = NOW if rests else CAPTURED
    read(workplace, now)
    assert workplace.landed().filter(event_name="api_request").height == 0
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("REPLACE INTO message SELECT * FROM ended")
        database.execute("REPLACE INTO part SELECT * FROM ended_parts")
    read(workplace, now)
    read(workplace)
    row = session(workplace, SESSIONS["opencode/1.18.33"][0])
    assert (row["input_tokens"], row["tools_ok"], row["prompts"]) == (102, 1, 1 + queued)


def test_a_session_without_an_answer_is_counted_once() -> None:
    session, prompt = (
        b'{"info":{"id":"ses_1","version":"1.18.33","time":{"created":1}}}',
        b'{"key":"msg_1","info":{"id":"msg_1","role":"user","time":{"created":2}},"parts":[]}',
    )
    first = OpenCodeTranscript()
    second = OpenCodeTranscript(context=first.context)
    for reader in (first, second):
        reader.read(session, 0)
        reader.read(prompt, 70)
    assert [kind for _, kind in first.lines] == [("1.18.33", "session", True)]
    assert second.lines == []


def test_each_faulty_line_without_a_key_is_counted() -> None:
    """Of lines sent to the service, which has no store and reads them once."""
    reader = OpenCodeTranscript()
    reader.read(b'{"info":{"id":"ses_1","time":{"created":1}}}', 0)
    for offset in (50, 60, 70):
        reader.read(b"{no JSON}", offset)
    for offset in (80, 90):
        reader.read(b'{"info":{"role":1}}', offset)
    assert [line.offset for line in reader.unreadable] == [50, 60, 70]
    assert [(at, is_known) for at, (_, _, is_known) in reader.lines] == [
        (0, True),
        (80, False),
        (90, False),
    ]


def test_faulty_lines_of_a_store_are_counted_once_up_to_a_limit() -> None:
    first = OpenCodeTranscript()
    again = OpenCodeTranscript(context=first.context)
    for reader in (first, again):
        for number in range(1_003):
            reader.read(b'{"key":"msg_%d","info":{' % number, number)
    assert [line.offset for line in first.unreadable] == [*range(1_001)]
    assert [line.reason for line in first.unreadable[-2:]] == [
        "not JSON",
        "more than 1,000 unreadable lines, the others are not counted",
    ]
    assert again.unreadable == []


def test_a_database_is_read_while_it_is_written_and_nothing_in_it_changes(
    workplace: Workplace, tmp_path: Path
) -> None:
    home = put("opencode/1.18.33")
    with open_workplace(tmp_path / "at once") as other:
        read(other)
        expected = facts(other)
    path = home / "opencode" / "opencode.db"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for number in range(int(writer.stdout.readline())):
            writer.stdin.write(b"next\n")
            writer.stdin.flush()
            writer.stdout.readline()
            before = contents(home)
            if number % 5 == 0:
                assert read(workplace, CAPTURED).transcripts is not None
            assert contents(home) == before
        report = read(workplace).transcripts
        assert report is not None
        assert not report.skipped
        assert contents(home) == before
    assert not Path(f"{path}-wal").exists()
    before = contents(home)
    assert read(workplace).transcripts == TranscriptReport(found=3)
    assert contents(home) == before
    assert facts(workplace).equals(expected)


WRITER = """
import sqlite3, sys
writer = sqlite3.connect(sys.argv[1], isolation_level=None)
writer.executescript('''
    PRAGMA journal_mode = wal;
    CREATE TEMP TABLE messages AS SELECT * FROM message;
    CREATE TEMP TABLE parts AS SELECT * FROM part;
    DELETE FROM part; DELETE FROM message;
''')
rows = writer.execute("SELECT id FROM messages ORDER BY time_created, id").fetchall()
print(len(rows), flush=True)
for row in rows:
    sys.stdin.readline()
    writer.execute("INSERT INTO message SELECT * FROM messages WHERE id = ?", row)
    writer.execute("INSERT INTO part SELECT * FROM parts WHERE message_id = ?", row)
    print("written", flush=True)
sys.stdin.readline()
"""


def test_files_of_a_session_are_in_the_order_of_time(workplace: Workplace) -> None:
    """Of ids and of names it is not: they start again after two years."""
    home = put("opencode/1.0.152")
    last = "msg_2274578f8001H5zn34hu8eyMfy"
    for path in [*home.rglob("*")]:
        if path.is_file():
            path.write_text(path.read_text("utf-8").replace(last, "msg_0"), "utf-8")
        if last in path.name:
            path.rename(path.with_name(path.name.replace(last, "msg_0")))
    read(workplace)
    assert session(workplace, SESSIONS["opencode/1.0.152"][0])["api_requests"] == 11


def test_an_earlier_message_of_a_file_can_change_last(workplace: Workplace) -> None:
    home = put("opencode/1.0.152")
    (folder,) = home.rglob("message/ses_dd8ba8f44ffePn2Kjz1Lxngk0W")
    _, answer, *others, _queued, last = sorted(folder.iterdir())
    for path in (*others, last):
        path.unlink()
    content = answer.read_text("utf-8")
    answer.write_text(content.replace('"completed"', '"ended"'), "utf-8")
    read(workplace, CAPTURED)
    answer.write_text(content, "utf-8")
    read(workplace, CAPTURED)
    row = session(workplace, SESSIONS["opencode/1.0.152"][0])
    assert row["api_requests"] == 1 + 2  # its sub-agent's


WITHOUT_VALUES = """
CREATE TABLE loose AS SELECT * FROM session; DROP TABLE session;
ALTER TABLE loose RENAME TO session; UPDATE session SET time_updated = NULL;
CREATE TABLE loose AS SELECT * FROM message; DROP TABLE message;
ALTER TABLE loose RENAME TO message; UPDATE message SET time_updated = NULL;
CREATE TABLE loose AS SELECT * FROM part; DROP TABLE part; ALTER TABLE loose RENAME TO part;
UPDATE part SET data = NULL WHERE rowid = (SELECT max(rowid) FROM part);
UPDATE part SET data = ' { }' WHERE data ->> 'type' = 'step-start';
"""


def test_empty_values_of_a_database_stop_no_session(workplace: Workplace) -> None:
    path = put("opencode/1.18.33") / "opencode" / "opencode.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(WITHOUT_VALUES)
    assert read(workplace).counts.quarantined == 1  # the message of the empty part
    # Its session is read again from its start.
    for number in range(2):
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE session SET time_updated = ?", (number,))
            database.execute("UPDATE message SET time_updated = ?", (2 * 10**12 + number,))
        transcripts = read(workplace).transcripts
        assert transcripts is not None
        assert transcripts.files == 3
    assert workplace.quarantined().height == 1
    assert session(workplace, SESSIONS["opencode/1.18.33"][0])["api_requests"] == 11


OF_VERSION_2 = """
CREATE TABLE session_v2 (id text PRIMARY KEY, time_updated integer NOT NULL);
INSERT INTO session_v2 SELECT id, time_updated FROM session;
UPDATE session_v2 SET time_updated = time_updated + 1 WHERE id = 'ses_dd8b9e1eeffeh0YtZXGoSfETy3';
INSERT INTO session_v2 VALUES ('ses_of_version_2', 1800000000000);
"""
"""An upgrade: all three sessions were copied, one of them went on, and one is new."""


def test_sessions_of_a_version_with_other_tables_are_counted(workplace: Workplace) -> None:
    path = put("opencode/1.18.33") / "opencode" / "opencode.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(OF_VERSION_2)
    report = read(workplace).transcripts
    assert report is not None
    reason = "2 sessions with messages of OpenCode 2"
    assert [(file.path, file.reason) for file in report.skipped] == [(str(path), reason)]
    assert session(workplace, SESSIONS["opencode/1.18.33"][0])["api_requests"] == 11


OF_BYTES = """
UPDATE session SET id = x'ff' WHERE parent_id IS NULL AND title LIKE '%fork%';
UPDATE message SET session_id = x'ff' WHERE session_id = 'ses_dd8b95e85ffeUuWzSyTt3XWNYt';
UPDATE session SET version = x'ff', time_updated = x'ff' WHERE parent_id IS NOT NULL;
UPDATE session SET directory = CAST(x'2fff' AS TEXT), time_updated = 1e30
    WHERE id = 'ses_dd8b9e1eeffeh0YtZXGoSfETy3';
"""
"""Bytes in the id of the fork and in the version of the sub-agent. No UTF-8 in the third one."""


def test_sessions_with_bytes_are_quarantined_and_others_are_read(workplace: Workplace) -> None:
    path = put("opencode/1.18.33") / "opencode" / "opencode.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(OF_BYTES)
    report = read(workplace).transcripts
    assert report is not None
    assert (report.files, report.skipped, dict(report.unknown)) == (3, [], {})
    reasons = [row["reason"] for row in workplace.quarantined().to_dicts()]
    places = sorted(reason.partition(f"{path}/")[2] for reason in reasons)
    assert [place.partition(",")[0] for place in places] == [
        "b'\\xff'",
        "ses_dd8b9b1c7ffekRfeYQYHXMU1T6",
    ]
    assert all(place.endswith(": a session of another form") for place in places)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE session SET time_updated = 3e12")
    read(workplace)
    assert workplace.quarantined().height == 2
    # Without the requests 8 and 9 of the sub-agent.
    assert session(workplace, SESSIONS["opencode/1.18.33"][0])["api_requests"] == 11 - 2
    assert workplace.sessions().height == 1


def test_databases_of_other_channels_are_read(workplace: Workplace) -> None:
    folder = put("opencode/1.18.33") / "opencode"
    (folder / "opencode.db").rename(folder / "opencode-dev.db")
    (folder / "repos").mkdir()
    (folder / "repos" / "opencode.db").touch()  # a file of a person
    report = read(workplace).transcripts
    assert report is not None
    assert (report.files, report.skipped) == (3, [])


@pytest.mark.parametrize("capture", STORES)
def test_a_session_of_a_store_is_scored_with_its_sub_agents(capture: str) -> None:
    put(capture)
    session_id = SESSIONS[capture][0]
    found = local_session(load_settings(), session_id)
    assert found is not None
    own, sub_agent = [Path(name).name for name, _ in found.files]
    assert own == session_id
    assert sub_agent.startswith("ses_")


DEEPER = """
CREATE TEMP TABLE deeper AS SELECT * FROM session WHERE parent_id IS NOT NULL;
UPDATE deeper SET parent_id = id, id = 'ses_deeper'; INSERT INTO session SELECT * FROM deeper;
UPDATE message SET session_id = 'ses_deeper' WHERE id = 'msg_227464e42001uYFIlFD8DM2kh6';
"""


def test_a_sub_agent_of_a_sub_agent_is_scored_with_the_session_of_a_person() -> None:
    with closing(sqlite3.connect(put("opencode/1.18.33") / "opencode" / "opencode.db")) as database:
        database.executescript(DEEPER)
    found = local_session(load_settings(), SESSIONS["opencode/1.18.33"][0])
    assert found is not None
    assert len(found.files) == 3
    assert not any("deeper" in session_id for session_id in found.others)


def test_files_of_nested_sub_agents_name_the_session_of_a_person(tmp_path: Path) -> None:
    folder = tmp_path / "storage" / "session" / "p"
    folder.mkdir(parents=True)
    for name, parent in (("own", None), ("sub", "own"), ("deeper", "sub")):
        (folder / f"{name}.json").write_text(json.dumps({"id": name, "parentID": parent}))
    (found,), _ = opencode_store.stored_sessions(folder / "deeper.json")
    assert found.root == "own"


def test_a_session_of_a_store_is_read_once(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("opencode/1.18.33")
    lines, names = opencode_store.session_lines, list[str]()

    def counted(path: Path, session_id: str) -> Iterator[bytes]:
        names.append(session_id)
        return lines(path, session_id)

    monkeypatch.setattr(local_transcripts, "session_lines", counted)
    read(workplace)
    assert len(names) == len({*names}) == 3


def test_a_store_that_cannot_be_read_is_named(workplace: Workplace) -> None:
    folder = put("opencode/1.2.27") / "opencode"
    (folder / "opencode.db").write_bytes(b"SQLite format 3\0 and then something else")
    files = folder / "storage" / "session" / "p"
    files.mkdir(parents=True)
    (files / "ses_1.json").symlink_to(folder / "opencode.db")
    report = read(workplace).transcripts
    assert report is not None
    assert {Path(file.path).name: file.reason for file in report.skipped} == {
        "opencode.db": "the database of OpenCode cannot be read: file is not a database",
        "ses_1.json": "a link, or not a regular file",
    }
