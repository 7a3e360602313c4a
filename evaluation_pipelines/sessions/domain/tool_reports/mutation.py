"""Decide whether a tool call changes something, so that an equal call after it is no repeat.

Edits and writes change something. So do shell commands that are known to (files, version control,
installing, containers) or that redirect into a file, and MCP tools whose name says so. The effect
of scripts and test runs is unknown; they are taken to change nothing.
"""

import re
from typing import Any

import msgspec

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
    "add apply append assign cancel close commit create delete edit execute insert merge move patch"
    " post publish push put remove rename replace run save send set submit update upload"
    " write".split()
)
"""Words in the names of MCP tools that change something."""

_COMMANDS = ("command", "cmd", "full_command", "script")
_WRAPPERS = frozenset("sudo env time nohup timeout nice xargs exec command".split())
_EDITORS = ("sed", "perl")
_HINTS = frozenset((*CHANGING_PROGRAMS, *CHANGING_VERBS, *_EDITORS))
_TOKEN = re.compile(r"[\w.-]+")
_IN_PLACE = re.compile(r"--in-place|-[a-zA-Z]*i")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def changes_something(tool_class: str, tool: str, parameters: str | None) -> bool:
    """Return whether a call changes something if it succeeds.

    Args:
        tool_class: Class of the tool, as in ``agent_events``.
        tool: Name of the tool.
        parameters: JSON text as logged; a shell call without it is taken to change nothing.
    """
    if tool_class == "mcp":
        name = tool.rpartition("__")[2]
        return any(word.lower() in CHANGING_NAMES for word in _WORD.findall(name))
    if tool_class != "shell" or parameters is None:
        return tool_class in CHANGING_CLASSES
    command = _command(parameters)
    if ">" not in command and _HINTS.isdisjoint(_TOKEN.findall(command)):
        return False  # fast path for most commands: no word in it can change something
    return redirects(command) or any(map(_changes, simple_commands(command)))


def _command(parameters: str) -> str:
    """Return the shell command in the parameters of a call, or their text without one."""
    try:
        decoded: Any = msgspec.json.decode(parameters)
    except (msgspec.DecodeError, RecursionError):
        return parameters
    if isinstance(decoded, dict):
        decoded = next((decoded[name] for name in _COMMANDS if name in decoded), "")
    if isinstance(decoded, list):  # ["bash", "-lc", "the command"]
        wrapped = "-lc" in decoded or "-c" in decoded
        decoded = decoded[-1] if wrapped else " ".join(map(str, decoded))
    return decoded if isinstance(decoded, str) else ""


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
