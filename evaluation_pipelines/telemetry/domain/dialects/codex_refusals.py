"""Tool calls that Codex refused to run, told by the text of their result.

The result of a refused call looks like that of a failed one: ``success`` is false, and the output
is a sentence for the model. Commands that ran begin with their exit code or time, so that their own
output cannot imitate these sentences. A sandbox or network rule that stopped a running command is
no refusal, and ``Rejected(...)`` also wraps processes that could not be started.
"""

import re

_BY_RULE = (
    r"approval policy is [^\n]{1,500}?; reject command"
    r"|approval required by policy(?: rule)?, but AskForApproval"
    r"|execpolicy forbids this command\Z"
    r"|`.*?` rejected: "
    r"|This action was rejected due to unacceptable risk\."
    r"|The automatic permission approval review did not finish"
    r"|automatic approval reviewer denied the action"
    r"|automatic approval review (?:failed|could not prepare|is not supported)"
    r"|approval request timed out\Z"
    r"|Guardian denied this request\."
)
_OF_COMMAND = re.compile(
    r"(?:(?:exec command|patch) rejected by user\Z"
    r"|patch rejected: writing .{1,200}; rejected by user approval settings\Z"
    rf"|{_BY_RULE})",
    re.DOTALL,
)
# With the command between backticks since March 2026; it may have lines and backticks of its own.
_WRAPPED = re.compile(
    r"\w+ failed(?: for `.*`)?: CreateProcess \{ message: "
    r'"Rejected\(\\"(?P<reason>(?:[^"\\]|\\.)*)\\"\)" \}\s*\Z',
    re.DOTALL,
)
_NOT_STARTED = re.compile(
    r"Failed to create unified exec process|Unified exec process failed|missing command line"
    r"|command args are empty|\w+ is unavailable in this session|unified_exec zsh-fork|zsh fork"
    r"|Network access "
)
_OF_MCP = re.compile(
    r'(?:Err\("|(?:Wall time: [\d.]+ seconds\nOutput:\n)?\[\{(?:"type":"text",)?"text":")?'
    r"(?:user (?:rejected|cancelled) MCP tool call|MCP tool call blocked by app configuration"
    r"|This action was rejected due to unacceptable risk\."
    r"|The automatic permission approval review did not finish)"
)


def command_was_refused(output: str) -> bool:
    """Return True if this is the output of a refused command or patch."""
    wrapped = _WRAPPED.match(output)
    if wrapped is not None:
        return _NOT_STARTED.match(wrapped["reason"]) is None
    return _OF_COMMAND.match(output) is not None


def mcp_call_was_refused(output: str) -> bool:
    """Return True if this is the output of a refused call of an MCP tool."""
    return _OF_MCP.match(output) is not None
