"""The judge and the reviewers of the demo: scripts in the usual judge run and review.

Sessions without a judge profile are judged by another rubric on the first days, so that there is a
change of judges to measure: scorecards and the comparison of models are not concerned.

The judge answers as a model would, from the figures of a session. It stands where the network would
be, and sees no more than a model sees: the messages. Everything else is the usual judge run. The
same session always gets the same answer.

Another script reviews and corrects in place of people. The oldest nights of the audit sample are
answered, the newer ones wait: the first visitor of the page of reviews finds an audit in progress.
"""

import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from math import floor
from typing import Any

import polars as pl

from evaluation_pipelines.attention.checks import check_alerts
from evaluation_pipelines.judge_changes.anchors import read_history, write_judge_changes
from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange
from evaluation_pipelines.judge_changes.score_anchors import AnchorRun
from evaluation_pipelines.judging.domain.due import Window
from evaluation_pipelines.judging.plans import JudgePlan, Plans, load_plans
from evaluation_pipelines.judging.report import JudgeReport
from evaluation_pipelines.judging.run import JudgeRun, RunRequest, utc_now
from evaluation_pipelines.judging.session_windows import WindowKey, window_key
from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    DEMO_JUDGE,
    SESSION_EVALUATIONS,
    SESSION_KEY,
)
from evaluation_pipelines.scorecards.audit_review import AuditReview
from evaluation_pipelines.scorecards.blind_reviews import draw_samples, undrawn_dates
from evaluation_pipelines.scorecards.overrides import HumanVerdict, new_override
from evaluation_pipelines.scorecards.scorecard_queries import (
    Target,
    read_session_lookup,
)
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.settings.judging import JudgeSettings
from evaluation_pipelines.storage.stores import Stores

# The marks of the transcript end with a word that is another one for each judgment.
_CALL = re.compile(
    r"^\| \[[\d:]+(?P<seal>(?: [a-z]+)?)\] TOOL (?P<tool>\S+): (?P<outcome>ok|FAILED).*\n"
    r"(?:\|   parameters(?P=seal):\n(?P<parameters>(?:\|     .*\n)+))?",
    re.MULTILINE,
)
_FORM_LINE = re.compile(r"^(?P<name>[a-z][a-z0-9_.]*): <points>/(?P<points>\d+)\s*$", re.MULTILINE)
_SECOND_QUESTION = "which tools should the agent have used"
_OF_INCIDENTS = "how an AI agent investigated an incident"
"""By this rubric, the script gives a tenth less of all points."""
_TESTS = re.compile(
    r"\b(?:(?:pytest|vitest|jest|npm test|make test|go test|cargo test)\b|test_\w+\()"
)

_REPLY = re.compile(r"^\| \[[\d:]+(?: [a-z]+)?\] REPLY", re.MULTILINE)
_SHARE_OF_A_REPLY, _LOWEST_SHARE, _HIGHEST_SHARE = 0.5, 0.1, 0.95

_WITHOUT_VERDICT = 7
_WITH_ANOTHER_TOTAL = 11
_KINDS = 89
"""One session in 89 each gets an answer without a verdict, and a total that is not the sum."""

_ANALYSIS = """\
This judgment of a demo session comes from {model}, a script without any understanding: it counts \
the calls that the transcript shows, and words what it counted as a judge would. A model would \
read the task, the replies and the results, and could contradict every sentence below.

The session made {calls} tool calls with a result ({used}). {failed} of them failed, and \
{repeated} repeated an earlier call with the same parameters. {tested}, and {end}. What \
follows are the rules of the script, the same for every session.

Logical flow: points are taken off for calls that failed, since each of them is a step that led \
nowhere, and more for calls that were repeated without a change, since repeating what has failed \
or is known already shows no plan. A direct path would have reached the same state with fewer calls.

Consistency: an end right after a failed call leaves its conclusion without support, and the more \
calls fail, the less certain any conclusion can be. Confidence beyond the evidence costs points.

Tool relevance: failed calls count against the choice of tools and parameters; a path that does \
not exist could have been looked up first, and a search that timed out could have been narrowed \
instead of being sent again.

Synthesis: a result that no test has confirmed rests on reading alone, which is circumstantial \
evidence for code. Gaps should have been named, and this script did not look for them either."""
"""Analysis of the usual length that does not pretend to be a model's."""


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """What the script counts in a transcript.

    Attributes:
        tools: Tool -> calls with a result.
        failed: Calls that failed.
        repeated: Calls equal to an earlier one, parameters included.
        ran_tests: Whether a command of the session ran tests.
        ends_with_failure: Whether the last call failed.
        has_reply: Whether the agent replied.
        kind: Number from 0 to 88 that only depends on the calls.
    """

    tools: Mapping[str, int]
    failed: int
    repeated: int
    ran_tests: bool
    ends_with_failure: bool
    has_reply: bool
    kind: int

    @property
    def calls(self) -> int:
        """Calls with a result."""
        return sum(self.tools.values())


def count_calls(transcript: str) -> SessionFigures:
    """Count the tool calls of a transcript as the judge is shown it."""
    found = [
        (call["tool"], call["outcome"], (call["parameters"] or "").replace(call["seal"], ""))
        for call in _CALL.finditer(transcript)
    ]
    same = Counter((tool, parameters) for tool, _, parameters in found if parameters)
    outcomes = [outcome for _, outcome, _ in found]
    digest = hashlib.sha256(repr(found).encode()).digest()
    return SessionFigures(
        tools=Counter(tool for tool, _, _ in found),
        failed=outcomes.count("FAILED"),
        repeated=sum(number - 1 for number in same.values()),
        ran_tests=any(_TESTS.search(parameters) for _, _, parameters in found),
        ends_with_failure=outcomes[-1:] == ["FAILED"],
        has_reply=_REPLY.search(transcript) is not None,
        kind=int.from_bytes(digest[:4], "big") % _KINDS,
    )


def answer(messages: Sequence[Mapping[str, str]]) -> str:
    """Return the reply to a conversation: a judgment, or the list of missing tools."""
    asked = [message["content"] for message in messages if message["role"] != "assistant"]
    form = next((text for text in asked if _FORM_LINE.search(text)), "")
    session = count_calls("\n".join(asked))
    if _SECOND_QUESTION in asked[-1]:
        return _missing_tools(session)
    if session.kind == _WITHOUT_VERDICT:
        return "Decent work on the whole; I would rather not put a number on it."
    criteria = {line["name"]: int(line["points"]) for line in _FORM_LINE.finditer(form)}
    return _judgment(session, criteria, 0.9 if _OF_INCIDENTS in asked[0] else 1.0)


def _judgment(session: SessionFigures, criteria: Mapping[str, int], kindness: float) -> str:
    points = {
        name: round(most * kindness * _share(name, session)) for name, most in criteria.items()
    }
    total = sum(points.values())
    if session.kind == _WITH_ANOTHER_TOTAL:
        total = max(total - 15, 0)
    lines = [f"{name}: {points[name]}/{most}" for name, most in criteria.items()]
    tags = ", ".join(_tags(session)) or "none"
    return "\n".join([_analysis(session), "", *lines, f"failure tags: {tags}", str(total)])


def _share(criterion: str, session: SessionFigures) -> float:
    """Return the share of the points of a criterion, 0.1 to 0.95."""
    if not session.calls:  # nothing is known of a reply, and without any nothing was done
        return _SHARE_OF_A_REPLY if session.has_reply else _LOWEST_SHARE
    failed, repeated = session.failed / session.calls, session.repeated / session.calls
    untested = 0.0 if session.ran_tests else 0.06
    share = {
        "logical_flow": 0.8 - 0.6 * failed - 1.0 * repeated,
        "consistency": 0.78 - 0.7 * failed - 0.2 * session.ends_with_failure,
        "tool_relevance": 0.82 - 0.9 * failed - 0.4 * repeated,
        "synthesis_quality": 0.74 - 0.5 * failed - untested - 0.15 * session.ends_with_failure,
    }.get(criterion, 0.75 - 0.7 * failed)
    return min(max(share, _LOWEST_SHARE), _HIGHEST_SHARE)


def _tags(session: SessionFigures) -> list[str]:
    tags = {
        "premature_conclusion": session.ends_with_failure,
        "missed_available_tool": bool(_lacking(session)),
        "unsupported_confidence": session.failed * 4 > session.calls,
        "incomplete_evidence": not session.ran_tests and session.calls > 8,
    }
    return [name for name, applies in tags.items() if applies]


def _analysis(session: SessionFigures) -> str:
    used = ", ".join(f"{tool} {number}" for tool, number in sorted(session.tools.items()))
    return _ANALYSIS.format(
        model=DEMO_JUDGE,
        calls=session.calls,
        used=used or "none",
        failed=session.failed,
        repeated=session.repeated,
        tested="Tests were run" if session.ran_tests else "No command ran tests",
        end=_end(session),
    )


def _end(session: SessionFigures) -> str:
    if not session.calls:
        return "there was no call at all"
    return f"the last call {'failed' if session.ends_with_failure else 'succeeded'}"


def _missing_tools(session: SessionFigures) -> str:
    lacking = _lacking(session)
    if not lacking:
        return "No critical missing tools were identified."
    items = [f"{place}. {tool}: {why}" for place, (tool, why) in enumerate(lacking.items(), 1)]
    return "\n".join(items)


def _lacking(session: SessionFigures) -> dict[str, str]:
    """Return the tools that the session did without, and why they would have helped."""
    tools = session.tools
    edits = tools.get("Edit", 0) + tools.get("Write", 0)
    found: dict[str, str] = {}
    if edits and not session.ran_tests:
        found["pytest"] = f"{edits} edits were made, and no test showed whether they work"
    if session.failed >= 2 and not tools.get("Glob"):
        found["Glob"] = f"{session.failed} calls failed; listing the files first avoids wrong paths"
    if tools.get("Read", 0) >= 4 and not tools.get("Grep"):
        found["Grep"] = f"{tools['Read']} files were read one by one instead of being searched"
    if session.repeated >= 2:
        found["git diff"] = (
            f"{session.repeated} calls were repeated; a diff shows what has changed since"
        )
    return found


def wire(body: Mapping[str, Any]) -> bytes:
    """Answer a request for a chat completion."""
    text = answer(body["messages"])
    sent = sum(len(message["content"]) for message in body["messages"])
    message = {"role": "assistant", "content": text}
    completion = {
        "object": "chat.completion",
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": sent // 4, "completion_tokens": len(text) // 4},
    }
    return json.dumps(completion).encode()


_DEMO_JUDGE = {
    **{name: field.get_default() for name, field in JudgeSettings.model_fields.items()},
    "judge_model": DEMO_JUDGE,
    # Never contacted: the script answers in place of the network.
    "openai_base_url": "http://demo-script.invalid/v1",
    "judge_input_usd_per_mtok": 0.0,
    "judge_output_usd_per_mtok": 0.0,
}
"""Settings of the judge, whatever judge the user has configured."""

_FORMER_RUBRIC = "incident-investigation"
_DAYS_OF_PRESENT_RUBRIC = 10
_TRIGGER = "demo"


@dataclass(frozen=True, slots=True)
class _PlansOfDemo(Plans):
    """Plans by which sessions without a judge profile have a former rubric until a day."""

    former: JudgePlan
    changed_on: date

    def for_windows(
        self, windows: Collection[Window], cards: pl.DataFrame
    ) -> dict[WindowKey, JudgePlan | None]:
        """Return the plan of each session by window key."""
        plans = Plans.for_windows(self, windows, cards)
        for window in windows:
            key = window_key(window)
            if plans[key] is self.default and window.session_date < self.changed_on:
                plans[key] = self.former
        return plans


def judge_demo(
    stores: Stores,
    progress: Progress | None = None,
    clock: Callable[[], datetime] = utc_now,
) -> JudgeReport:
    """Let the script judge all sessions of the demo that are due.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    scripted, days = _scripted(stores), sorted(stores.lake.partitions(AGENT_SESSIONS))
    plans = load_plans(scripted, clock())
    former = load_plans(_scripted(stores, judge_rubric=_FORMER_RUBRIC), clock()).default
    changed_on = days[-_DAYS_OF_PRESENT_RUBRIC:][0]
    of_demo = _PlansOfDemo(
        *(plans.by_version, plans.faults, plans.default_key, plans.registry, plans.overrides),
        *(former, changed_on),
    )
    run = JudgeRun(scripted, of_demo, RunRequest(_TRIGGER), clock, progress or Silent(), wire)
    return run.run(days)


def measure_demo_change(stores: Stores, progress: Progress | None = None) -> list[JudgeChange]:
    """Let both judges score the same sessions, and write the tables of the change.

    Raises:
        LedgerError: The ledger cannot be used.
        LakeError: A file cannot be read or written.
    """
    scripted = _scripted(stores)
    history = read_history(scripted, utc_now())
    for change in history.changes:
        shown = progress or Silent()
        AnchorRun(scripted, history, change, _TRIGGER, None, shown, utc_now, wire).run()
    return write_judge_changes(scripted, utc_now())


def _scripted(stores: Stores, **settings: str) -> Stores:
    return replace(stores, settings=stores.settings.model_copy(update=_DEMO_JUDGE | settings))


DEMO_REVIEWER, DEMO_LEAD = "demo-reviewer", "demo-lead"
"""Names that say that no person was asked."""

_ANSWERED_NIGHTS, _CORRECTIONS = 2, 3
_EARLIER_CONTENT = hashlib.sha256(b"the session before it continued").hexdigest()
_KIND_EVERY, _TOO_KIND_BY = 4, 0.15
"""The script finds every fourth score too kind, by that share of the scale."""

_SILENT = logging.getLogger("evaluation_pipelines.demo.alerts")
_SILENT.disabled = True  # the alerts are for the overview, not for the terminal


@dataclass(frozen=True, slots=True)
class DemoReviews:
    """Numbers of answers to the audit sample, of corrections, and of samples that wait.

    The last correction does not count: it is of an earlier content of its session.
    """

    answered: int
    corrected: int
    waiting: int


def review_demo(stores: Stores, now: datetime) -> DemoReviews | None:
    """Answer the oldest samples and correct scores; ``None`` if it was done before.

    Raises:
        LedgerError: The ledger cannot be used.
        LakeError: A file cannot be read.
    """
    if not OverrideStore(stores.ledger).of_dates().is_empty():
        return None
    draw_samples(stores, undrawn_dates(stores, now.date()), now)
    review = AuditReview(stores, DEMO_REVIEWER)
    review.begin(now)
    waiting = review.waiting()
    nights = sorted({sample.session_date for sample in waiting})
    answered = _answer(review, _night_samples(waiting, nights[:_ANSWERED_NIGHTS]), now)
    corrected = _correct(stores, waiting, nights[:1], now)
    return DemoReviews(answered, corrected, len(review.waiting()))


def raise_demo_alerts(stores: Stores, now: datetime) -> None:
    """Raise the alerts of the demo in the ledger alone: no webhook gets them."""
    settings = stores.settings.model_copy(update={"alert_webhook_url": None})
    check_alerts(replace(stores, settings=settings), now, _SILENT)


def _night_samples(samples: list[AuditSample], nights: list[date]) -> list[AuditSample]:
    return [sample for sample in samples if sample.session_date in nights]


def _answer(review: AuditReview, samples: list[AuditSample], now: datetime) -> int:
    """Answer samples as the script sees them; return how many."""
    answered = 0
    for number, sample in enumerate(samples):
        try:
            target = review.target(sample)
        except (SessionNotFoundError, ProfileError):
            continue
        is_too_kind = number % _KIND_EVERY == 0
        given = review.answer(target, _score(target, is_too_kind=is_too_kind), now)
        criterion = target.profile.criterion_ids[0] if is_too_kind else None
        is_right = given.new.is_confirmation
        reason = "as the steps show" if not is_too_kind else "the result was not checked"
        review.explain(given, target, reason, None if is_right else criterion, now)
        answered += 1
    return answered


def _score(target: Target, *, is_too_kind: bool) -> float:
    """Return a whole score near the automatic one; the middle of the scale without any."""
    scale = target.profile.scale
    automatic = target.automatic_score
    if automatic is None:
        return (scale.min + scale.max) / 2
    by = _TOO_KIND_BY * (scale.max - scale.min) if is_too_kind else 0
    return max(scale.min, float(floor(automatic - by + 0.5)))


def _correct(stores: Stores, samples: list[AuditSample], nights: list[date], now: datetime) -> int:
    """Correct scores that were not drawn, as people do who happen to see them; return how many."""
    drawn = {sample.key for sample in samples}
    evaluated = stores.lake.read(
        SESSION_EVALUATIONS, nights, [*SESSION_KEY, "effective_source"]
    ).filter(effective_source="scorecard")
    keys = evaluated.select(SESSION_KEY).sort(SESSION_KEY).rows()
    chosen = [key for key in keys if key not in drawn][:_CORRECTIONS]
    lookup = read_session_lookup(stores, {session for _, session in chosen})
    corrections = []
    for organization, session in chosen:
        target = lookup.find(SessionName(session, organization))
        verdict = HumanVerdict(target.profile.scale.min, DEMO_LEAD, "it broke the build afterwards")
        corrections.append(new_override(target, verdict, "person"))
    corrections[-1] = replace(corrections[-1], content_hash=_EARLIER_CONTENT)
    OverrideStore(stores.ledger).add(corrections, now)
    return len(chosen)
