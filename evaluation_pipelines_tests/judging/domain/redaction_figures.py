"""How much redaction catches of what was planted, and what it takes from texts without secrets."""

from collections import Counter
from pathlib import Path

from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines_tests.judging.domain.genuine import AGENTS, texts_of
from evaluation_pipelines_tests.judging.domain.secrets_corpus import Planted, planted

SEED = 2026
EACH = 40
ROOT = Path(__file__).parents[3]

# As long a piece of a secret must not be left.
_TELLING = 12


def is_caught(each: Planted) -> bool:
    """Whether no telling piece of the secret is left."""
    left = redact(each.text, emails=False).text
    length = min(_TELLING, len(each.secret))
    pieces = (each.secret[place : place + length] for place in range(len(each.secret) - length + 1))
    return not any(piece in left for piece in pieces)


def caught_by_kind() -> dict[str, dict[str, float]]:
    """Group -> kind -> share of the planted secrets that is caught."""
    caught: Counter[tuple[str, str]] = Counter()
    kinds: dict[str, dict[str, float]] = {}
    for each in planted(SEED, EACH):
        caught[each.group, each.kind] += is_caught(each)
        kinds.setdefault(each.group, {})[each.kind] = caught[each.group, each.kind] / EACH
    return kinds


def caught_by_group() -> dict[str, float]:
    """Group -> share that is caught of all its secrets."""
    return {group: sum(shares.values()) / len(shares) for group, shares in caught_by_kind().items()}


def harmless_text() -> str:
    """What agents said in the captures, and the sources and documents of this project."""
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
