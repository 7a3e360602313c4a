"""The workflow of docs/ci, step by step, with Claude Code against the scripted model."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from evaluation_pipelines_tests.docs.documents import ROOT
from evaluation_pipelines_tests.live_agents.scripted_model import open_scripted_model
from evaluation_pipelines_tests.service.live_service import free_port

pytestmark = pytest.mark.slow

CI = ROOT / "docs" / "ci"
NUMBERS = range(2, 8)
"""Places that the six tasks ask for. Every second one is Atlantis, whose file does not exist."""


def git(folder: Path, *arguments: str) -> str:
    author = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    command = ["git", *author, *arguments]
    ran = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Six tasks, and a branch whose rules skip what does not exist."""
    made = tmp_path / "repository"
    tasks = made / "gate" / "tasks"
    tasks.mkdir(parents=True)
    for number in NUMBERS:
        (tasks / f"places-{number}.md").write_text(f"Where are {number} places?\n")
    (made / "gate" / "gate.yaml").write_text("margin: 10\nmetrics: [effective]\n")
    shutil.copy(CI / "run-tasks", made / "gate")
    (made / "oslo.txt").write_text("Norway\n")
    (made / "CLAUDE.md").write_text("Look up each place.\n")
    git(made, "init", "--quiet", "--initial-branch=main")
    git(made, "add", "--all")
    git(made, "commit", "--quiet", "--message=base")
    git(made, "switch", "--quiet", "--create=head")
    (made / "CLAUDE.md").write_text("Skip Atlantis.\n")
    git(made, "commit", "--quiet", "--all", "--message=head")
    git(made, "switch", "--quiet", "main")
    return made


def steps(shas: dict[str, str]) -> tuple[dict[str, str], Iterator[str]]:
    """The environment of the job, and its commands, with one run of each task."""
    job = yaml.safe_load((CI / "gate.yml").read_text("utf-8"))["jobs"]["gate"]

    def filled(text: object) -> str:
        found = re.sub(r"\$\{\{ \S*\.(base|head)\.sha \}\}", lambda of: shas[of[1]], f"{text}")
        return re.sub(r"\$\{\{.*?\}\}", "none", found)

    commands = (filled(step["run"]) for step in job["steps"] if "run" in step)
    return {name: filled(value) for name, value in job["env"].items()}, commands


def test_the_workflow_passes_a_better_head_and_fails_a_worse_one(
    agents: Path, repository: Path, tmp_path: Path
) -> None:
    shas = {name: git(repository, "rev-parse", name) for name in ("main", "head")}
    environment, commands = steps({"base": shas["main"], "head": shas["head"]})
    summary = tmp_path / "summary.md"
    path = [str(Path(sys.executable).parent), str(agents / "node_modules" / ".bin")]
    environment |= {
        "PATH": os.pathsep.join([*path, os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "EVAL_DATA_DIR": str(tmp_path / "data"),
        "GITHUB_STEP_SUMMARY": str(summary),
        "GATE_PORT": str(free_port()),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }

    def run(command: str, **more: str) -> int:
        ran = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", command],
            cwd=repository,
            env={**os.environ, **environment, **more},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode in {0, 1}, ran.stderr
        return ran.returncode

    with open_scripted_model() as url:
        run_tasks, build, gate = commands
        assert run(run_tasks.replace("run-tasks 3", "run-tasks 1"), ANTHROPIC_BASE_URL=url) == 0
    assert run(build) == 0
    assert run(gate) == 0
    assert run(gate, BASE=shas["head"], HEAD=shas["main"]) == 1
    passed, _, worse = summary.read_text("utf-8").partition("## Gate: worse")
    assert passed.startswith("## Gate: passed")
    assert "6 tasks, 6 and 6 runs" in passed
    assert "Look 1 of this gate" in worse
