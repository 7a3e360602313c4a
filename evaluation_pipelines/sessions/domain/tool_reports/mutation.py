"""Decide whether a tool call changes something, so that an equal call after it is no repeat.

Edits and writes change something. So do shell commands that are known to (files, version control,
installing, containers) or that redirect into a file, and MCP tools whose name says so. The effect
of scripts and test runs is unknown; they are taken to change nothing.
"""

import re

from evaluation_pipelines.sessions.domain.tool_reports.parameters import shell_command
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
        return not CHANGING_NAMES.isdisjoint(words_of_name(tool))
    if tool_class in CHANGING_CLASSES or parameters is None:
        return tool_class in CHANGING_CLASSES
    command = shell_command(parameters)
    if ">" not in command and _HINTS.isdisjoint(_TOKEN.findall(command)):
        return False  # fast path for most commands: no word in it can change something
    return redirects(command) or any(map(_changes, simple_commands(command)))


def words_of_name(tool: str) -> set[str]:
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
