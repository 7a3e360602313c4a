"""Settings of each agent program, and nothing that could break out of its file."""

import json
import tomllib

import pytest

from evaluation_pipelines.telemetry.domain.dialects.registry import SETTINGS
from evaluation_pipelines.telemetry.domain.dialects.setup import Receiver

URL = "https://eval.example.com"


def files(program: str, receiver: Receiver) -> dict[str, str]:
    return {file.name: file.text for file in SETTINGS[program](receiver)}


def env(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value.strip('"') for name, _, value in pairs}


FULL = Receiver(URL, "epk_1", texts=True, attributes={"team.id": "a b", "x": 'é,"'})
BARE = Receiver(URL, None, texts=False, attributes={})
RESOURCE = "team.id=a%20b,x=%C3%A9%2C%22"


def test_claude_code_takes_variables_of_managed_settings() -> None:
    (text,) = files("claude-code", FULL).values()
    assert json.loads(text)["env"] == {
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": URL,
        "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer epk_1",
        "OTEL_LOG_USER_PROMPTS": "1",
        "OTEL_LOG_TOOL_DETAILS": "1",
        "OTEL_RESOURCE_ATTRIBUTES": RESOURCE,
    }
    assert len(json.loads(files("claude-code", BARE)["managed-settings.json"])["env"]) == 4


def test_codex_takes_a_table_of_its_own_and_attributes_as_a_variable() -> None:
    assert env(files("codex", FULL)[".env"]) == {"OTEL_RESOURCE_ATTRIBUTES": RESOURCE}
    assert files("codex", BARE).keys() == {"config.toml"}
    otel = tomllib.loads(files("codex", FULL)["config.toml"])["otel"]
    assert (otel["log_user_prompt"], otel["log_agent_responses"]) == (True, True)
    assert otel["exporter"]["otlp-http"] == {
        "endpoint": f"{URL}/v1/logs",
        "protocol": "json",
        "headers": {"Authorization": "Bearer epk_1"},
    }
    bare = tomllib.loads(files("codex", BARE)["config.toml"])["otel"]
    assert (bare["log_user_prompt"], "headers" in bare["exporter"]["otlp-http"]) == (False, False)


@pytest.mark.parametrize("program", ["gemini-cli", "qwen-code"])
def test_gemini_and_qwen_take_settings_and_variables(program: str) -> None:
    found = files(program, FULL)
    telemetry = json.loads(found["settings.json"])["telemetry"]
    assert (telemetry["otlpEndpoint"], telemetry["otlpProtocol"]) == (URL, "http")
    assert telemetry["logPrompts"] is True
    assert env(found[".env"]) == {
        "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer epk_1",
        "OTEL_RESOURCE_ATTRIBUTES": RESOURCE,
    }
    assert files(program, BARE).keys() == {"settings.json"}


def test_cline_takes_variables_of_its_own_and_no_attributes() -> None:
    assert env(files("cline", FULL)[".env"]) == {
        "CLINE_OTEL_TELEMETRY_ENABLED": "true",
        "CLINE_OTEL_LOGS_EXPORTER": "otlp",
        "CLINE_OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
        "CLINE_OTEL_EXPORTER_OTLP_ENDPOINT": URL,
        "CLINE_OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer epk_1",
    }
    assert len(env(files("cline", BARE)[".env"])) == 4


def test_opencode_takes_a_plugin_and_copilot_variables() -> None:
    found = files("opencode", FULL)
    assert json.loads(found["opencode.json"])["plugin"] == ["@devtheops/opencode-plugin-otel"]
    assert env(found[".env"])["OPENCODE_OTLP_HEADERS"] == "Authorization=Bearer epk_1"
    copilot = env(files("copilot", FULL)[".env"])
    assert (copilot["COPILOT_OTEL_ENDPOINT"], copilot["COPILOT_OTEL_CAPTURE_CONTENT"]) == (
        *(URL, "true"),
    )
    assert copilot["OTEL_RESOURCE_ATTRIBUTES"] == RESOURCE


@pytest.mark.parametrize("program", SETTINGS)
def test_every_file_says_where_it_belongs(program: str) -> None:
    assert all(file.where and file.text.endswith("\n") for file in SETTINGS[program](FULL))
