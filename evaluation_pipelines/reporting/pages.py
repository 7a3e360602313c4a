"""Self-contained HTML pages: templates, the policy of their content, and files."""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from evaluation_pipelines.formatting import LONGEST_SENTENCE

TEMPLATES = Path(__file__).parent / "templates"
"""Folder of the templates, style sheet and script."""

_LONGEST_TEXT = 200


def render_page(name: str, content: Mapping[str, object]) -> str:
    """Return a template with its content and the common style and script; texts are escaped."""
    return (
        _environment()
        .get_template(f"{name}.html")
        .render(content, css=style_sheet(), script=script(), policy=content_security_policy())
    )


def content_security_policy() -> str:
    """Return a policy that allows inline styles and our own script, and loads nothing."""
    digest = base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def style_sheet() -> str:
    """Return the style sheet of all reports; pages of the service add to it."""
    return _file("css")


def script() -> str:
    """Return the script of all reports; pages of the service add to it."""
    return _file("js")


def one_line(value: object, longest: int = _LONGEST_TEXT) -> str:
    """Return printable text on one line, cut at ``longest`` characters; it is not escaped."""
    text = str(value)
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(character if character.isprintable() else " " for character in text)


def _file(suffix: str) -> str:
    return (TEMPLATES / f"comparison_report.{suffix}").read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["line"] = one_line
    environment.filters["sentence"] = sentence
    return environment


def sentence(value: object) -> str:
    """Return a sentence on one line, without a line break between a number and its unit."""
    return one_line(value, LONGEST_SENTENCE).replace(" %", "\N{NO-BREAK SPACE}%")
