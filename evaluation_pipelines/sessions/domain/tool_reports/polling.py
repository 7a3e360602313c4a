"""Decide whether a call polls: the same question again although nothing was changed is no repeat.

Services start, pipelines run, logs grow without a call of the agent.
"""

import re

from evaluation_pipelines.sessions.domain.tool_reports.mutation import words_of_name
from evaluation_pipelines.sessions.domain.tool_reports.parameters import shell_command
from evaluation_pipelines.telemetry.domain.tool_calls import simple_commands

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
"""A log, or an address that tells the state of something."""


def polls(tool: str, parameters: str | None) -> bool:
    """Return whether the answer to a call can be another one although nothing was changed.

    Args:
        tool: Name of the tool.
        parameters: JSON text as logged of a call with a shell command.
    """
    if not POLLING_NAMES.isdisjoint(words_of_name(tool)):
        return True
    command = "" if parameters is None else shell_command(parameters)
    return bool(_GOING_ON.search(command)) or any(map(_polls, simple_commands(command)))


def _polls(words: list[str]) -> bool:
    program = words[0].rpartition("/")[2]
    return program in POLLING_PROGRAMS or not POLLING_VERBS.get(program, frozenset()).isdisjoint(
        words[1:]
    )
