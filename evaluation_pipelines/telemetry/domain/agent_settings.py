"""Settings with which each agent program sends its telemetry to a receiver."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_HOME = "of each user, or the variables by the device management"


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where telemetry goes, and what is sent.

    Attributes:
        endpoint: Base URL, without ``/v1/logs``.
        key: Key of the service; ``None`` if it needs none.
        texts: Whether prompts and parameters of tool calls are sent, too.
        attributes: Attributes of every record, such as ``team.id``.
    """

    endpoint: str
    key: str | None
    texts: bool
    attributes: Mapping[str, str]

    @property
    def headers(self) -> str | None:
        """Value of OTEL_EXPORTER_OTLP_HEADERS."""
        return None if self.key is None else f"Authorization=Bearer {self.key}"

    @property
    def resource(self) -> str | None:
        """Value of OTEL_RESOURCE_ATTRIBUTES."""
        pairs = (f"{name}={_encoded(value)}" for name, value in self.attributes.items())
        return ",".join(pairs) or None


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file of settings: its name, its text, and where it belongs."""

    name: str
    text: str
    where: str


def slash_command(landing: str | None) -> SettingsFile:
    """Return the command ``/performance`` of Claude Code, which scores sessions.

    Args:
        landing: Folder of telemetry as a word of a shell; ``None`` if users have to name a file.
    """
    files, hint = (f"{landing} ", "") if landing else ("", "FILE ")
    text = f"""---
description: Score how well the agent worked in the newest session with a masque
argument-hint: "{hint}[--session KEY | --all]"
allowed-tools: Bash(evaluation-pipelines score:*)
---

!`evaluation-pipelines score {files}$ARGUMENTS`

Show this output as it is. Then name the lowest dimension and what would raise it, in two sentences.
"""
    where = ".claude/commands/ of a project or of each user; evaluation-pipelines has to be on PATH"
    return SettingsFile("performance.md", text, where)


def agent_settings(program: str, receiver: Receiver) -> list[SettingsFile]:
    """Return the files of settings of a program, one of PROGRAMS."""
    return _FILES[program](receiver)


def _claude_code(receiver: Receiver) -> list[SettingsFile]:
    env = {
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": receiver.headers,
        "OTEL_LOG_USER_PROMPTS": "1" if receiver.texts else None,
        "OTEL_LOG_TOOL_DETAILS": "1" if receiver.texts else None,
        "OTEL_RESOURCE_ATTRIBUTES": receiver.resource,
    }
    where = (
        "Linux: /etc/claude-code/managed-settings.json, macOS: /Library/Application "
        "Support/ClaudeCode/managed-settings.json; users cannot change what it sets"
    )
    return [SettingsFile("managed-settings.json", _json({"env": _given(env)}), where)]


def _codex(receiver: Receiver) -> list[SettingsFile]:
    lines = [
        "[otel]",
        f"log_user_prompt = {str(receiver.texts).lower()}",
        f"log_agent_responses = {str(receiver.texts).lower()}",
        "",
        '[otel.exporter."otlp-http"]',
        f"endpoint = {_toml(f'{receiver.endpoint}/v1/logs')}",
        'protocol = "json"',
    ]
    if receiver.key is not None:
        lines += ["", '[otel.exporter."otlp-http".headers]']
        lines += [f"Authorization = {_toml(f'Bearer {receiver.key}')}"]
    where = "/etc/codex/config.toml, or ~/.codex/config.toml of each user; not of a project"
    settings = SettingsFile("config.toml", "\n".join(lines) + "\n", where)
    env = _given({"OTEL_RESOURCE_ATTRIBUTES": receiver.resource})
    return [settings, *([_env(env, f"~/.codex/.env {_HOME}")] if env else [])]


def _gemini_cli(receiver: Receiver) -> list[SettingsFile]:
    return _like_gemini(receiver, "/etc/gemini-cli/settings.json", "~/.gemini")


def _qwen_code(receiver: Receiver) -> list[SettingsFile]:
    return _like_gemini(receiver, "/etc/qwen-code/settings.json", "~/.qwen")


def _like_gemini(receiver: Receiver, system: str, home: str) -> list[SettingsFile]:
    telemetry = {
        "enabled": True,
        "target": "local",
        "otlpEndpoint": receiver.endpoint,
        "otlpProtocol": "http",
        "logPrompts": receiver.texts,
    }
    settings = SettingsFile(
        "settings.json", _json({"telemetry": telemetry}), f"{system}, or {home}/settings.json"
    )
    env = _standard(receiver)
    return [settings, *([_env(env, f"{home}/.env {_HOME}")] if env else [])]


def _opencode(receiver: Receiver) -> list[SettingsFile]:
    plugin = {
        "$schema": "https://opencode.ai/config.json",
        "plugin": ["@devtheops/opencode-plugin-otel"],
    }
    env = {
        "OPENCODE_ENABLE_TELEMETRY": "1",
        "OPENCODE_OTLP_PROTOCOL": "http/json",
        "OPENCODE_OTLP_ENDPOINT": receiver.endpoint,
        "OPENCODE_OTLP_HEADERS": receiver.headers,
        "OPENCODE_RESOURCE_ATTRIBUTES": receiver.resource,
    }
    return [
        SettingsFile("opencode.json", _json(plugin), "~/.config/opencode/opencode.json"),
        _env(_given(env), "the environment of each user, by profile or device management"),
    ]


def _copilot(receiver: Receiver) -> list[SettingsFile]:
    env = {
        "COPILOT_OTEL_ENABLED": "true",
        "COPILOT_OTEL_PROTOCOL": "http",
        "COPILOT_OTEL_ENDPOINT": receiver.endpoint,
        "COPILOT_OTEL_CAPTURE_CONTENT": str(receiver.texts).lower(),
    }
    where = "the environment in which VS Code starts"
    return [_env({**env, **_standard(receiver)}, where)]


def _cline(receiver: Receiver) -> list[SettingsFile]:
    env = {
        "CLINE_OTEL_TELEMETRY_ENABLED": "true",
        "CLINE_OTEL_LOGS_EXPORTER": "otlp",
        "CLINE_OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
        "CLINE_OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "CLINE_OTEL_EXPORTER_OTLP_HEADERS": receiver.headers,
    }
    where = "the environment in which VS Code or JetBrains starts; Cline sends no attributes"
    return [_env(_given(env), where)]


_FILES: dict[str, Callable[[Receiver], list[SettingsFile]]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "gemini-cli": _gemini_cli,
    "qwen-code": _qwen_code,
    "opencode": _opencode,
    "copilot": _copilot,
    "cline": _cline,
}
PROGRAMS = tuple(_FILES)
"""Agent programs whose settings are known."""


def _standard(receiver: Receiver) -> dict[str, str]:
    """Return the variables that every OpenTelemetry SDK reads."""
    return _given(
        {
            "OTEL_EXPORTER_OTLP_HEADERS": receiver.headers,
            "OTEL_RESOURCE_ATTRIBUTES": receiver.resource,
        }
    )


def _given(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _env(values: Mapping[str, str], where: str) -> SettingsFile:
    lines = [f'{name}="{value}"\n' for name, value in values.items()]
    return SettingsFile(".env", "".join(lines), where)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"


def _toml(value: str) -> str:
    return json.dumps(value)  # a basic string of TOML has the escapes of JSON


def _encoded(value: str) -> str:
    """Percent-encode what a value of OTEL_RESOURCE_ATTRIBUTES cannot have."""
    allowed = "-._~/:@+"
    return "".join(
        each if each.isascii() and (each.isalnum() or each in allowed) else _percent(each)
        for each in value
    )


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
