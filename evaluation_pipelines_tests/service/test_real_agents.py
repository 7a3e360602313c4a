"""Real agents from npm against a scripted model, straight into the service, to a score."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from evaluation_pipelines_tests.program import SCRIPT
from evaluation_pipelines_tests.service.answers import path_of
from evaluation_pipelines_tests.service.live_service import LiveService
from evaluation_pipelines_tests.service.scripted_model import (
    TOKENS,
    ScriptedModel,
    scripted_model,
)

pytestmark = pytest.mark.slow

PACKAGES = (
    "@anthropic-ai/claude-code@2.1.197",
    "@openai/codex@0.169.0",
    "@google/gemini-cli@0.61.0",
)
MODELS = {
    "claude_code": "claude-sonnet-4-5",
    "codex": "scripted",
    "gemini_cli": "gemini-2.5-flash",
}
"""The model of each program: what it asks for, and what answers it."""

_NO_SANDBOX = "--dangerously-bypass-approvals-and-sandbox"  # there may be none in a container

Agent = Callable[[str, str], tuple[list[str], dict[str, str]]]
"""Addresses of model and receiver -> command line and environment of an agent."""


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the programs; EVAL_TEST_AGENTS names one that has them already."""
    if given := os.environ.get("EVAL_TEST_AGENTS"):
        return Path(given)
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed (Debian: apt-get install npm)")
    folder = tmp_path_factory.mktemp("agents")
    command = ["npm", "install", "--no-audit", "--no-fund", *PACKAGES]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the agents cannot be installed from npm: {done.stderr[-300:]}")
    return folder / "node_modules" / ".bin"


def claude_code(model: str, receiver: str) -> tuple[list[str], dict[str, str]]:
    settings = {
        "ANTHROPIC_BASE_URL": model,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver,
    }
    options = ["--model", MODELS["claude_code"], "--output-format", "json"]
    return ["claude", "-p", "List the folder.", "--allowedTools", "Bash", *options], settings


def codex(model: str, receiver: str) -> tuple[list[str], dict[str, str]]:
    provider = (
        f'{{name="scripted",base_url="{model}/v1",env_key="SCRIPTED_KEY",wire_api="responses"}}'
    )
    exporter = f'{{otlp-http={{endpoint="{receiver}/v1/logs",protocol="json"}}}}'
    # A model that it does not know gets plain functions as tools.
    options = ("model=scripted", "model_provider=scripted", f"model_providers.scripted={provider}")
    configured = [f"-c{option}" for option in (*options, f"otel.exporter={exporter}")]
    command = [
        "codex",
        "exec",
        "--json",
        "--skip-git-repo-check",
        _NO_SANDBOX,
        *configured,
        "List the folder.",
    ]
    return command, {"SCRIPTED_KEY": "none"}


def gemini_cli(model: str, receiver: str) -> tuple[list[str], dict[str, str]]:
    settings = {
        "GOOGLE_GEMINI_BASE_URL": model,
        "GEMINI_API_KEY": "none",
        "GEMINI_TELEMETRY_ENABLED": "true",
        "GEMINI_TELEMETRY_TARGET": "local",
        "GEMINI_TELEMETRY_OTLP_PROTOCOL": "http",
        "GEMINI_TELEMETRY_OTLP_ENDPOINT": receiver,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    options = ["-m", MODELS["gemini_cli"], "-o", "json"]
    return ["gemini", *options, "-p", "List the folder."], settings


def run(agent: Agent, agents: Path, home: Path, model: ScriptedModel, receiver: str) -> str:
    """Let an agent list its folder; return the id of its session as it tells it."""
    settings_of_gemini = home / ".gemini" / "settings.json"
    if not settings_of_gemini.exists():
        settings_of_gemini.parent.mkdir(parents=True)
        # By itself it expects a gateway where the models are elsewhere.
        settings_of_gemini.write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    (name, *arguments), settings = agent(model.url, receiver)
    done = subprocess.run(
        [agents / name, *arguments],
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home), **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Done." in done.stdout, done.stderr
    told = re.search(r'"(?:session|thread)_id": ?"([\w-]+)"', done.stdout)
    assert told, done.stdout
    return told[1]


def built(service: LiveService, data: Path, path: str) -> Any:
    """Ingest and build what has arrived; return the answer to a request for ``path``."""
    for command in ("ingest", "build"):
        environment = {**os.environ, "EVAL_DATA_DIR": str(data)}
        subprocess.run([SCRIPT, command], cwd=data, env=environment, check=True)
    answer = httpx.get(f"http://127.0.0.1:{service.port}/api/v1/{path}", timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


HOMES = {"claude_code": ".claude", "codex": ".codex", "gemini_cli": ".gemini"}
"""Folder of the settings of each program in the home of its user."""

NAMES = {"managed-settings.json": "settings.json"}
"""Files with the same content, which users may have, of those that administrators roll out."""


def program(data: Path, *arguments: str) -> str:
    """Run the program on a data folder; return what it printed."""
    environment = {**os.environ, "EVAL_DATA_DIR": str(data)}
    command = [str(SCRIPT), *arguments]
    ran = subprocess.run(command, cwd=data, env=environment, check=True, capture_output=True)
    return ran.stdout.decode()


def roll_out(data: Path, name: str, receiver: str, key: str, home: Path) -> None:
    """Put what ``agent-config`` writes into the home of a user."""
    printed = data / "printed"
    asked = ("--endpoint", receiver, "--key", key, "--attribute", "team.id=platform", "--texts")
    program(data, "agent-config", name.replace("_", "-"), *asked, "--output", str(printed))
    folder = home / HOMES[name]
    folder.mkdir(parents=True, exist_ok=True)
    for path in printed.iterdir():
        text = path.read_text()
        if name == "gemini_cli" and path.suffix == ".json":
            settings = json.loads(text)
            settings["security"] = {"auth": {"selectedType": "gemini-api-key"}}
            text = json.dumps(settings)
        (folder / NAMES.get(path.name, path.name)).write_text(text)


def without_telemetry(agent: Agent) -> Agent:
    """Return the agent with none of its settings of telemetry."""

    def bare(model: str, receiver: str) -> tuple[list[str], dict[str, str]]:
        command, settings = agent(model, receiver)
        kept = {n: v for n, v in settings.items() if "OTEL" not in n and "TELEMETRY" not in n}
        return [word for word in command if not word.startswith("-cotel.")], kept

    return bare


@pytest.mark.parametrize(
    "agent", [claude_code, codex, gemini_cli], ids=lambda function: function.__name__
)
def test_an_agent_sends_with_the_settings_that_are_printed_and_a_key(
    agents: Path, tmp_path: Path, agent: Agent
) -> None:
    name, data, home = agent.__name__, tmp_path / "data", tmp_path / "home"
    data.mkdir()
    key = program(data, "keys", "create", "laptops", "--role", "ingest", "--organization", "acme")
    service = LiveService(data)
    service.wait()
    receiver = f"http://127.0.0.1:{service.port}"
    roll_out(data, name, receiver, key.strip(), home)
    with scripted_model() as model:
        session = run(without_telemetry(agent), agents, home, model, receiver)
    service.kill()
    for command in ("ingest", "build"):
        program(data, command)
    (row,) = json.loads(program(data, "sessions", "--format", "json"))["items"]
    assert (row["session_id"], row["source_cli"]) == (session, name)
    assert (row["organization_id"], row["total_tools"]) == ("acme", 1)
    assert row["content_level"] != "none"
    assert row["team_id"] == "platform"


@pytest.mark.parametrize(
    "agent", [claude_code, codex, gemini_cli], ids=lambda function: function.__name__
)
def test_an_agent_reaches_a_score_without_a_collector(
    agents: Path, tmp_path: Path, agent: Agent
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    service = LiveService(data)
    service.wait()
    with scripted_model() as model:
        session = run(agent, agents, tmp_path / "home", model, f"http://127.0.0.1:{service.port}")
    (tool,) = [answer for answer in model.answers if answer is not None]

    rows = built(service, data, "sessions")["sessions"]
    report = built(service, data, f"tools/{path_of(f'{session}#baseline-1')}")
    service.kill()
    (row,) = rows
    assert (row["session_id"], row["source_cli"]) == (session, agent.__name__)
    assert row["models"] == [MODELS[agent.__name__]]
    assert row["api_requests"] == len(model.answers)
    assert row["total_tokens"] == TOKENS * len(model.answers)
    assert [(tool["tool"], tool["calls"]) for tool in report["by_tool"]] == [(tool, 1)]
    assert (row["tools_ok"], row["tools_failed"], row["quality"]) == (1, 0, 10)
    assert row["composite"] is not None
