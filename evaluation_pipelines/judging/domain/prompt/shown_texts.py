"""Texts of sessions as people see them: without secrets and hidden characters."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from evaluation_pipelines.judging.domain.prompt.fence import unsealed
from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines.judging.domain.prompt.sanitize import TextSanitizer

_MAX_TEXT_LENGTH = 20_000
"""Characters of one text; a longer one loses its middle, and says so."""


@dataclass(frozen=True, slots=True)
class ShownTexts:
    """Makes texts of sessions fit to be shown; HTML is not escaped."""

    sanitizer: TextSanitizer

    def text(self, logged: str) -> str:
        """Return a text of several lines."""
        return unsealed(self.sanitizer.text(logged))

    def line(self, logged: str) -> str:
        """Return a name or title on one line."""
        return unsealed(self.sanitizer.line(logged))

    def parameters(self, logged: str) -> str:
        """Return the parameters of a call, a line for each."""
        return unsealed(self.sanitizer.parameters(logged))


def shown_texts(personal: Collection[str]) -> ShownTexts:
    """Return what makes texts fit to be shown; ``personal`` as for ``redact``."""
    redactor = partial(redact, personal=personal)
    return ShownTexts(TextSanitizer(redactor, (), _MAX_TEXT_LENGTH, finds_injection=False))
