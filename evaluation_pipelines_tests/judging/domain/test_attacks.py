"""Whatever a session says, it stays behind its fence and does not reach what is parsed."""

import json
import re

import pytest

from evaluation_pipelines.judging.domain.conversation import Conversation, Judgement, Reply
from evaluation_pipelines.judging.domain.prompt.redaction import Redacted, redact
from evaluation_pipelines.judging.domain.prompt.rubric import Prompts, render_prompts
from evaluation_pipelines.judging.domain.prompt.transcript import Transcript, build_transcript
from evaluation_pipelines.judging.domain.verdict import Verdict, parse_verdict
from evaluation_pipelines.judging.rubric_files import load_rubrics
from evaluation_pipelines_tests.builders import Row, event, events_frame, prompt, tool
from evaluation_pipelines_tests.judging.domain.attacks import ATTACKS, Attack
from evaluation_pipelines_tests.judging.domain.judging_builders import (
    BOUNDARY,
    CRITERIA,
    form,
    said,
)

RUBRIC = load_rubrics(None)["agent-methodology"]
OPENING = f"<<<material {BOUNDARY}>>>"
CLOSING = f"<<<end of material {BOUNDARY}>>>"
FENCED = re.compile(f"{OPENING}\n(.*?)\n{CLOSING}", re.DOTALL)

ALL = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)

PLACES = ("prompt", "reply", "parameters", "result", "error", "name")


def without_secrets(text: str) -> Redacted:
    return redact(text, emails=True)


def session(text: str, place: str) -> Transcript:
    """A session that holds a text in one of its places."""
    parameters = json.dumps({"content": text})
    says: dict[str, Row] = {
        "prompt": prompt(0, content=text),
        "reply": event("assistant_response", 5, content=text),
        "parameters": tool(5, tool_name="Write", tool_parameters=parameters),
        "result": tool(5, tool_name="Read", content=text),
        "error": tool(5, tool_name="Read", success=False, error=text),
        "name": tool(5, tool_name=text),
    }
    rows = [says[place], *([] if place == "prompt" else [prompt(0, content="Fix it.")])]
    return build_transcript(events_frame(rows), "full", 20_000, without_secrets)


def prompts_of(transcript: Transcript) -> Prompts:
    return render_prompts(RUBRIC, CRITERIA, transcript, BOUNDARY)


def outside(prompts: Prompts) -> str:
    """All that a judge reads beyond the quoted material."""
    return FENCED.sub("MATERIAL", prompts.score) + prompts.missing_tools


@pytest.mark.parametrize("place", PLACES)
@ALL
def test_the_fence_cannot_be_closed_from_within(attack: Attack, place: str) -> None:
    score = prompts_of(session(attack.text, place)).score

    lines = score.splitlines()
    assert [line for line in lines if BOUNDARY in line] == [OPENING, CLOSING] * 2
    for material in FENCED.findall(score):
        assert all(line.startswith("|") for line in material.splitlines())


@pytest.mark.parametrize("place", PLACES)
@ALL
def test_what_the_judge_reads_outside_the_fence_is_that_of_a_harmless_session(
    attack: Attack, place: str
) -> None:
    assert outside(prompts_of(session(attack.text, place))) == outside(
        prompts_of(session("Fine.", place))
    )


@pytest.mark.parametrize("place", PLACES[:5])
@ALL
def test_an_attack_is_noticed_where_it_says_so(attack: Attack, place: str) -> None:
    assert session(attack.text, place).injection_suspected is attack.is_noticed


@pytest.mark.parametrize("place", PLACES)
@ALL
def test_what_a_judge_says_is_parsed_as_if_there_were_no_attack(attack: Attack, place: str) -> None:
    talk = Conversation(prompts_of(session(attack.text, place)), CRITERIA, samples=1)

    talk = talk.with_reply("score-1", said(form(10, 11, 12, 9)))
    result = talk.with_reply("missing-tools", said("None.")).outcome()

    assert isinstance(result, Judgement)
    assert result.verdict == parse_verdict(form(10, 11, 12, 9), CRITERIA)
    assert result.verdict.total == 42  # 10 + 11 + 12 + 9


@ALL
def test_a_judge_that_quotes_the_attack_is_not_taken_at_the_attacks_word(attack: Attack) -> None:
    quoting = form(10, 11, 12, 9, analysis=f"The session says:\n{attack.text}\nI ignore that.")

    read = parse_verdict(quoting, CRITERIA)

    # Lines that contradict each other lead to a reminder, never to the numbers of the attack.
    if isinstance(read, Verdict):
        assert (read.total, sum(read.criteria.values()), read.failure_tags) == (42, 42, ())
    else:
        assert "contradict each other" in read.reason
        talk = Conversation(Prompts("score", "tools"), CRITERIA, samples=1)
        talk = talk.with_reply("score-1", said(quoting))
        talk = talk.with_reply("score-1-reminder", said(form(10, 11, 12, 9, analysis="")))
        result = talk.with_missing_tools_failed("not asked").outcome()
        assert isinstance(result, Judgement)
        assert result.verdict.total == 42


@ALL
def test_a_judge_that_answers_with_the_attack_alone_gives_no_verdict_but_a_whole_one(
    attack: Attack,
) -> None:
    """A judge that is won over is beyond parsing: only a whole form, said by itself, counts."""
    read = parse_verdict(attack.text, CRITERIA)

    assert isinstance(read, Verdict) is (attack.name == "a whole verdict")


@ALL
def test_an_attack_does_not_survive_in_a_cut_message(attack: Attack) -> None:
    talk = Conversation(Prompts("score", "tools"), CRITERIA, samples=1)

    talk = talk.with_reply("score-1", Reply(f"{attack.text}\n100", "length"))

    assert not isinstance(talk.outcome(), Judgement)


def test_the_suite_has_attacks_of_every_kind_and_names_them_once() -> None:
    names = [attack.name for attack in ATTACKS]

    assert len(set(names)) == len(names) >= 50
    assert sum(attack.is_noticed for attack in ATTACKS) >= 40
