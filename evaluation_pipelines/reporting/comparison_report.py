"""The report of a model comparison as an HTML page and as Markdown."""

import base64
import hashlib
import uuid
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from evaluation_pipelines.comparison.compare_models import (
    compare_models,
    usual_question,
    write_comparison,
)
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.reporting.domain.comparison_report.markdown import (
    LONGEST_SENTENCE,
    markdown_report,
)
from evaluation_pipelines.reporting.domain.comparison_report.page import page_content
from evaluation_pipelines.storage.store import share
from evaluation_pipelines.storage.stores import Stores

NAME = "model_comparison"

_TEMPLATES = Path(__file__).parent / "templates"
_LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class Report:
    """Paths of the two forms of a report."""

    html: Path
    markdown: Path


def write_report(folder: Path, comparison: Comparison, group_id: int | None = None) -> Report:
    """Replace the report as HTML and as Markdown; open files stay readable.

    A group may read it as well.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    report = Report(folder / f"{NAME}.html", folder / f"{NAME}.md")
    _write(report.html, html_page(comparison))
    _write(report.markdown, markdown_report(comparison))
    for path in (folder, report.html, report.markdown):
        share(path, group_id)
    return report


def refresh_comparison(stores: Stores, now: datetime) -> tuple[Comparison, Report]:
    """Compare the models of the last 28 complete days, and replace tables and report.

    Raises:
        LakeError: a file cannot be read or written.
        OSError: the report cannot be written.
    """
    found = compare_models(stores, usual_question(stores.settings, now), now)
    write_comparison(stores, found)
    return found, write_report(stores.settings.reports_dir, found, stores.group_id)


def html_page(comparison: Comparison) -> str:
    """Return the report as one self-contained page; every text in it is escaped."""
    return (
        _environment()
        .get_template("comparison_report.html")
        .render(
            page_content(comparison),
            css=_file("css"),
            script=_file("js"),
            policy=content_security_policy(),
        )
    )


def content_security_policy() -> str:
    """Return a policy that allows inline styles and our own script, and loads nothing."""
    digest = base64.b64encode(hashlib.sha256(_file("js").encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def one_line(value: object, longest: int = _LONGEST_TEXT) -> str:
    """Return printable text on one line, cut at ``longest`` characters; it is not escaped."""
    text = str(value)
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(each if each.isprintable() else " " for each in text)


def _file(suffix: str) -> str:
    return (_TEMPLATES / f"comparison_report.{suffix}").read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["line"] = one_line
    environment.filters["sentence"] = _sentence
    return environment


def _sentence(value: object) -> str:
    """Return a sentence on one line, without a line break between a number and its unit."""
    return one_line(value, LONGEST_SENTENCE).replace(" %", "\N{NO-BREAK SPACE}%")


def _write(path: Path, text: str) -> None:
    staged = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        staged.write_text(text, encoding="utf-8")
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)
