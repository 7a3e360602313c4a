"""Measures of redaction: share of planted secrets caught, and changes to harmless text."""

import re
import sysconfig
from collections import Counter
from functools import cache
from pathlib import Path

from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines_tests.judging.domain.genuine import texts_of
from evaluation_pipelines_tests.judging.domain.secrets_corpus import DATA, GROUPS, Planted, planted
from evaluation_pipelines_tests.telemetry.captures import CLIS

SEED = 2026
EACH = 10
ROOT = Path(__file__).parents[3]

# A remaining part of this length counts as a leak.
_LEAK_LENGTH = 8

_MARK = re.compile(r"\[redacted:[\w-]+\]")

# Files of the standard library that handle passwords, hosts, numbers and encodings.
_LIBRARY = (
    "netrc.py getpass.py imaplib.py http/cookies.py configparser.py uuid.py base64.py tokenize.py"
).split()


def is_caught(case: Planted) -> bool:
    """Return whether no revealing part of the secret remains."""
    left = _MARK.sub("", redact(case.text, personal=()).text)
    around = case.text.replace(case.secret, "")
    length = min(_LEAK_LENGTH, len(case.secret))
    pieces = (case.secret[start : start + length] for start in range(len(case.secret) - length + 1))
    return not any(piece in left and piece not in around for piece in pieces)


@cache
def caught_by_kind() -> dict[str, dict[str, float]]:
    """Return the share of planted secrets caught, by group and kind."""
    caught: Counter[tuple[str, str]] = Counter()
    for case in planted(SEED, EACH):
        caught[case.group, case.kind] += is_caught(case)
    return {
        group: {kind: count / EACH for (of, kind), count in caught.items() if of == group}
        for group in GROUPS
    }


def caught_by_group() -> dict[str, float]:
    """Return the share of secrets caught, by group."""
    return {group: sum(shares.values()) / len(shares) for group, shares in caught_by_kind().items()}


def harmless_text() -> str:
    """Return all texts of the captures and the sources and documents of this project."""
    sources = [
        *sorted((ROOT / "evaluation_pipelines").rglob("*.py")),
        *sorted((ROOT / "evaluation_pipelines").rglob("*.md")),
        *sorted((ROOT / "sql").rglob("*.sql")),
        # A cursor of the API is random text: it is rightly removed.
        *sorted(set((ROOT / "docs").glob("*.md")) - {ROOT / "docs/api.md"}),
        ROOT / "pyproject.toml",
    ]
    texts = [path.read_text(encoding="utf-8") for path in sources]
    return "\n".join([*texts, *map(texts_of, CLIS)])


def code_and_log_lines() -> list[str]:
    """Return lines of the standard library that is installed, and of logs of this project."""
    library = Path(sysconfig.get_path("stdlib"))
    files = [*(library / name for name in _LIBRARY), DATA / "log.txt"]
    return [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]


def code_files() -> list[Path]:
    """Return modules of the standard library that is installed, as an agent may read them."""
    return sorted(Path(sysconfig.get_path("stdlib")).glob("[a-h]*.py"))
