"""Judge changes as Markdown, for terminals, mail and asset metadata."""

from collections.abc import Sequence

from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange
from evaluation_pipelines.judge_changes.domain.words import (
    METHOD,
    headline,
    judges_line,
    sentences,
    title,
)
from evaluation_pipelines.reporting.domain.judge_changes_report.page import (
    NO_CHANGE,
    STRATUM_HEADINGS,
    TITLE,
    stratum_rows,
)
from evaluation_pipelines.reporting.domain.markdown import (
    LONGEST_SENTENCE,
    bullets,
    escaped,
    markdown_table,
)


def markdown_report(changes: Sequence[JudgeChange]) -> str:
    """Return the report without pictures."""
    parts = [f"# {escaped(TITLE)}", *(answer(each) for each in changes)]
    parts += [] if changes else [escaped(NO_CHANGE)]
    return "\n\n".join([*parts, "## How these figures are made", bullets(METHOD)]) + "\n"


def answer(found: JudgeChange) -> str:
    """Return what is known of one change."""
    parts = [
        f"## {escaped(title(found.change))}",
        escaped(judges_line(found.change), LONGEST_SENTENCE),
        f"**{escaped(headline(found), LONGEST_SENTENCE)}**",
        bullets(sentences(found)),
    ]
    if rows := stratum_rows(found):
        columns = [each.removesuffix(" #") for each in STRATUM_HEADINGS]
        parts.append(markdown_table(columns, rows))
    return "\n\n".join(parts)
