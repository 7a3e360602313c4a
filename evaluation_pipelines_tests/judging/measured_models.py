"""Measurement of local models: verdicts that a second reader confirms, and ``judge validate``.

``python -m evaluation_pipelines_tests.judging.measured_models --sessions 30`` judges genuine
sessions with the local model (``local_model``) and prints the row of
``benchmarks/small-models.md``. With ``--keep FILE`` replies are appended to a file and its sessions
are not asked again; ``--read FILE`` only reads one.

``--attacks 19`` asks about a part of the sessions of ``judge validate`` instead, since such a model
is too slow for all. One task after another: its severely flawed session, without and with hostile
texts, again without, and its clean twin.
"""

import argparse
import asyncio
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import polars as pl

from evaluation_pipelines.judging.domain.budget import Price
from evaluation_pipelines.judging.domain.conversation import (
    MISSING_TOOLS_TURN,
    Conversation,
    Judgment,
)
from evaluation_pipelines.judging.domain.prompt.fence import SEAL
from evaluation_pipelines.judging.domain.prompt.messages import Reply
from evaluation_pipelines.judging.domain.prompt.redaction import redact
from evaluation_pipelines.judging.domain.prompt.rubric import Rubric, render_prompts
from evaluation_pipelines.judging.domain.prompt.transcript import build_transcript
from evaluation_pipelines.judging.domain.validation import (
    ASKED_AGAIN,
    ATTACKS,
    JUDGED_SESSIONS,
    LabeledSession,
    figures,
)
from evaluation_pipelines.judging.endpoint.client import CallLimits, Endpoint, JudgeClient
from evaluation_pipelines.judging.endpoint.replies import JudgeCallError
from evaluation_pipelines.judging.rubric_files import load_rubrics
from evaluation_pipelines.judging.validation import load_labeled, with_attacks
from evaluation_pipelines_tests.judging.domain.genuine import sessions_of
from evaluation_pipelines_tests.judging.domain.judging_builders import BOUNDARY, PROMPTS
from evaluation_pipelines_tests.judging.local_model import LocalModel, open_local_model
from evaluation_pipelines_tests.judging.second_reader import why_rejected
from evaluation_pipelines_tests.telemetry.captures import CLIS

MAX_TRANSCRIPT_TOKENS = 2_500
_TIMEOUT_S = 3_000
_STEP = 4
"""Every fourth attack: since nine tasks are attacked in turn, they take each task, and some attacks
of each family."""


def conversations() -> Iterator[tuple[str, Conversation]]:
    """Yield a conversation about each genuine session with text, agents in turn."""
    named = [
        [(f"{agent}-{n}", session) for n, session in enumerate(sessions_of(agent))]
        for agent in CLIS
    ]
    for name, events in filter(None, chain.from_iterable(zip_longest(*named))):
        if events["content"].drop_nulls().str.len_chars().sum():
            yield name, conversation_about(events, BOUNDARY)


def conversation_about(events: pl.DataFrame, boundary: str) -> Conversation:
    """Return a conversation about a session before its first turn."""
    rubric = shipped_rubric()
    without_emails = partial(redact, personal=("email",), seal=SEAL)
    transcript = build_transcript(events, "full", MAX_TRANSCRIPT_TOKENS, without_emails)
    prompts = render_prompts(rubric, rubric.criteria, transcript, boundary)
    return Conversation(prompts, rubric.criteria, samples=1)


def shipped_rubric() -> Rubric:
    """Return the rubric of the measurement."""
    return load_rubrics(None)["agent-methodology"]


async def ask(client: JudgeClient, conversation: Conversation) -> list[dict[str, str]]:
    """Return the replies to the score turn, and to its reminder if there is one."""
    replies: list[dict[str, str]] = []
    while (requests := conversation.open_requests()) and requests[0].turn != MISSING_TOOLS_TURN:
        try:
            reply = (await client.ask(requests[0].messages)).reply
        except JudgeCallError as error:
            reply = Reply(error.reason, "error")
        replies.append({"text": reply.text, "finish_reason": reply.finish_reason})
        conversation = conversation.with_reply(requests[0].turn, reply)
    return replies


def outcome_of(replies: Sequence[dict[str, str]]) -> Judgment | None:
    """Return the judgment of replies; ``None`` without a verdict."""
    conversation = Conversation(PROMPTS, shipped_rubric().criteria, samples=1)
    for answer in replies:
        (request,) = conversation.open_requests()
        reply = Reply(answer["text"], answer["finish_reason"])
        conversation = conversation.with_reply(request.turn, reply)
    requests = conversation.open_requests()
    if not requests or requests[0].turn != MISSING_TOOLS_TURN:
        return None
    outcome = conversation.with_missing_tools_failed("not asked").outcome()
    return outcome if isinstance(outcome, Judgment) else None


def rejection(replies: Sequence[dict[str, str]], judgment: Judgment) -> str | None:
    """Return why the second reader rejects a judgment; ``None`` if it confirms it."""
    maximum = {criterion.id: criterion.points for criterion in shipped_rubric().criteria}
    texts = [reply["text"] for reply in replies if reply["finish_reason"] == "stop"]
    verdict = judgment.verdict
    return why_rejected(texts, verdict.total, verdict.criteria, maximum)


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Return the figures of a model as a row of a table."""
    judged = [(row, found) for row in rows if (found := outcome_of(row["replies"])) is not None]
    confirmed = [found for row, found in judged if rejection(row["replies"], found) is None]
    reminded = sum(len(row["replies"]) > 1 for row, _ in judged)
    whole = sum(not judgment.verdict.incomplete_criteria for judgment in confirmed)
    short = sum(judgment.verdict.short_analysis for judgment in confirmed)
    totals = {judgment.verdict.total for judgment in confirmed}
    counts = (len(rows), len(judged), len(confirmed), reminded, whole, short, len(totals))
    return " | ".join(str(count) for count in counts)


async def keep_replies(
    model: LocalModel, path: Path, named: Iterable[tuple[str, Conversation]], max_tokens: int
) -> None:
    """Append the replies in each conversation to a file, but for those that it has already.

    A failed call is told and not kept, so that it is made again the next time.
    """
    limits = CallLimits(
        max_output_tokens=max_tokens, timeout_s=_TIMEOUT_S, concurrency=1, attempts=1
    )
    endpoint = Endpoint(model.base_url, model.name)
    done = {row["session"] for row in read_rows(path)}
    async with JudgeClient(endpoint, limits, Price(1, 1)) as client:
        for name, conversation in named:
            if name in done:
                continue
            replies = await ask(client, conversation)
            if replies[-1]["finish_reason"] == "error":
                sys.stderr.write(f"{name}: {replies[-1]['text']}\n")
                continue
            with path.open("a") as kept:
                kept.write(f"{json.dumps({'session': name, 'replies': replies})}\n")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return what a file of replies holds; nothing if there is none."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    return [json.loads(line) for line in lines]


def rows_of(
    named: Iterable[tuple[str, Conversation]], chosen: argparse.Namespace
) -> list[dict[str, Any]]:
    """Ask the local model and return all replies, as the options ``--keep`` and ``--read`` say."""
    with tempfile.TemporaryDirectory() as folder:
        path = chosen.read or chosen.keep or Path(folder) / "replies.jsonl"
        if chosen.read is None:
            model_folder = Path(folder) / "model"
            model_folder.mkdir()
            with open_local_model(model_folder) as model:
                asyncio.run(keep_replies(model, path, named, chosen.max_tokens))
        return read_rows(path)


def attacked_sessions(attacks: int) -> list[LabeledSession]:
    """Return the sessions of a part of the attacks, one task after another."""
    everything = with_attacks(load_labeled(None))
    again = {session.task: session for session in everything if session.attack == ASKED_AGAIN}
    plain = {session.name: session for session in everything if session.attack is None}
    names = {*sampled([attack.name for attack in ATTACKS])[:attacks]}
    attacked = [session for session in everything if session.attack in names]
    return [
        session
        for task, repeated in again.items()
        for session in (
            plain[repeated.name.removesuffix(" again")],
            *(other for other in attacked if other.task == task),
            repeated,
            plain[task],
        )
    ]


def sampled(names: Sequence[str]) -> list[str]:
    """Return all names in an order of which each beginning is spread over the whole list."""
    return [name for first in (0, 2, 1, 3) for name in names[first::_STEP]]


def labeled_conversations(
    sessions: Iterable[LabeledSession],
) -> Iterator[tuple[str, Conversation]]:
    """Yield a conversation about each session.

    A session with and without hostile text has the same random words, so that nothing else differs.
    Asked again it has others, as any session has in a real run.
    """
    for session in sessions:
        words = session.name if session.attack == ASKED_AGAIN else session.task
        boundary = hashlib.sha256(words.encode()).hexdigest()[:32]
        yield session.name, conversation_about(session.events(), boundary)


def judged_sessions(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Return what the replies of a file say about its sessions."""
    by_name = {attack.name: attack for attack in with_attacks(load_labeled(None))}
    found = [_judged(by_name[row["session"]], row["replies"]) for row in rows]
    return pl.DataFrame(found, JUDGED_SESSIONS, orient="row")


def cells(found: pl.DataFrame) -> dict[str, str]:
    """Return the figures that have data as cells of a table: value, 95% interval and number."""
    return {
        name: f"{value:.2f} ({low:.2f} to {high:.2f}) of {number}"
        for name, value, low, high, number in found.drop_nulls().iter_rows()
    }


def _judged(session: LabeledSession, replies: Sequence[dict[str, str]]) -> dict[str, Any]:
    names = ("task", "name", "kind", "severity", "attack")
    facts = {name: getattr(session, name) for name in names} | {"is_unreachable": False}
    outcome = outcome_of(replies)
    if outcome is None:
        return {**facts, "problem": "no verdict"}
    return {**facts, "total": outcome.verdict.total, "tags": outcome.verdict.failure_tags}


def main() -> None:
    """Judge sessions with a local model and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-tokens", type=int, default=700)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--read", type=Path)
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--attacks", type=int, help="instead: how many of `judge validate`")
    given = parser.parse_args()
    if given.attacks is not None:
        rows = rows_of(labeled_conversations(attacked_sessions(given.attacks)), given)
        told = [f"{name} | {cell}" for name, cell in cells(figures(judged_sessions(rows))).items()]
    else:
        rows = rows_of(islice(conversations(), given.sessions), given)
        counts = (
            "sessions | verdicts | confirmed | after a reminder | all criteria | short | totals"
        )
        told = [counts, summary(rows)]
    sys.stdout.write("\n".join([*told, ""]))


if __name__ == "__main__":
    main()
