"""Tool calls of sessions, one row each: what they change, wait for and return."""

import re

import polars as pl

from evaluation_pipelines.schemas import UTC_TIME
from evaluation_pipelines.sessions.domain.tool_reports.parameters import (
    COMMANDS,
    Question,
    question,
    shell_command,
)
from evaluation_pipelines.telemetry.domain.tool_calls import redirects, simple_commands

CHANGING_CLASSES = ("edit", "write")
CHANGING_PROGRAMS = frozenset(
    "rm rmdir mv cp ln mkdir touch chmod chown truncate dd tee patch install rsync unzip tar"
    " kill pkill killall apply_patch".split()
)
CHANGING_VERBS = {
    "git": frozenset(
        "add am apply checkout cherry-pick clean clone commit init merge mv pull push rebase reset"
        " restore revert rm stash submodule switch tag worktree".split()
    ),
    **dict.fromkeys(
        "npm pnpm yarn bun pip pip3 uv poetry conda cargo go gem bundle composer apt apt-get brew"
        " dnf yum".split(),
        frozenset("install i ci add remove uninstall update upgrade sync get fix".split()),
    ),
    **dict.fromkeys(
        ("docker", "podman", "kubectl", "helm", "systemctl", "service", "terraform"),
        frozenset(
            "apply build create delete destroy down edit exec install kill patch restart rm"
            " rollout run scale start stop up upgrade".split()
        ),
    ),
}
"""Program -> words that make it change something as its first or second argument."""
CHANGING_NAMES = frozenset(
    "add append apply assign cancel clear click close commit create delete drag edit execute fill"
    " goto insert merge move navigate patch post press publish push put remove rename replace reset"
    " run save scroll select send set start stop submit type update upload write".split()
)
"""Words in the names of MCP tools that change something."""

_WRAPPERS = frozenset("sudo env time nohup timeout nice xargs exec command".split())
_EDITORS = ("sed", "perl")
_HINTS = frozenset((*CHANGING_PROGRAMS, *CHANGING_VERBS, *_EDITORS))
_TOKEN = re.compile(r"[\w.-]+")
_IN_PLACE = re.compile(r"--in-place|-[a-zA-Z]*i")
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def changes_something(tool_class: str, tool: str, parameters: str | None) -> bool:
    """Return whether a call changes something if it succeeds.

    Args:
        tool_class: Class of the tool, as in ``agent_events``.
        tool: Name of the tool.
        parameters: JSON text as logged of a call with a shell command, which can begin as if it
            only read something; without it, a shell call is taken to change nothing.
    """
    if tool_class == "mcp":
        return not CHANGING_NAMES.isdisjoint(name_words(tool))
    if tool_class in CHANGING_CLASSES or parameters is None:
        return tool_class in CHANGING_CLASSES
    command = shell_command(parameters)
    if ">" not in command and _HINTS.isdisjoint(_TOKEN.findall(command)):
        return False  # fast path for most commands: no word in it can change something
    return redirects(command) or any(map(_changes, simple_commands(command)))


def name_words(tool: str) -> set[str]:
    """Return the words of the name of a tool, without that of its server."""
    return {word.lower() for word in _NAME_WORD.findall(tool.rpartition("__")[2])}


def _changes(words: list[str]) -> bool:
    while words and (words[0] in _WRAPPERS or words[0][:1] in "-0123456789"):
        words = words[1:]
    if not words:
        return False
    program = words[0].rpartition("/")[2]
    options = [word for word in words[1:] if word.startswith("-")]
    if program in _EDITORS:
        return any(_IN_PLACE.match(option) for option in options)
    verbs = [word for word in words[1:] if word not in options][:2]
    return program in CHANGING_PROGRAMS or any(
        verb in CHANGING_VERBS.get(program, ()) for verb in verbs
    )


POLLING_NAMES = frozenset(
    "build builds check checks deployment deployments health job jobs log logs output pipeline"
    " poll progress ready status stdin wait workflow".split()
)
"""Words in the names of tools that ask for something that goes on."""
POLLING_PROGRAMS = frozenset(
    "date df free journalctl jobs lsof netstat nvidia-smi pgrep ps sleep ss top uptime wait"
    " watch".split()
)
POLLING_VERBS = {
    "kubectl": frozenset("describe get logs rollout top wait".split()),
    **dict.fromkeys(("docker", "podman"), frozenset("inspect logs ps stats".split())),
    "gh": frozenset("checks run status workflow".split()),
    "systemctl": frozenset("is-active status".split()),
}
"""Program -> words that make it ask for something that goes on."""

_GOING_ON = re.compile(
    r"\.log\b|\b(?:curl|wget|https?)\b.*\b(?:status|health|healthz|ready|readyz|livez|ping|progress"
    r"|jobs?|runs?|builds?)\b"
)
"""A log, or an address that shows the state of something."""


def polls(tool: str, parameters: str | None) -> bool:
    """Return whether the answer to a call can be another one although nothing was changed.

    Args:
        tool: Name of the tool.
        parameters: JSON text as logged of a call with a shell command.
    """
    if not POLLING_NAMES.isdisjoint(name_words(tool)):
        return True
    command = "" if parameters is None else shell_command(parameters)
    return bool(_GOING_ON.search(command)) or any(map(_polls, simple_commands(command)))


def _polls(words: list[str]) -> bool:
    program = words[0].rpartition("/")[2]
    return program in POLLING_PROGRAMS or not POLLING_VERBS.get(program, frozenset()).isdisjoint(
        words[1:]
    )


TOOL_CALLS = pl.Schema(
    {
        "session_no": pl.Int64(),
        "window_no": pl.Int64(),  # of CALL_WINDOWS
        "position": pl.Int64(),  # order in the session
        "kind": pl.String(),  # call, prompt, reply or outcome
        "outcome": pl.String(),  # of a call: ok, failed, denied or unknown
        "event_time": UTC_TIME,
        "prompt": pl.String(),  # the same for everything that belongs to one prompt
        "tool": pl.String(),  # of an outcome: name of its event
        "tool_class": pl.String(),
        "duration_ms": pl.Float64(),
        "parameters": pl.String(),  # JSON text, null when not logged
        "attributes": pl.String(),  # of an outcome: JSON text
        "reference": pl.String(),  # id of a commit, or of an outcome's event
        "said": pl.String(),  # text of a result, prompt or reply
        "error": pl.String(),  # beginning of the result of a failed call
        "has_content": pl.Boolean(),  # a result was logged, not only an error
        "hides_replies": pl.Boolean(),  # the model replied in the session but no text is logged
        "returned_bytes": pl.Int64(),  # size of the result; null if unknown
    }
)
"""Columns of ``sql/duckdb/tool_calls.sql``: one row per tool call, prompt, reply or outcome."""

_COMMAND_NAME = rf'"(?:{"|".join(COMMANDS)})"\s*:'
WINDOW_KEY = ("organization_id", "session_date", "session_key")
"""Columns that identify a session window and its partition."""

CALL_WINDOWS = pl.Schema(
    {
        "window_no": pl.Int64(),
        "organization_id": pl.String(),
        "session_date": pl.Date(),
        "session_key": pl.String(),
        "session_id": pl.String(),
    }
)
"""Columns of ``sql/duckdb/call_windows.sql``: one row per session window."""


def numbered_calls(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[int, Question]]:
    """Number the calls with a known outcome or a logged result in the order of their results.

    Args:
        rows: ``TOOL_CALLS``.

    Returns:
        The calls that returned, and the question of each key. Added columns:

        * ``call``: number of the call in its window, from 1
        * ``key``: number of the question that the parameters ask, of any tool; null if parameters
          were not logged
        * ``changes``: whether the call changes something if it succeeds
        * ``polls``: whether the answer can be another one although nothing was changed
        * ``segment``: number of earlier calls of the window that changed something
        * ``segment_after``: the same, including this call
    """
    keys, questions = _keys(rows["parameters"].drop_nulls().unique(maintain_order=True))
    ordered = (
        rows.filter(kind="call")
        .drop("kind")
        .sort("window_no", "position")
        .join(keys, on="parameters", how="left", maintain_order="left")
    )
    # Messages of the GenAI conventions do not say whether a call succeeded that gave a result back.
    returned = (pl.col("outcome") == "unknown") & pl.col("has_content")
    # A call with an unknown outcome may have changed something.
    may_be_done = pl.col("outcome").is_in(("ok", "unknown"))
    counted = (
        _with_effects(ordered)
        .with_columns(changed=(may_be_done & pl.col("changes")).cast(pl.Int64))
        .with_columns(segment_after=pl.col("changed").cum_sum().over("window_no"))
        .with_columns(segment=pl.col("segment_after") - pl.col("changed"))
        .drop("changed")
        .filter(pl.col("outcome").is_in(("ok", "failed")) | returned)
        .with_columns(call=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("window_no"))
    )
    return counted, questions


def _with_effects(calls: pl.DataFrame) -> pl.DataFrame:
    """Add ``changes`` and ``polls``."""
    # Of a class other than shell, a call with a command begins with a program that only reads.
    is_command = pl.col("parameters").str.contains(_COMMAND_NAME)
    has_command = (pl.col("tool_class") == "shell") | is_command
    command = pl.when(has_command).then("parameters").alias("command")
    kinds = calls.select("tool_class", "tool", command).unique(maintain_order=True)
    effects = [(changes_something(*kind), polls(*kind[1:])) for kind in kinds.iter_rows()]
    schema = {"changes": pl.Boolean, "polls": pl.Boolean}
    return (
        calls.with_columns(command)
        .join(
            kinds.hstack(pl.DataFrame(effects, schema=schema, orient="row")),
            on=["tool_class", "tool", "command"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        .drop("command")
    )


def _keys(texts: pl.Series) -> tuple[pl.DataFrame, dict[int, Question]]:
    """Return ``key`` of each logged text, the same for equal questions, and their questions."""
    numbers: dict[Question, int] = {}
    keys: list[int | None] = []
    for text in texts:
        asked = question(text)
        keys.append(None if asked is None else numbers.setdefault(asked, len(numbers)))
    columns = {"parameters": pl.String(), "key": pl.Int64()}
    keys_of_texts = pl.DataFrame({"parameters": texts, "key": keys}, schema=columns)
    return keys_of_texts, dict(zip(numbers.values(), numbers, strict=True))
