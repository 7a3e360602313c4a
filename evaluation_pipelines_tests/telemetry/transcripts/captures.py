"""Genuine sessions of agents as transcripts, and what their models saw."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from evaluation_pipelines.telemetry.domain.dialects.registry import TRANSCRIPT_READERS
from evaluation_pipelines.telemetry.ingest import Ingest, IngestReport
from evaluation_pipelines_tests.workplace import NOW, Workplace

TRANSCRIPTS = Path(__file__).parents[2] / "data" / "transcripts"

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
HOMES = {reader.source_cli: reader.home for reader in TRANSCRIPT_READERS}
UNKNOWN = {reader.source_cli: reader.unknown for reader in TRANSCRIPT_READERS}


def put(capture: str) -> Path:
    """Copy a capture into the home folder and return where it is."""
    home = Path(os.environ["HOME"]) / HOMES[capture.partition("/")[0]]
    shutil.copytree(TRANSCRIPTS / capture, home, dirs_exist_ok=True)
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


def facts(workplace: Workplace) -> pl.DataFrame:
    """Return the landed events without what says when and from where they were read."""
    read_from = ("source_file_id", "source_offset")
    return workplace.landed().drop(*read_from).sort("event_id")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
