"""The conversation goes on by replies alone, and ends in a judgement or says why not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.conversation import (
    Conversation,
    FailedConversation,
    Judgement,
    Message,
    Reply,
)
from evaluation_pipelines_tests.judging.domain.judging_builders import (
    CRITERIA,
    PROMPTS,
    conversation,
    form,
    said,
)

ALONE = form(10, 10, 10, 10, analysis="")
"""A form as a reminder asks for it: 40 in all."""


def turns(talk: Conversation) -> list[str]:
    return [request.turn for request in talk.open_requests()]


def texts(talk: Conversation) -> list[str]:
    """The messages of the only request that is open."""
    (request,) = talk.open_requests()
    return [message.content for message in request.messages]


def judgement(talk: Conversation) -> Judgement:
    result = talk.outcome()
    assert isinstance(result, Judgement), result
    return result


def test_score_turn_then_missing_tools_in_the_same_context() -> None:
    talk = conversation()
    assert turns(talk) == ["score-1"]
    assert talk.outcome() is None
    assert texts(talk) == [PROMPTS.score]

    talk = talk.with_reply("score-1", said(form()))
    assert turns(talk) == ["missing-tools"]
    assert talk.outcome() is None
    (request,) = talk.open_requests()
    assert request.messages == (
        Message("user", PROMPTS.score),
        Message("assistant", form()),
        Message("user", PROMPTS.missing_tools),
    )

    talk = talk.with_reply("missing-tools", said("1. git log: shows when it broke.\n"))
    assert talk.open_requests() == ()
    result = judgement(talk)
    assert result.verdict.total == 57
    assert (result.sample_totals, result.spread, result.sample_errors) == ((57,), None, ())
    assert result.missing_tools == "1. git log: shows when it broke."
    assert result.missing_tools_error is None


def test_a_reminder_is_asked_once_in_the_same_context_and_keeps_the_analysis() -> None:
    first = "A long analysis.\nfailure tags: wrong_conclusion\n57"
    talk = conversation().with_reply("score-1", said(first))
    assert turns(talk) == ["score-1-reminder"]
    prompt, answer, reminder = texts(talk)
    assert (prompt, answer) == (PROMPTS.score, first)
    assert "there is no line `logical_flow: <points>/25`" in reminder
    assert "synthesis_quality: <points>/25\nfailure tags: <tags>\n<total>" in reminder

    talk = talk.with_reply("score-1-reminder", said(ALONE))
    assert turns(talk) == ["missing-tools"]
    assert texts(talk) == [prompt, answer, reminder, ALONE, PROMPTS.missing_tools]

    verdict = judgement(talk.with_reply("missing-tools", said("None."))).verdict
    assert verdict.total == 40
    assert verdict.failure_tags == ()
    assert verdict.analysis == "A long analysis.\nfailure tags: wrong_conclusion"


def test_a_second_message_without_form_fails_the_score_and_keeps_both_replies() -> None:
    talk = conversation().with_reply("score-1", said("Good work, 90/100"))
    talk = talk.with_reply("score-1-reminder", said("I said 90/100"))

    assert talk.open_requests() == ()
    assert talk.outcome() == FailedConversation(
        "no verdict, even after a reminder: the last line does not hold a whole number from 0 to "
        "100 alone",
        retriable=True,
    )
    assert [reply.text for _, reply in talk.replies] == ["Good work, 90/100", "I said 90/100"]


@pytest.mark.parametrize(
    ("reply", "reason", "retriable"),
    [
        (Reply(form(), "length"), "the judge's answer was cut by the token limit", True),
        (Reply(form(), "max_tokens"), "the judge's answer was cut by the token limit", True),
        (Reply(form(), "content_filter"), "the judge refused (content_filter)", False),
        (Reply(form(), "refusal"), "the judge refused (refusal)", False),
        (Reply(" \n", "stop"), "the judge's answer was empty", True),
    ],
)
@pytest.mark.parametrize("reminded", [False, True])
def test_what_was_cut_refused_or_empty_fails_whatever_number_stands_in_it(
    reply: Reply, reason: str, *, retriable: bool, reminded: bool
) -> None:
    talk = conversation()
    if reminded:
        talk = talk.with_reply("score-1", said("no form"))
    talk = talk.with_reply("score-1-reminder" if reminded else "score-1", reply)

    result = talk.outcome()

    assert isinstance(result, FailedConversation)
    assert result.reason.startswith(reason)
    assert result.retriable is retriable
    assert talk.open_requests() == ()


def test_a_refusal_in_words_is_not_asked_again_another_day() -> None:
    talk = conversation().with_reply("score-1", said("I\u2019m sorry, but I can't assist."))
    talk = talk.with_reply("score-1-reminder", said("Sorry, I will not rate this."))

    result = talk.outcome()

    assert isinstance(result, FailedConversation)
    assert result.reason.startswith("the judge refused: ")
    assert not result.retriable


def test_an_apology_with_the_form_is_no_refusal() -> None:
    talk = conversation().with_reply("score-1", said("no form"))
    talk = talk.with_reply("score-1-reminder", said(f"Sorry for that.\n{ALONE}"))

    assert turns(talk) == ["missing-tools"]


@pytest.mark.parametrize("totals", [(57, 40, 80), (80, 57, 40), (40, 80, 57)])
def test_the_lower_median_of_the_samples_is_kept(totals: tuple[int, ...]) -> None:
    talk = conversation(samples=3)
    assert turns(talk) == ["score-1", "score-2", "score-3"]
    for number, total in enumerate(totals, start=1):
        talk = talk.with_reply(f"score-{number}", said(form(total=total, analysis=f"A{total}")))
    assert texts(talk)[1].startswith("A57")

    result = judgement(talk.with_reply("missing-tools", said("None.")))

    assert result.verdict.total == 57
    assert result.verdict.analysis.startswith("A57")
    assert result.sample_totals == totals
    # Mean 59; (4 + 361 + 441) / 2 = 403, whose root is 20.07.
    assert result.spread == pytest.approx(20.0749, abs=1e-4)


def test_of_two_samples_the_lower_and_of_equal_ones_the_first_is_kept() -> None:
    two = conversation(samples=2)
    lower = two.with_reply("score-1", said(form(total=60))).with_reply(
        "score-2", said(form(total=55, analysis="lower"))
    )
    assert texts(lower)[1].startswith("lower")

    equal = two.with_reply("score-2", said(form(analysis="second"))).with_reply(
        "score-1", said(form(analysis="first"))
    )
    assert texts(equal)[1].startswith("first")


def test_a_sample_that_fails_is_named_and_the_others_count() -> None:
    talk = conversation(samples=3).with_reply("score-2", Reply(form(), "length"))
    talk = talk.with_reply("score-3", said("no form"))
    assert turns(talk) == ["score-1", "score-3-reminder"]  # score turns come first
    talk = talk.with_reply("score-3-reminder", said("no form"))
    talk = talk.with_reply("score-1", said(form()))

    result = judgement(talk.with_reply("missing-tools", said("None.")))

    assert (result.sample_totals, result.spread) == ((57,), None)
    assert [reason.split(";")[0] for reason in result.sample_errors] == [
        "the judge's answer was cut by the token limit",
        (
            "no verdict, even after a reminder: the last line does not hold a whole number "
            "from 0 to 100 alone"
        ),
    ]


def test_when_all_samples_fail_each_reason_is_told_once() -> None:
    talk = conversation(samples=3)
    for number in (1, 2):
        talk = talk.with_reply(f"score-{number}", Reply("", "content_filter"))
    assert talk.outcome() is None
    talk = talk.with_reply("score-3", Reply("", "stop"))

    assert talk.outcome() == FailedConversation(
        "the judge refused (content_filter); the judge's answer was empty", retriable=True
    )


@pytest.mark.parametrize("finish_reason", ["length", "content_filter"])
def test_a_useless_answer_about_missing_tools_leaves_the_score(finish_reason: str) -> None:
    talk = conversation().with_reply("score-1", said(form()))

    result = judgement(talk.with_reply("missing-tools", Reply("1. git", finish_reason)))

    assert result.verdict.total == 57
    assert result.missing_tools is None
    assert result.missing_tools_error


def test_a_missing_tools_turn_that_never_came_leaves_the_score() -> None:
    talk = conversation().with_reply("score-1", said(form()))

    talk = talk.with_missing_tools_failed("the endpoint answered 500 three times")

    assert talk.open_requests() == ()
    result = judgement(talk)
    assert result.verdict.total == 57
    assert result.missing_tools is None
    assert result.missing_tools_error == "the endpoint answered 500 three times"
    with pytest.raises(ValueError, match="not open"):
        talk.with_missing_tools_failed("again")


@pytest.mark.parametrize("turn", ["score-2", "score-1-reminder", "missing-tools", ""])
def test_a_reply_to_a_turn_that_was_not_asked_is_refused(turn: str) -> None:
    with pytest.raises(ValueError, match="is not open; open are: score-1"):
        conversation().with_reply(turn, said(form()))


def test_a_turn_is_answered_once() -> None:
    talk = conversation().with_reply("score-1", said(form()))
    with pytest.raises(ValueError, match="open are: missing-tools"):
        talk.with_reply("score-1", said(form()))

    done = talk.with_reply("missing-tools", said("None."))
    with pytest.raises(ValueError, match="open are: none"):
        done.with_reply("missing-tools", said("None."))
    with pytest.raises(ValueError, match="not open"):
        conversation().with_missing_tools_failed("too early")


def test_no_sample_is_no_conversation() -> None:
    with pytest.raises(ValueError, match="0 samples"):
        conversation(samples=0)


REPLIES = st.builds(
    Reply,
    st.sampled_from([form(), form(total=20), ALONE, "no form", "", "Sorry, no."]),
    st.sampled_from(["stop", "length", "content_filter"]),
)


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 9), REPLIES), min_size=12, max_size=12))
def test_every_conversation_ends_and_its_log_leads_to_the_same_state(
    samples: int, answers: list[tuple[int, Reply]]
) -> None:
    talk = conversation(samples)
    for choice, reply in answers:
        asked = talk.open_requests()
        if asked:
            assert talk.outcome() is None
            talk = talk.with_reply(asked[choice % len(asked)].turn, reply)

    # A score turn and a reminder each, and one question: at most 4 * 2 + 1 = 9 turns.
    assert talk.outcome() is not None
    replayed = Conversation(PROMPTS, CRITERIA, samples)
    for turn, reply in talk.replies:
        replayed = replayed.with_reply(turn, reply)
    assert replayed == talk
    assert replayed.outcome() == talk.outcome()
