"""The terminal program as a user runs it: arguments in; exit code, output and errors out."""

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.cli.program import main

SCRIPT = Path(sys.executable).parent / "evaluation-pipelines"


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run ended and what it printed."""

    code: int
    out: str
    err: str

    def items(self) -> list[dict[str, Any]]:
        """The list of a JSON document."""
        found: list[dict[str, Any]] = json.loads(self.out)["items"]
        return found

    def table(self) -> list[list[str]]:
        """Cells of a table's rows, from the line under its heading to the next empty line."""
        _, _, rows = self.out.partition("─\n")
        return [line.split() for line in rows.partition("\n\n")[0].splitlines()]


class Program:
    """Runs the program in this process, in an empty folder, with no settings but its data folder.

    The folder of the data is ``data`` there.
    """

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.chdir(folder)
        for variable in [
            name for name in os.environ if name.upper().startswith(("EVAL_", "OPENAI_"))
        ]:
            monkeypatch.delenv(variable)

    def set(self, variable: str, value: str | None) -> None:
        """Set an environment variable for the rest of the test; ``None`` takes it away."""
        if value is None:
            self._monkeypatch.delenv(variable, raising=False)
        else:
            self._monkeypatch.setenv(variable, value)

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Ran:
        """Run it once."""
        self._monkeypatch.setattr(sys, "argv", ["evaluation-pipelines", *arguments])
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 0
        return Ran(code, *self._capsys.readouterr())

    def land(self, name: str, content: bytes, mode: str = "wb") -> Path:
        """Write (or append to) a file of the landing folder."""
        path = self.folder / "data" / "landing" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode) as handle:
            handle.write(content)
        return path

    def process(self, *arguments: str, stdin: bytes = b"", **environment: str) -> Ran:
        """Run it in a process of its own, its output piped."""
        ran = subprocess.run(
            [str(SCRIPT), *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            cwd=self.folder,
            env={**os.environ, **environment},
            timeout=60,
        )
        return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())
