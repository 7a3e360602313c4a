"""Words that the project does without, in code, comments, messages and documents.

``python -m evaluation_pipelines_tests.wording`` prints every occurrence and fails if there is one.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
_SUFFIXES = {".py", ".sql", ".md", ".toml", ".yaml", ".html", ".css", ".js"}
_WORDS = re.compile(
    r"\b(nobody|somebody|anybody|besides?|mend(s|ed|ing|able)?|tells? of|told of"
    r"|(?:is|are|was) no more|says else|so many)\b",
    re.IGNORECASE,
)
_LEFT_OUT = ("evaluation_pipelines_tests/wording.py", "evaluation_pipelines/judging/rubrics/")
"""This list, and texts for judges: a changed word there makes older scores obsolete."""


def occurrences() -> list[str]:
    """Return ``path:line: word`` of every occurrence in a tracked or new file."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [
        f"{path}:{number}: {found[0]}"
        for path in sorted(set(listing))
        if (Path(path).suffix in _SUFFIXES or path in ("Makefile", ".ci/run"))
        and not path.startswith(_LEFT_OUT)
        and (ROOT / path).is_file()
        for number, line in enumerate((ROOT / path).read_text("utf-8").splitlines(), 1)
        for found in _WORDS.finditer(line)
    ]


if __name__ == "__main__":
    found = occurrences()
    sys.stdout.writelines(f"{each}\n" for each in found)
    if found:
        sys.exit(f"{len(found)} words to avoid: write what the thing is or does instead")
