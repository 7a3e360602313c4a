"""Write what is known of agent programs and libraries into ``docs/telemetry.md``.

Run it with ``python -m evaluation_pipelines_tests.docs.agents``.
"""

from collections.abc import Callable, Iterable, Sequence

from evaluation_pipelines.telemetry.domain.dialects.program import AgentProgram
from evaluation_pipelines.telemetry.domain.dialects.registry import LIBRARIES, PROGRAMS
from evaluation_pipelines_tests.docs.documents import FOLDER

PAGE = FOLDER / "telemetry.md"

SENT = {
    "user_prompt.content": "prompts",
    "assistant_response.content": "replies",
    "api_request.content": "replies on the API call",
    "tool_result.tool_parameters": "tool call parameters",
    "tool_result.content": "tool call outputs",
    "tool_result.exit_code": "exit codes",
    "tool_result.error_type": "tool call error class",
    "tool_result.duration_ms": "tool call duration",
    "tool_result.tool_use_id": "tool call ids",
    "tool_decision.decision": "who allowed or refused a call",
    "api_request.reasoning_tokens": "thought tokens",
    "api_request.cost_usd": "cost",
    "api_request.duration_ms": "API call duration",
    "api_request.ttft_ms": "time to the first token",
    "api_request.request_id": "API call ids (a resent one counts once)",
    "api_error.error": "failed API calls",
    "user_prompt.sequence": "event numbers (gaps are measured)",
    "api_request.subagent": "subagents",
    "user_prompt.account_id": "anonymous account or machine id",
    "user_prompt.user_email": "user's email",
    "session_end.session_id": "session end",
}
"""``<event>.<column>`` -> its name in the table."""


SENDERS = [program for program in PROGRAMS if program.sends is not None]


def sent_by(program: AgentProgram) -> dict[str, str]:
    """Return ``<event>.<column>`` -> when a program sends it."""
    sends = program.sends or {}
    told = {name: when for when, names in sends.items() for name in names.split()}
    return {name: told.pop(name, "no") for name in SENT} | told


def _table(*rows: Iterable[str]) -> str:
    head, *others = (f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)
    return "\n".join((head, "|---" * (head.count("|") - 1) + "|", *others))


def _transcripts() -> str:
    rows: list[Sequence[str]] = [("agent, versions tested", "files", "unknown without telemetry")]
    for program in PROGRAMS:
        if (kept := program.transcripts) is not None:
            fixed = [pattern.partition("*")[0].rpartition("/")[0] for pattern in kept.patterns]
            outer = [
                path
                for path in dict.fromkeys(fixed)
                if not any(path.startswith(f"{p}/") for p in fixed)
            ]
            folders = [f"`{'/'.join(filter(None, ('~', kept.home, path)))}`" for path in outer]
            places = f"{', '.join(folders)} (`{kept.variable}`)"
            rows.append((f"{program.title} {kept.versions}", places, kept.unknown))
    return _table(*rows)


def _programs() -> str:
    rows = [
        (
            f"{program.title} {program.versions}".strip(),
            f"`{program.logs.source_cli}`",
            program.set_by,
            program.notes,
        )
        for program in PROGRAMS
        if program.logs is not None
    ]
    return _table(("agent, versions", "`source_cli`", "settings", "notes"), *rows)


def _libraries() -> str:
    rows = [
        (
            library.title,
            f"`{name}`",
            _session(library.session, has_session=library.has_session),
            library.unknown,
        )
        for name, library in LIBRARIES.items()
    ]
    return _table(("library", "`agent-config`", "session", "unknown"), *rows)


def _session(line: str, *, has_session: bool) -> str:
    if not line:
        return "none: each run is a session"
    return line if has_session else f"`{line}`"


def _sent() -> str:
    sent = [sent_by(program) for program in SENDERS]
    rows = [
        (what, f"`{column}`", *(told[column] for told in sent)) for column, what in SENT.items()
    ]
    return _table(("what", "column", *(program.title for program in SENDERS)), *rows)


TABLES: dict[str, Callable[[], str]] = {
    "transcripts": _transcripts,
    "programs": _programs,
    "libraries": _libraries,
    "sent": _sent,
}
"""Comment before a table -> the table."""


def with_tables(page: str) -> str:
    """Return the page with the tables of today."""
    for name, table in TABLES.items():
        start, mark, rest = page.partition(f"<!-- {name} -->\n")
        _, blank, end = rest.partition("\n\n")
        page = f"{start}{mark}{table()}{blank}{end}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text("utf-8")), "utf-8")
