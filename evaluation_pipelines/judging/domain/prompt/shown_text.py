"""From a logged text to what a judge may see of it: plain, without secrets, without a maker."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evaluation_pipelines.judging.domain.prompt.injection import is_injection_suspected
from evaluation_pipelines.judging.domain.prompt.redaction import Redacted
from evaluation_pipelines.judging.domain.prompt.sanitize import plain_line, plain_text

_EDGE = 400
_MODEL_NAME = re.compile(r"(?=.*\d)[\w.:/@-]{5,100}")


@dataclass(slots=True)
class TextSanitizer:
    """Makes texts fit to be seen, and remembers what it had to do.

    Args:
        redactor: Takes secrets out.
        models: Names of the models of the session: the judge must not know who made it.
        longest: Longer texts lose their middle before anything else is done with them.
    """

    redactor: Callable[[str], Redacted]
    models: Iterable[str]
    longest: int
    redactions: Counter[str] = field(default_factory=Counter)
    has_cut: bool = False
    has_suspicious: bool = False
    _model_names: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        names = sorted(filter(_MODEL_NAME.fullmatch, self.models), key=len, reverse=True)
        if names:
            self._model_names = re.compile("|".join(map(re.escape, names)), re.IGNORECASE)

    def text(self, logged: str) -> str:
        """A text of several lines."""
        return self._clean(self._bounded(logged))

    def line(self, logged: str) -> str:
        """A name or title on one line."""
        return plain_line(self._clean(logged[:1000]))

    def parameters(self, logged: str) -> str:
        """The parameters of a call, a line each; as logged where they are no whole JSON object."""
        # Names with their values tell best what is a secret; the lines are looked at once more.
        safe = self._without_secrets(plain_text(self._bounded(logged)))
        try:
            given = json.loads(safe)
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            return self._clean(safe)
        # What imitates a line is at the beginning of one only by itself.
        self._look_for_signs("\n".join(_strings(given)))
        return self._clean(_parameter_lines(given))

    def _clean(self, text: str) -> str:
        self._look_for_signs(text)
        plain = plain_text(text)
        safe = self._without_secrets(plain.strip("\n") or "(empty)")
        return self._model_names.sub("[model]", safe) if self._model_names else safe

    def _look_for_signs(self, text: str) -> None:
        self.has_suspicious = self.has_suspicious or is_injection_suspected(text)

    def _without_secrets(self, text: str) -> str:
        redacted = self.redactor(text)
        self.redactions.update(redacted.counts)
        return redacted.text

    def _bounded(self, text: str) -> str:
        if len(text) <= self.longest:
            return text
        self.has_cut = True
        return middle_cut(text, self.longest)


def middle_cut(text: str, longest: int) -> str:
    """Beginning and end of a text, with a line that says how much is missing between.

    The cut goes between two words where there is a blank near, so that no half of a secret or of
    a name is left.
    """
    if len(text) <= longest:
        return text
    half = longest // 2
    start, end = text[:half], text[len(text) - (longest - half) :]
    start = start[: _last_blank(start)]
    end = end[len(end) - _last_blank(end[::-1]) :]
    missing = len(text) - len(start) - len(end)
    return f"{start}\n[... {missing} characters left out here ...]\n{end}"


def _last_blank(text: str) -> int:
    """Where the last word of a text begins; all of it when that is far away."""
    near = max(0, len(text) - _EDGE)
    for place in range(len(text) - 1, near - 1, -1):
        if text[place].isspace():
            return place
    return len(text)


def _parameter_lines(given: Mapping[str, Any]) -> str:
    lines = []
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if "\n" in text:
            indented = "\n".join(f"  {line}" for line in text.split("\n"))
            lines.append(f"{name}:\n{indented}")
        else:
            lines.append(f"{name}: {text}")
    return "\n".join(lines)


def _strings(given: Any) -> list[str]:
    """All strings in a JSON value, however deep."""
    found: list[str] = []
    waiting = [given]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found
