"""Rubric, transcript and judge messages with defaults for tests."""

from evaluation_pipelines.judging.domain.conversation import Conversation, Judgment
from evaluation_pipelines.judging.domain.prompt.messages import Reply
from evaluation_pipelines.judging.domain.prompt.rubric import Prompts, Rubric, RubricCriterion
from evaluation_pipelines.judging.domain.prompt.transcript import Transcript

BOUNDARY = "9f8e7d6c5b4a39281706f5e4d3c2b1a0"

CRITERIA = (
    RubricCriterion("logical_flow", "Logical flow", "Was the order good?", 25),
    RubricCriterion("consistency", "Consistency", "Do the facts carry it?", 25),
    RubricCriterion("tool_relevance", "Tool relevance", "Were the tools fit?", 25),
    RubricCriterion("synthesis_quality", "Synthesis quality", "Is it brought together?", 25),
)

SCORE_TEMPLATE = """Be strict.
{{CRITERIA}}
{{OUTPUT_SCHEMA}}
Task:
{{ALERT_DATA}}
Session:
{{SESSION_CONVERSATION}}
"""

RUBRIC = Rubric("strict", SCORE_TEMPLATE, "Which tools are missing?", CRITERIA)

PROMPTS = Prompts("the rubric and the session", "which tools are missing?")


def transcript(text: str = "0:00 PROMPT\nfix it", task: str = "fix it") -> Transcript:
    """Return a short transcript with all its texts."""
    return Transcript(
        text=text,
        task=task,
        tokens=10,
        truncated=False,
        injection_suspected=False,
        redactions={},
        content_level="full",
    )


def form(
    *points: int, total: object = None, tags: str | None = "none", analysis: str = "Weak."
) -> str:
    """Return a judge's message; the points of the criteria are 15, 16, 14 and 12 by default."""
    given = points or (15, 16, 14, 12)
    lines = [
        f"{criterion.id}: {value}/25" for criterion, value in zip(CRITERIA, given, strict=True)
    ]
    tags_line = [] if tags is None else [f"failure tags: {tags}"]
    last = sum(given) if total is None else total
    return "\n".join([analysis, "", *lines, *tags_line, str(last)])


def said(text: str, finish_reason: str = "stop") -> Reply:
    """Return a complete reply."""
    return Reply(text, finish_reason)


def conversation(samples: int = 1) -> Conversation:
    """Return a conversation without replies."""
    return Conversation(PROMPTS, CRITERIA, samples)


def turns(dialog: Conversation) -> list[str]:
    return [request.turn for request in dialog.open_requests()]


def texts(dialog: Conversation) -> list[str]:
    """Return the messages of the only open request."""
    (request,) = dialog.open_requests()
    return [message.content for message in request.messages]


def judgment(dialog: Conversation) -> Judgment:
    result = dialog.outcome()
    assert isinstance(result, Judgment), result
    return result
