"""Sanitize text from telemetry: hidden characters, terminal codes, secrets and model names.

Hidden characters can carry instructions to a model that no reader of the transcript notices.
Colors and cursor movements mean nothing to a judge. Control tokens of chat formats, such as
``<|im_end|>``, must not reach a server that interprets them.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evaluation_pipelines.judging.domain.prompt.characters import LINE_END, CategoryFilter
from evaluation_pipelines.judging.domain.prompt.injection import is_injection_suspected
from evaluation_pipelines.judging.domain.prompt.redaction import Redacted
from evaluation_pipelines.judging.domain.prompt.truncate import cut_middle

# CSI sequences such as colors; then OSC sequences (window titles), to their end or the end of line.
_TERMINAL = re.compile(r"\x1b\[[0-9;:?]*[ -/]{0,4}[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?")
_CHAT_FORMAT = re.compile(
    # <|im_start|> <|eot_id|>, also with the full-width bars of some models
    r"<[|\uff5c](?=[^<>\n]{0,40}[|\uff5c]>)"
    r"|<(?=/?s>)|<(?=</?SYS>>)|<(?=(?:start|end)_of_turn>)|\[(?=/?INST\])"
)
_WITHOUT_HIDDEN = CategoryFilter(("Cc", "Cf", "Cs", "Co", "Cn"), keep="\n\t")

# Short names and names without a digit are words that also occur in ordinary text.
_MODEL_NAME = re.compile(r"(?=.*\d)[\w.:/@-]{5,100}")


def plain_text(text: str) -> str:
    r"""Return ``text`` without terminal codes, hidden characters and chat control tokens.

    Line ends become ``\n``. Control tokens stay readable: a space breaks them.
    """
    text = LINE_END.sub("\n", _TERMINAL.sub("", text)).translate(_WITHOUT_HIDDEN)
    return _CHAT_FORMAT.sub(lambda found: f"{found[0]} ", text)


def plain_line(text: str, max_length: int = 100) -> str:
    """Return the plain text on one line of at most ``max_length`` characters."""
    line = " ".join(plain_text(text).split())
    return line if len(line) <= max_length else f"{line[: max_length - 1]}…"


@dataclass(slots=True)
class TextSanitizer:
    """Sanitizer of the texts of one session; it records what it found.

    Args:
        redactor: Removes secrets from a text.
        models: Names of the models of the session, which are hidden from the judge.
        max_length: Characters; longer texts lose their middle before any other step.

    Attributes:
        redactions: Number of secrets removed, by kind.
        has_cut: Whether a text exceeded ``max_length``.
        has_suspicious: Whether a text has signs of injection.
    """

    redactor: Callable[[str], Redacted]
    models: Iterable[str]
    max_length: int
    redactions: Counter[str] = field(default_factory=Counter)
    has_cut: bool = False
    has_suspicious: bool = False
    _model_names: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        names = sorted(filter(_MODEL_NAME.fullmatch, self.models), key=len, reverse=True)
        if names:
            self._model_names = re.compile("|".join(map(re.escape, names)), re.IGNORECASE)

    def text(self, logged: str) -> str:
        """Sanitize a text of several lines."""
        return self._clean(self._shortened(logged))

    def line(self, logged: str) -> str:
        """Sanitize a name or title and return it on one line."""
        return plain_line(self._clean(logged[:1000]))

    def parameters(self, logged: str) -> str:
        """Sanitize the parameters of a call and return one line for each.

        Text that is not a complete JSON object is returned in its own form.
        """
        # A name next to its value identifies a secret best; the lines are redacted again below.
        safe = self._redacted(plain_text(self._shortened(logged)))
        try:
            parameters = json.loads(safe)
        except (ValueError, RecursionError):
            parameters = None
        if not isinstance(parameters, dict):
            return self._clean(safe)
        # Signs at the beginning of a line are found only in the bare strings.
        self._check_for_injection("\n".join(_strings(parameters)))
        return self._clean(_parameter_lines(parameters))

    def _clean(self, text: str) -> str:
        self._check_for_injection(text)
        safe = self._redacted(plain_text(text).strip("\n") or "(empty)")
        return self._model_names.sub("[model]", safe) if self._model_names else safe

    def _check_for_injection(self, text: str) -> None:
        self.has_suspicious = self.has_suspicious or is_injection_suspected(text)

    def _redacted(self, text: str) -> str:
        redacted = self.redactor(text)
        self.redactions.update(redacted.counts)
        return redacted.text

    def _shortened(self, text: str) -> str:
        if len(text) <= self.max_length:
            return text
        self.has_cut = True
        return cut_middle(text, self.max_length)


def _parameter_lines(parameters: Mapping[str, Any]) -> str:
    lines = []
    for name, value in parameters.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if "\n" in text:
            indented = "\n".join(f"  {line}" for line in text.split("\n"))
            lines.append(f"{name}:\n{indented}")
        else:
            lines.append(f"{name}: {text}")
    return "\n".join(lines)


def _strings(document: Any) -> list[str]:
    """Return all strings in a JSON value of any depth."""
    found: list[str] = []
    pending = [document]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return found
