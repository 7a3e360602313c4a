"""Telemetry of a session with a classification label."""

from evaluation_pipelines_tests.world import claude, line


def work(name: str, second: float, label: str, model: str = "model-a", **attributes: str) -> bytes:
    named = {"session__id": name, "classification__label": label, **attributes}
    return line(
        claude("user_prompt", second, **named),
        claude("tool_result", second + 5, tool_name="Bash", success="true", **named),
        claude("api_request", second + 6, model=model, input_tokens=100, output_tokens=20, **named),
    )
