"""Type of settings that are a folder or a file of this machine."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def _local_path(path: Path) -> Path:
    if _URL.match(str(path)):
        message = f"{path} is a URL; it must be a path of this machine"
        raise ValueError(message)
    # No shell expands "~" in .env: it would become a folder of that name.
    return path.expanduser()


LocalPath = Annotated[Path, AfterValidator(_local_path)]
"""Path of this machine with ``~`` expanded; a URL such as ``s3://bucket`` is refused."""
