"""Secrets are taken out of a text before it leaves the machine."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from evaluation_pipelines.domain.judging.secret_rules import (
    EMAIL_RULE,
    SECRET_RULES,
    SecretRule,
)

# How far before the end of a private key its beginning is looked for.
_LONGEST_KEY = 16_000
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY_BACKWARDS = re.compile(r"[A-Za-z0-9+/=\s\\]*")


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without secrets, and how many of each kind were taken out; never the values."""

    text: str
    counts: dict[str, int]


def redact(text: str, *, emails: bool) -> Redacted:
    """Put ``[redacted:kind]`` in place of each secret.

    Args:
        text: Anything.
        emails: Take e-mail addresses out too.
    """
    counts: Counter[str] = Counter()
    lower = text.lower()
    for rule in (*SECRET_RULES, EMAIL_RULE) if emails else SECRET_RULES:
        if any(hint in lower for hint in rule.hints):
            text = _apply(rule, text, counts)
    if "private key" in lower:
        text = _without_headless_keys(text, counts)
    return Redacted(text, dict(sorted(counts.items())))


def sum_counts(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """The counts of several texts together."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(sorted(total.items()))


def _apply(rule: SecretRule, text: str, counts: Counter[str]) -> str:
    group = "secret" if "secret" in rule.pattern.groupindex else 0

    def replaced(found: re.Match[str]) -> str:
        if "[redacted:" in found[group] or not rule.accepts(found[group]):
            return found[0]
        counts[rule.kind] += 1
        start, end = (place - found.start() for place in found.span(group))
        return f"{found[0][:start]}[redacted:{rule.kind}]{found[0][end:]}"

    return rule.pattern.sub(replaced, text)


def _without_headless_keys(text: str, counts: Counter[str]) -> str:
    """Private keys of which only the end is there: the beginning was cut off."""
    kept: list[str] = []
    done = 0
    for end in _KEY_END.finditer(text):
        before = text[max(done, end.start() - _LONGEST_KEY) : end.start()]
        body = _KEY_BODY_BACKWARDS.match(before[::-1])
        length = len(body[0]) if body else 0
        kept += text[done : end.start() - length], "[redacted:private-key]"
        done = end.end()
        counts["private-key"] += 1
    return "".join(kept) + text[done:]
