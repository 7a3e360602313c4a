"""Whether a tool call succeeded, in the one sense that holds for every agent.

A call that came back with an error or a non-zero exit code failed, whatever the program says of
it; only where 1 is an answer of the command ("no match", "they differ") it did what was asked.
"""

from typing import Any

from evaluation_pipelines.domain.telemetry.tool_class import answers_with_exit_code


def settle_outcome(row: dict[str, Any], exit_code: int | None, command: str | None) -> None:
    """Let the exit code of a call decide, and say whose word ``success`` is.

    Args:
        row: Values of ``agent_events`` by column; ``success`` is what the program reported.
            ``success_source``, and where it is shown ``exit_code``, are filled here.
        exit_code: As shown by the record; None where it shows none.
        command: The shell command of the call, where it was logged.
    """
    reported = row.get("success")
    row["success_source"] = None if reported is None else "reported"
    if exit_code is None:
        return
    row["exit_code"] = exit_code
    verdict = reported if exit_code == 0 else exit_code == 1 and answers_with_exit_code(command)
    if verdict != reported:
        row["success"] = verdict
        row["success_source"] = "exit_code"
