"""Transcripts of agents become the same events and sessions as telemetry."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sqlalchemy as sa

from evaluation_pipelines.attention.domain.items import attention
from evaluation_pipelines.attention.gather import gather
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.tables.telemetry import TRANSCRIPTS as READ_POSITIONS
from evaluation_pipelines.telemetry import local_transcripts, transcript_ingest
from evaluation_pipelines.telemetry.domain.transcripts import PROGRAMS
from evaluation_pipelines.telemetry.domain.transcripts.transcript import without_folders
from evaluation_pipelines.telemetry.ingest import Ingest, IngestReport
from evaluation_pipelines.telemetry.ledger.transcript_reads import TranscriptReads
from evaluation_pipelines.telemetry.local_transcripts import local_session
from evaluation_pipelines.telemetry.transcript_ingest import TranscriptReport
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

TRANSCRIPTS = Path(__file__).parents[1] / "data" / "transcripts"

# Seen by the model that the programs talked to: of request n Claude Code counts 100 + n input
# tokens, 1,000 n from the cache, 50 into it and 20 + n output tokens, Codex the same without the
# 50. Requests for titles and summaries are in no transcript.
# Capture: session, requests, the sum of their n, prompts, calls (all, ok, failed, refused).
SESSIONS = {
    # Requests 1, 6, 7, 11, 13-18, 22, 34. Calls: Bash ok, exit code 3, and 1 of a search; Read ok
    # and of no file; Edit; Task; Read of the sub-agent; Write was refused.
    "claude_code/2.0.76": ("2867e27e-1a35-4e66-bb36-793c55c734fe", 12, 174, 3, (8, 6, 2, 1)),
    # Requests 1 to 11 and 14.
    "claude_code/2.1.150": ("21f14f16-79e3-48d4-aa6f-d5ae28708feb", 12, 80, 3, (8, 6, 2, 1)),
    # Requests 1 to 12 and 16: the sub-agent ran in the background, its end was told to the model.
    "claude_code/2.1.332": ("638ed1d5-349d-4780-a09c-85c04afec20e", 13, 94, 3, (8, 6, 2, 1)),
    # Requests 1 to 7. Shell: ok, exit code 3, 1 of a search, two `cat`, one of no file; a patch and
    # a plan.
    "codex/0.58.0": ("01a226bd-fca7-7790-9814-eb8335f373af", 7, 28, 1, (7, 5, 2, 0)),
    # Requests 1 to 8.
    "codex/0.104.0": ("01a226bd-ef6c-7992-b335-5ca81d4f991f", 8, 36, 2, (7, 5, 2, 0)),
    # The same. This version knows no plan for this model.
    "codex/0.171.0": ("01a226bd-df9c-7253-8ce5-bdd2d9cbce38", 8, 36, 2, (7, 4, 3, 0)),
    # Requests 1 and 2: this version made no call without a terminal.
    "gemini_cli/0.20.0": ("18f45fde-efff-4ce3-9fcd-d6be57836415", 2, 3, 2, (0, 0, 0, 0)),
    # Requests 1 to 7. Shell: ok, exit code 3, 1 of a search; two reads, one of no file; an edit.
    "gemini_cli/0.40.0": ("09617a25-b0c2-4697-a1fe-3f3f2bbb4a58", 7, 28, 2, (6, 4, 2, 0)),
    "gemini_cli/0.61.0": ("b2fee168-a9de-4461-9051-58916d0ebe5c", 7, 28, 2, (6, 4, 2, 0)),
    # Requests 1 to 7 and the same calls. This version wants another name of a file: no read worked.
    "qwen_code/0.12.0": ("406478a8-5fb7-4dbf-af04-2d34b423b9b8", 7, 28, 2, (6, 3, 3, 0)),
    # Requests 1 to 8 and the same calls.
    "qwen_code/0.15.10": ("b6dfd05c-17ec-41d1-bdeb-b2743d1a4088", 8, 36, 2, (6, 4, 2, 0)),
    "qwen_code/0.21.10": ("5afc9126-7ae0-459c-89c9-7a5eecdfd3d4", 8, 36, 2, (6, 4, 2, 0)),
    "qwen_code/0.24.4": ("830a44e5-0238-4ad5-b0b7-46c50a7eab91", 8, 36, 2, (6, 4, 2, 0)),
    # Requests 1 to 7 of GitHub Copilot CLI, the same calls.
    "genai/1.0.20": ("a7027ecb-0693-441d-8604-24456332e180", 7, 28, 2, (6, 4, 2, None)),
    # Requests 1 to 6, the same calls without the edit. The shell that exits with 3 was refused.
    "genai/1.0.49": ("cf9c7f4b-fe8b-40c6-bcc7-2e711d3bd4b5", 6, 21, 2, (4, 3, 1, 1)),
    # Requests 1 to 6, the same calls without the edit.
    "genai/1.0.102": ("e4ce03c3-089a-488d-9386-6c348c045732", 6, 21, 2, (5, 3, 2, None)),
    # Requests 1 to 11, of which a sub-agent 8 and 9. Shell: ok, exit code 3, 1 of a search; three
    # reads, one of no file; an edit; the sub-agent; a rule refused to remove the file.
    "opencode/1.0.152": ("ses_dd8ba8f44ffePn2Kjz1Lxngk0W", 11, 66, 2, (8, 6, 2, 1)),
    # Requests 1 and 3 to 12, the same calls.
    "opencode/1.2.27": ("ses_dd8ba5e02ffe3rjy0i7cMTQ6oA", 11, 76, 2, (8, 6, 2, 1)),
    # Requests 2 to 12.
    "opencode/1.18.33": ("ses_dd8b9e1eeffeh0YtZXGoSfETy3", 11, 77, 2, (8, 6, 2, 1)),
}
CALLS = ("total_tools", "tools_ok", "tools_failed", "tools_denied")
WRITTEN = {"claude_code": 50}
THOUGHTS = {"gemini_cli": 5}
"""Tokens of each request that its model counts apart from the output."""

RATES = {
    "claude_code": (3, 15, 0.3),
    "codex": (1.25, 10, 0.125),
    "gemini_cli": (0.3, 2.5, 0.03),
    "opencode": (1, 2, 0.1),  # by its settings
}
"""Dollars per million tokens: input, output, from the cache."""

STORES = ("opencode/1.0.152", "opencode/1.2.27", "opencode/1.18.33")
"""Captures of a store instead of lines."""

NOT_GROWING = ("gemini_cli/0.20.0", *STORES)

FORKS = {
    "claude_code/2.0.76": ("ea7cf16a-0c49-4984-8abb-a070ab99610c", 26),
    "claude_code/2.1.150": ("7aadf2ba-ea34-4cef-876c-0f4ca5fdc613", 12),
    "claude_code/2.1.332": ("95e1c018-c0d9-42d9-b43f-9f77b8922bdb", 13),
    "codex/0.104.0": ("01a226bf-1ea0-7803-9c43-d190b1f12c9d", 1),
    "codex/0.171.0": ("01a226be-cc10-7692-bc17-969f660a672f", 1),
    "opencode/1.2.27": ("ses_dd8b9ff7fffeWXYiAgpI82mGwJ", 13),
    "opencode/1.18.33": ("ses_dd8b95e85ffeUuWzSyTt3XWNYt", 13),
}
HOMES = {transcript_program.source_cli: transcript_program.home for transcript_program in PROGRAMS}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in PROGRAMS:
        monkeypatch.delenv(program.variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    with open_workplace(tmp_path / "data") as opened:
        yield opened


def put(capture: str) -> Path:
    """Copy a capture into the home folder and return where it is."""
    home = Path(os.environ["HOME"]) / HOMES[capture.partition("/")[0]]
    shutil.copytree(TRANSCRIPTS / capture, home)
    for dump in home.rglob("opencode.db.sql"):
        with closing(sqlite3.connect(dump.with_suffix(""))) as database:
            database.executescript(dump.read_text("utf-8"))
    for dump in home.rglob("storage.jsonl"):
        for line in dump.read_text("utf-8").splitlines():
            file = json.loads(line)
            path = dump.parent / file["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file["text"], "utf-8")
    return home


def read(workplace: Workplace, now: datetime = NOW) -> IngestReport:
    return Ingest(workplace.stores, lambda: now, with_transcripts=True).run()


def session(workplace: Workplace, session_id: str) -> dict[str, Any]:
    workplace.build()
    (row,) = workplace.sessions().filter(session_id=session_id).to_dicts()
    return row


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
    version = capture.partition("/")[2]
    known = {"gemini_cli": (None, None), "opencode": (None, version)}
    assert (row["branch"], row["service_version"]) == known.get(program, ("master", version))


@pytest.mark.parametrize("capture", FORKS)
def test_a_fork_has_only_its_own_requests(workplace: Workplace, capture: str) -> None:
    put(capture)
    read(workplace)
    session_id, number = FORKS[capture]
    row = session(workplace, session_id)
    assert (row["api_requests"], row["input_tokens"], row["prompts"]) == (1, 100 + number, 1)
    assert row["total_tools"] == 0


def facts(workplace: Workplace) -> pl.DataFrame:
    """Return the landed events without what says when and from where they were read."""
    read_from = ("source_file_id", "source_offset")
    return workplace.landed().drop(*read_from).sort("event_id")


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
    named = [each for each in home.rglob("*.jsonl") if SESSIONS[capture][0][:8] in str(each)]
    (path,) = [each for each in named if each.parent.name != "subagents"]
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


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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
"""


def test_empty_values_of_a_database_stop_no_session(workplace: Workplace) -> None:
    path = put("opencode/1.18.33") / "opencode" / "opencode.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(WITHOUT_VALUES)
    assert read(workplace).counts.quarantined == 1  # the message of the empty part
    assert session(workplace, SESSIONS["opencode/1.18.33"][0])["api_requests"] == 11


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


@pytest.mark.parametrize(
    ("remote", "name"),
    [
        ("/home/ada/shop.git", "shop.git"),
        ("file:///home/ada/shop/", "shop/"),
        (r"C:\Users\ada\shop", "shop"),
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
    assert any(b'{"key":"cwd","value":{"stringValue":"/home/ada/shop"}}' in each for each in stored)
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
        each for each in attention(gather(workplace.stores, NOW)) if each.kind == "transcripts"
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
