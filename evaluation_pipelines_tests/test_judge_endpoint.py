"""The scripted judge itself: what tests rely on when they rely on it."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.judging.domain.conversation import Conversation, Judgement
from evaluation_pipelines.judging.domain.prompt.messages import Reply
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
    """A judge that does what it is told."""
    with open_judge_endpoint() as opened:
        yield opened


def post(base_url: str, *contents: str) -> Any:
    """Send a conversation whose messages come from user and assistant in turn."""
    roles = ("user", "assistant")
    messages = [
        {"role": roles[number % 2], "content": content} for number, content in enumerate(contents)
    ]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    request = urllib.request.Request(f"{base_url}/chat/completions", body)  # noqa: S310 - its own
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        return json.loads(answer.read())


def text_of(completion: Any) -> str:
    """What was said."""
    text: str = completion["choices"][0]["message"]["content"]
    return text


def test_a_judgement_has_the_form_that_was_asked_for_and_adds_up(judge: JudgeEndpoint) -> None:
    lines = text_of(post(judge.base_url, f"{FORM}\nA session.")).splitlines()[-4:]

    points = [line.split(": ")[1].split("/") for line in lines[:2]]
    assert [line.split(":")[0] for line in lines[:3]] == ["tidy", "quick", "failure tags"]
    assert [most for _, most in points] == ["60", "40"]
    assert int(lines[3]) == sum(int(given) for given, _ in points)
    assert 50 <= int(lines[3]) <= 80


def test_the_same_session_gets_the_same_judgement_and_others_get_others(
    judge: JudgeEndpoint,
) -> None:
    said = [text_of(post(judge.base_url, f"{FORM}\nSession {name}.")) for name in "aabcdef"]

    assert said[0] == said[1]
    assert len(set(said)) > 3


def test_turns_are_told_apart_and_can_be_scripted_apart(judge: JudgeEndpoint) -> None:
    judge.script_turn("missing-tools", says("None is missing."))
    judge.script_turn("reminder", says(score_reply(101)))

    post(judge.base_url, FORM)
    reminder = post(judge.base_url, FORM, "no numbers", f"Answer with these lines alone:\n{FORM}")
    last = post(judge.base_url, FORM, "good work\n64", "Which tools should have been used?")
    again = post(judge.base_url, FORM, "good work\n64", "Which tools should have been used?")

    assert judge.turns() == ["score", "reminder", "missing-tools", "missing-tools"]
    assert text_of(reminder).endswith("\n101")
    assert text_of(last) == "None is missing."
    assert text_of(again).startswith("1. ")
    assert len({each.session for each in judge.requests}) == 1
    assert len({each.prompt for each in judge.requests}) == 3
    assert all(each.answered for each in judge.requests)


def test_what_an_earlier_prompt_began_with_counts_as_cached(judge: JudgeEndpoint) -> None:
    rubric = "".join(f"rule {number:05d}\n" for number in range(600))  # 600 * 11 = 6,600 letters

    first = post(judge.base_url, rubric + "a" * 1000)["usage"]
    second = post(judge.base_url, rubric + "b" * 1000)["usage"]
    follow_up = post(judge.base_url, rubric + "a" * 1000, "64", "Tools?")["usage"]

    assert first["prompt_tokens"] == 1900  # 7,600 / 4
    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    # Whole blocks of 128 tokens, which are 512 letters: 12 in 6,600, 14 in 7,600.
    assert second["prompt_tokens_details"]["cached_tokens"] == 12 * 128
    assert follow_up["prompt_tokens_details"]["cached_tokens"] == 14 * 128


def test_in_a_process_of_its_own_it_tells_its_address_and_keeps_a_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    with open_judge_process(0.01, journal) as base_url:
        post(base_url, FORM)

    events = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [(each["event"], each["turn"]) for each in events] == [
        ("asked", "score"),
        ("answered", "score"),
    ]


def converse(judge: JudgeEndpoint, rubric: Rubric) -> Conversation:
    """A conversation about a session, led to its end."""
    prompts = render_prompts(rubric, rubric.criteria, transcript(), BOUNDARY)
    begun = Conversation(prompts, rubric.criteria, samples=1)
    while open_requests := begun.open_requests():
        (request,) = open_requests
        said = post(judge.base_url, *(each.content for each in request.messages))
        begun = begun.with_reply(request.turn, Reply(text_of(said), "stop"))
    return begun


@pytest.mark.parametrize("name", ["agent-methodology", "incident-investigation"])
def test_it_judges_by_the_rubrics_that_ship(judge: JudgeEndpoint, name: str) -> None:
    outcome = converse(judge, load_rubrics(None)[name]).outcome()

    assert isinstance(outcome, Judgement)
    assert sum(outcome.verdict.criteria.values()) == outcome.verdict.total
    assert outcome.verdict.failure_tags is not None
    assert outcome.missing_tools is not None
    assert judge.turns() == ["score", "missing-tools"]


@pytest.mark.parametrize("total", [101, "I would give it 64.", "64.5", "-64", "64/100"])
def test_a_spoiled_total_is_asked_for_once_more(judge: JudgeEndpoint, total: int | str) -> None:
    judge.script_turn("score", says(score_reply(total)))

    outcome = converse(judge, load_rubrics(None)["agent-methodology"]).outcome()

    assert isinstance(outcome, Judgement)
    assert judge.turns() == ["score", "reminder", "missing-tools"]
