"""Behavior of the scripted judge that other tests rely on."""

import json
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.judging.domain.conversation import Conversation, Judgment
from evaluation_pipelines.judging.domain.prompt.messages import Message, Reply
from evaluation_pipelines.judging.domain.prompt.rubric import Rubric, render_prompts
from evaluation_pipelines.judging.rubric_files import load_rubrics
from evaluation_pipelines_tests.judge_endpoint import (
    JudgeEndpoint,
    open_judge_endpoint,
    open_judge_process,
)
from evaluation_pipelines_tests.judge_scripts import says, score_reply
from evaluation_pipelines_tests.judging.domain.judging_builders import BOUNDARY, transcript

FORM = "tidy: <points>/60\nquick: <points>/40\nfailure tags: <tags>\n<total>"


@pytest.fixture
def judge() -> Iterator[JudgeEndpoint]:
    """A scripted judge."""
    with open_judge_endpoint() as opened:
        yield opened


def post(base_url: str, *contents: str) -> Any:
    """Send a conversation with alternating user and assistant messages."""
    messages: list[Message] = []
    for content in contents:
        messages.append(Message("assistant" if len(messages) % 2 else "user", content))
    return send(base_url, messages)


def send(base_url: str, conversation: Sequence[Message]) -> Any:
    """Send a conversation and return the completion."""
    messages = [{"role": each.role, "content": each.content} for each in conversation]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    request = urllib.request.Request(f"{base_url}/chat/completions", body)  # noqa: S310 - a local address
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        return json.loads(answer.read())


def text_of(completion: Any) -> str:
    """Return the text of the reply."""
    text: str = completion["choices"][0]["message"]["content"]
    return text


def test_a_judgment_has_the_requested_form_and_adds_up(judge: JudgeEndpoint) -> None:
    lines = text_of(post(judge.base_url, f"{FORM}\nA session.")).splitlines()[-4:]

    points = [line.split(": ")[1].split("/") for line in lines[:2]]
    assert [line.split(":")[0] for line in lines[:3]] == ["tidy", "quick", "failure tags"]
    assert [most for _, most in points] == ["60", "40"]
    assert int(lines[3]) == sum(int(given) for given, _ in points)
    assert 50 <= int(lines[3]) <= 80


def test_the_same_session_gets_the_same_judgment_and_others_differ(
    judge: JudgeEndpoint,
) -> None:
    replies = [text_of(post(judge.base_url, f"{FORM}\nSession {name}.")) for name in "aabcdef"]

    assert replies[0] == replies[1]
    assert len(set(replies)) > 3


def test_turns_are_distinguished_and_can_be_scripted_separately(judge: JudgeEndpoint) -> None:
    judge.script_turn("missing-tools", says("None is missing."))
    judge.script_turn("reminder", says(score_reply(101)))

    post(judge.base_url, FORM)
    reminder = post(judge.base_url, FORM, "no numbers", f"It cannot be read:\n{FORM}")
    last = post(judge.base_url, FORM, "good work\n64", "Which tools should have been used?")
    again = post(judge.base_url, FORM, "good work\n64", "Which tools should have been used?")

    assert judge.turns() == ["score", "reminder", "missing-tools", "missing-tools"]
    assert text_of(reminder).endswith("\n101")
    assert text_of(last) == "None is missing."
    assert text_of(again).startswith("1. ")
    assert len({each.session for each in judge.requests}) == 1
    assert len({each.prompt for each in judge.requests}) == 3
    assert all(each.answered for each in judge.requests)


def test_the_prefix_of_an_earlier_prompt_counts_as_cached(judge: JudgeEndpoint) -> None:
    rubric = "".join(f"rule {number:05d}\n" for number in range(600))  # 600 * 11 = 6,600 characters

    first = post(judge.base_url, rubric + "a" * 1000)["usage"]
    second = post(judge.base_url, rubric + "b" * 1000)["usage"]
    follow_up = post(judge.base_url, rubric + "a" * 1000, "64", "Tools?")["usage"]

    assert first["prompt_tokens"] == 1900  # 7,600 / 4
    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    # Whole blocks of 128 tokens, which are 512 characters: 12 in 6,600, 14 in 7,600.
    assert second["prompt_tokens_details"]["cached_tokens"] == 12 * 128
    assert follow_up["prompt_tokens_details"]["cached_tokens"] == 14 * 128


def test_a_separate_process_prints_its_address_and_writes_a_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    with open_judge_process(0.01, journal) as base_url:
        post(base_url, FORM)

    events = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [(each["event"], each["turn"]) for each in events] == [
        ("asked", "score"),
        ("answered", "score"),
    ]


def converse(judge: JudgeEndpoint, rubric: Rubric) -> Conversation:
    """Return a complete conversation about a session."""
    prompts = render_prompts(rubric, rubric.criteria, transcript(), BOUNDARY)
    conversation = Conversation(prompts, rubric.criteria, samples=1)
    while open_requests := conversation.open_requests():
        (request,) = open_requests
        reply = send(judge.base_url, request.messages)
        conversation = conversation.with_reply(request.turn, Reply(text_of(reply), "stop"))
    return conversation


@pytest.mark.parametrize("name", ["agent-methodology", "incident-investigation"])
def test_it_judges_by_the_shipped_rubrics(judge: JudgeEndpoint, name: str) -> None:
    outcome = converse(judge, load_rubrics(None)[name]).outcome()

    assert isinstance(outcome, Judgment)
    assert sum(each or 0 for each in outcome.verdict.criteria.values()) == outcome.verdict.total
    assert outcome.verdict.failure_tags is not None
    assert outcome.missing_tools is not None
    assert judge.turns() == ["score", "missing-tools"]


@pytest.mark.parametrize("total", [101, "I would give it 64.", "64.5", "-64", "64/100"])
def test_an_invalid_total_is_requested_once_more(judge: JudgeEndpoint, total: int | str) -> None:
    judge.script_turn("score", says(score_reply(total)))

    outcome = converse(judge, load_rubrics(None)["agent-methodology"]).outcome()

    assert isinstance(outcome, Judgment)
    assert judge.turns() == ["score", "reminder", "missing-tools"]
