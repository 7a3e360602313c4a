"""What the agents of the demo do: tool calls with their parameters, and the texts around them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from evaluation_pipelines_tests.telemetry_generator.otlp import escaped, text
from evaluation_pipelines_tests.telemetry_generator.team import Masque

FILES = (
    "shop/src/cart.py",
    "shop/src/checkout.py",
    "shop/src/discounts.py",
    "shop/src/invoices.py",
    "shop/src/search_index.py",
    "shop/src/sessions.py",
    "shop/src/shipping.py",
    "shop/src/stock.py",
    "beacon/src/alerts.ts",
    "beacon/src/charts.ts",
    "beacon/src/routes.ts",
    "beacon/src/store.ts",
)

PROMPTS = tuple(
    escaped(prompt)
    for prompt in (
        "The total of the cart is one cent off for three items. Please fix the rounding.",
        "Add a test for an empty cart.",
        "Why does checkout call the stock service twice?",
        "Move the discount rules into a module of their own, without changing what they do.",
        "The nightly run fails with a connection reset. Find out why.",
        "Review my last commit and tell me what you would change.",
        "Make the search index ignore accents, so that cafe finds café.",
        "Continue.",
        "No, keep the old signature and add an optional argument.",
        "Write the release notes for this week.",
        "Which of our routes are not covered by any test?",
        "Now run everything again, please.",
    )
)

REPLIES = tuple(
    escaped(reply)
    for reply in (
        "I will look at the file first.",
        "The tests pass now.",
        "The sum was rounded for each item instead of once. I changed that and added a test.",
        "This fails because the path does not exist. I will search for it.",
        "There are two callers. Only one of them needs the lock.",
        "Done. The signature stays as it was, the new argument is optional.",
    )
)

COMMANDS = ("cost", "model", "context", "help")
"""Slash commands of the program itself that do nothing to the session."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that can be made.

    Attributes:
        tool: Name of the tool.
        details: Attributes that are there when details are logged.
        error_details: The same for a call that failed.
        error_type: Class of the error when it fails.
        input_bytes: Size of its parameters.
        shortest_ms: It takes at least so long.
        longest_ms: It takes at most so long.
    """

    tool: str
    details: str
    error_details: str
    error_type: str
    input_bytes: int
    shortest_ms: int
    longest_ms: int


_TIMES_MS = {
    "Read": (3, 40),
    "Grep": (15, 300),
    "Glob": (8, 90),
    "Edit": (12, 120),
    "Write": (10, 80),
    "Bash": (120, 15_000),
    "WebFetch": (700, 6000),
    "WebSearch": (900, 5000),
    "mcp_tool": (150, 2500),
    "Task": (8000, 40_000),
}

_ERRORS = {
    "Read": "File does not exist.",
    "Edit": "String to replace not found in file.",
    # No 1: of a program like grep that would be an answer, not a failure.
    "Bash": "Exit code 2\nAn error occurred, see above.",
    "WebFetch": "Request failed with status code 503",
}


@cache
def calls_of(masque: Masque) -> tuple[Call, ...]:
    """All calls made under a masque, each as often as its share: draw evenly."""
    return tuple(
        call for tool, weight in masque.tools for call in _variants(tool) for _ in range(weight)
    )


@cache
def _variants(tool: str) -> tuple[Call, ...]:
    return tuple(_call(tool, path) for path in FILES)


def _call(tool: str, path: str) -> Call:
    arguments = escaped(_arguments(tool, path))
    details = "".join(f",{detail}" for detail in _details(tool, path))
    error = text("error", escaped(_ERRORS.get(tool, "The call timed out.")))
    return Call(
        tool=tool,
        details=f"{details},{text('tool_input', arguments)}",
        error_details=f"{details},{text('tool_input', arguments)},{error}",
        error_type="ShellError" if tool == "Bash" else "TelemetrySafeError",
        input_bytes=len(arguments),
        shortest_ms=_TIMES_MS[tool][0],
        longest_ms=_TIMES_MS[tool][1],
    )


def _arguments(tool: str, path: str) -> dict[str, str]:
    folder, stem = path.rsplit("/", 1)[0], path.rsplit("/", 1)[1].partition(".")[0]
    full_path = f"/home/dev/{path}"
    match tool:
        case "Read":
            return {"file_path": full_path}
        case "Grep":
            return {"pattern": f"def {stem}", "path": f"/home/dev/{folder}", "output_mode": "lines"}
        case "Glob":
            return {"pattern": f"**/*{stem}*"}
        case "Edit":
            return {
                "file_path": full_path,
                "old_string": f"    return {stem}(items)",
                "new_string": f"    return {stem}(items, rounded=True)",
            }
        case "Write":
            return {"file_path": f"/home/dev/{folder}/new_{stem}.py", "content": "VALUE = 1\n" * 4}
        case "Bash":
            return {"command": _command(path, stem), "description": f"Check {stem}"}
        case "Task":
            return {"description": f"Look into {stem}", "subagent_type": "custom"}
        case _:
            return {"query": f"{stem} best practice", "url": f"https://docs.example/{stem}"}


def _command(path: str, stem: str) -> str:
    programs = ("pytest -q", "git diff --stat", "grep -n total", "make check", "npm test --")
    return f"{programs[len(stem) % len(programs)]} {path}"


def _details(tool: str, path: str) -> Iterator[str]:
    """The digest that some tools send next to the parameters."""
    if tool == "mcp_tool":
        names = {"mcp_server_name": "tracker", "mcp_tool_name": "find_issue"}
        yield text("tool_parameters", escaped(names))
    elif tool == "Bash":
        command = _arguments(tool, path)["command"]
        digest = {"bash_command": command.split()[0], "full_command": command}
        yield text("tool_parameters", escaped(digest))
