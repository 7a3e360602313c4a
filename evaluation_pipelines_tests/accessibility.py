"""The checks of axe-core, which npm fetches: obstacles for people who cannot see."""

import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest


def axe_script(folder: Path) -> str:
    """Return the script of axe-core; skip the test where it cannot be fetched."""
    command = ["npm", "pack", "axe-core@4", "--silent"]
    packed = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
    if packed.returncode:
        pytest.skip("axe-core cannot be fetched: npm is missing, or does not reach its registry")
    with tarfile.open(folder / packed.stdout.strip().splitlines()[-1]) as archive:
        found = archive.extractfile("package/axe.min.js")
        assert found
        return found.read().decode()


def serious_obstacles(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return rule and first element of each serious violation in the result of ``axe.run()``."""
    return [
        (violation["id"], violation["nodes"][0]["html"])
        for violation in result["violations"]
        if violation["impact"] in {"serious", "critical"}
    ]
