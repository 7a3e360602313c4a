"""Real agents from npm against a scripted model, straight into the service, to a score."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluation_pipelines_tests.service.live_service import LiveService
from evaluation_pipelines_tests.service.scripted_model import scripted_model

pytestmark = pytest.mark.slow

PACKAGES = (
    "@anthropic-ai/claude-code@2.1.197",
    "@openai/codex@0.169.0",
    "@google/gemini-cli@0.61.0",
)
PROGRAM = Path(sys.executable).parent / "evaluation-pipelines"


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
    return ["claude", "-p", "List the folder.", "--allowedTools", "Bash"], settings


def codex(model: str, receiver: str) -> tuple[list[str], dict[str, str]]:
    provider = (
        f'{{name="scripted",base_url="{model}/v1",env_key="SCRIPTED_KEY",wire_api="responses"}}'
    )
    exporter = f'{{otlp-http={{endpoint="{receiver}/v1/logs",protocol="json"}}}}'
    # A model that it does not know gets plain functions as tools.
    options = ("model=scripted", "model_provider=scripted", f"model_providers.scripted={provider}")
    configured = [f"-c{each}" for each in (*options, f"otel.exporter={exporter}")]
    command = [
        "codex",
        "exec",
        "--skip-git-repo-check",
        _NO_SANDBOX,
        *configured,
        "List the folder.",
    ]
    return command, {"SCRIPTED_KEY": "none"}


def gemini(model: str, receiver: str) -> tuple[list[str], dict[str, str]]:
    settings = {
        "GOOGLE_GEMINI_BASE_URL": model,
        "GEMINI_API_KEY": "none",
        "GEMINI_TELEMETRY_ENABLED": "true",
        "GEMINI_TELEMETRY_TARGET": "local",
        "GEMINI_TELEMETRY_OTLP_PROTOCOL": "http",
        "GEMINI_TELEMETRY_OTLP_ENDPOINT": receiver,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    command = ["gemini", "-m", "gemini-2.5-flash", "-p", "List the folder."]
    return command, settings


@pytest.mark.parametrize("agent", [claude_code, codex, gemini], ids=lambda each: each.__name__)
def test_an_agent_reaches_a_score_without_a_collector(
    agents: Path, tmp_path: Path, agent: Agent
) -> None:
    data, home = tmp_path / "data", tmp_path / "home"
    for folder in (data, home):
        folder.mkdir()
    (home / ".gemini").mkdir()  # by itself it expects a gateway where the models are elsewhere
    (home / ".gemini" / "settings.json").write_text(
        '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'
    )
    service = LiveService(data)
    service.wait()
    with scripted_model() as model:
        (name, *arguments), settings = agent(model, f"http://127.0.0.1:{service.port}")
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
    service.kill()
    assert "Done." in done.stdout, done.stderr

    scored = subprocess.run(
        [PROGRAM, "score", data / "landing" / "received"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    # It called a tool, so that quality, and with it the composite, is a number.
    assert re.search(r"composite: +\d", scored.stdout), scored.stdout
