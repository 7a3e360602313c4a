"""Measures of redaction: share of planted secrets caught, and changes to harmless text."""

from collections import Counter
from pathlib import Path

from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines_tests.judging.domain.genuine import AGENTS, texts_of
from evaluation_pipelines_tests.judging.domain.secrets_corpus import Planted, planted

SEED = 2026
EACH = 40
ROOT = Path(__file__).parents[3]

# A remaining part of this length counts as a leak.
_LEAK_LENGTH = 12


def is_caught(each: Planted) -> bool:
    """Return whether no revealing part of the secret remains."""
    left = redact(each.text, emails=False).text
    length = min(_LEAK_LENGTH, len(each.secret))
    pieces = (each.secret[start : start + length] for start in range(len(each.secret) - length + 1))
    return not any(piece in left for piece in pieces)


def caught_by_kind() -> dict[str, dict[str, float]]:
    """Return the share of planted secrets caught, by group and kind."""
    caught: Counter[tuple[str, str]] = Counter()
    kinds: dict[str, dict[str, float]] = {}
    for each in planted(SEED, EACH):
        caught[each.group, each.kind] += is_caught(each)
        kinds.setdefault(each.group, {})[each.kind] = caught[each.group, each.kind] / EACH
    return kinds


def caught_by_group() -> dict[str, float]:
    """Return the share of secrets caught, by group."""
    return {group: sum(shares.values()) / len(shares) for group, shares in caught_by_kind().items()}


def harmless_text() -> str:
    """Return all texts of the captures and the sources and documents of this project."""
    sources = [
        *sorted((ROOT / "evaluation_pipelines").rglob("*.py")),
        *sorted((ROOT / "evaluation_pipelines").rglob("*.md")),
        *sorted((ROOT / "sql").rglob("*.sql")),
        *sorted((ROOT / "docs").glob("*.md")),
        ROOT / "pyproject.toml",
        ROOT / "requirements.lock",
    ]
    texts = [path.read_text(encoding="utf-8") for path in sources]
    return "\n".join([*texts, *map(texts_of, AGENTS)])
