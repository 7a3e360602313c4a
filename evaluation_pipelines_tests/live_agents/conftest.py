"""Where the real agents are installed."""

import sys
from pathlib import Path

import pytest

_INSTALLED = Path(sys.executable).parents[1] / "agents"


@pytest.fixture(scope="module")
def agents() -> Path:
    """The folder with the environments of Python and Node."""
    if not (_INSTALLED / "installed").exists():
        pytest.skip(f"no agents in {_INSTALLED}: `make test-all` installs them (needs npm)")
    return _INSTALLED
