"""A conversation changes only by replies and ends with a judgment or a reason."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.conversation import (
    Conversation,
    FailedConversation,
)
from evaluation_pipelines.judging.domain.prompt.messages import Message, Reply
from evaluation_pipelines_tests.judging.domain.judging_builders import (
    CRITERIA,
    PROMPTS,
    conversation,
    form,
    judgment,
    said,
    texts,
    turns,
)

ALONE = form(10, 10, 10, 10, analysis="")
"""Answer to a reminder; the total is 40."""


def test_score_turn_then_missing_tools_in_the_same_context() -> None:
    dialog = conversation()
    assert turns(dialog) == ["score-1"]
    assert dialog.outcome() is None
    assert texts(dialog) == [PROMPTS.score]

    dialog = dialog.with_reply("score-1", said(form()))
    assert turns(dialog) == ["missing-tools"]
    assert dialog.outcome() is None
    (request,) = dialog.open_requests()
    assert request.messages == (
        Message("user", PROMPTS.score),
        Message("assistant", form()),
        Message("user", PROMPTS.missing_tools),
    )

    dialog = dialog.with_reply("missing-tools", said("1. git log: shows when it broke.\n"))
    assert dialog.open_requests() == ()
    result = judgment(dialog)
    assert result.verdict.total == 57
    assert (result.sample_totals, result.spread, result.sample_errors) == ((57,), None, ())
    assert result.missing_tools == "1. git log: shows when it broke."
    assert result.missing_tools_error is None


def test_one_reminder_follows_in_the_same_context_and_keeps_the_analysis() -> None:
    first = "A long analysis.\nfailure tags: wrong_conclusion\n57"
    dialog = conversation().with_reply("score-1", said(first))
    assert turns(dialog) == ["score-1-reminder"]
    prompt, answer, reminder = texts(dialog)
    assert (prompt, answer) == (PROMPTS.score, first)
    assert "there is no line `logical_flow: <points>/25`" in reminder
    assert reminder.endswith("tool_relevance: <points>/25\nsynthesis_quality: <points>/25")

    dialog = dialog.with_reply("score-1-reminder", said(ALONE))
    assert turns(dialog) == ["missing-tools"]
    assert texts(dialog) == [prompt, answer, reminder, ALONE, PROMPTS.missing_tools]

    verdict = judgment(dialog.with_reply("missing-tools", said("None."))).verdict
    assert verdict.total == 40
    assert verdict.failure_tags == ()
    assert verdict.analysis == "A long analysis.\nfailure tags: wrong_conclusion"


def test_the_reminder_asks_for_the_total_alone_if_only_that_is_missing() -> None:
    dialog = conversation().with_reply("score-1", said(form(total="The score is 57.")))

    reminder = texts(dialog)[-1]
    assert reminder.endswith(
        "Answer with the total alone: one whole number from 0 to 100, and nothing else."
    )
    assert "<points>" not in reminder
    dialog = dialog.with_reply("score-1-reminder", said("57"))
    assert judgment(dialog.with_reply("missing-tools", said("None."))).verdict.total == 57


def test_after_a_message_without_the_form_the_total_alone_is_asked_for() -> None:
    dialog = conversation().with_reply("score-1", said("logical_flow: 25\n<total>"))

    assert "\n\n" not in texts(dialog)[-1]
    dialog = dialog.with_reply("score-1-reminder", said("100"))
    verdict = judgment(dialog.with_reply("missing-tools", said("None."))).verdict
    assert (verdict.total, set(verdict.criteria.values())) == (100, {None})
    assert verdict.incomplete_criteria


@pytest.mark.parametrize(
    "second", [said(""), said("consistency: 16/25", "length"), said("no", "content_filter")]
)
def test_a_total_completes_the_score_whatever_the_reminder_brings(second: Reply) -> None:
    first = form().replace("consistency: 16/25", "")
    dialog = conversation().with_reply("score-1", said(first))
    dialog = dialog.with_reply("score-1-reminder", second)

    verdict = judgment(dialog.with_reply("missing-tools", said("None."))).verdict
    assert (verdict.total, verdict.criteria["consistency"]) == (57, None)
    assert verdict.incomplete_criteria


def test_instructions_stand_in_a_system_message_before_every_turn() -> None:
    prompts = replace(PROMPTS, system="You judge.")
    dialog = Conversation(prompts, CRITERIA, 1).with_reply("score-1", said(form()))

    (request,) = dialog.open_requests()
    assert [each.role for each in request.messages] == ["system", "user", "assistant", "user"]
    assert request.messages[0].content == "You judge."


def test_a_refusal_is_no_answer_to_the_second_question() -> None:
    dialog = conversation().with_reply("score-1", said(form()))

    result = judgment(dialog.with_reply("missing-tools", said("I'm sorry, I cannot do that.")))
    assert result.missing_tools is None
    assert result.missing_tools_error == "the judge refused to answer"
    denied = said("I can't see anything wrong. No tool was missing.")
    assert judgment(dialog.with_reply("missing-tools", denied)).missing_tools is not None


def test_a_second_answer_without_the_form_fails_the_score() -> None:
    dialog = conversation().with_reply("score-1", said("Good work, 90/100"))
    dialog = dialog.with_reply("score-1-reminder", said("I said 90/100"))

    assert dialog.open_requests() == ()
    assert dialog.outcome() == FailedConversation(
        "no verdict, even after a reminder: the last line does not hold a whole number from 0 to "
        "100 alone",
        retriable=True,
    )
    assert [reply.text for _, reply in dialog.replies] == ["Good work, 90/100", "I said 90/100"]


@pytest.mark.parametrize(
    ("reply", "reason", "retriable"),
    [
        (Reply(form(), "error"), "the endpoint gave up within the judge's answer (error)", True),
        (Reply(form(), "SAFETY"), "the judge refused (SAFETY)", False),
        (Reply(form(), "content_filter"), "the judge refused (content_filter)", False),
        (Reply(form(), "refusal"), "the judge refused (refusal)", False),
        (Reply(" \n", "stop"), "the judge's answer was empty", True),
    ],
)
@pytest.mark.parametrize("reminded", [False, True])
def test_a_broken_refused_or_empty_answer_fails(
    reply: Reply, reason: str, *, retriable: bool, reminded: bool
) -> None:
    dialog = conversation()
    if reminded:
        dialog = dialog.with_reply("score-1", said("no form"))
    dialog = dialog.with_reply("score-1-reminder" if reminded else "score-1", reply)

    result = dialog.outcome()

    assert isinstance(result, FailedConversation)
    assert result.reason.startswith(reason)
    assert result.retriable is retriable
    assert dialog.open_requests() == ()


CUT = "the judge's answer was cut by the token limit. Raise EVAL_JUDGE_MAX_OUTPUT_TOKENS"


@pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS"])
def test_after_a_cut_answer_a_short_one_is_asked_for_without_the_cut_text(reason: str) -> None:
    prompts = replace(PROMPTS, system="You judge.")
    dialog = Conversation(prompts, CRITERIA, 1).with_reply("score-1", Reply("Loop. " * 9, reason))

    assert dialog.outcome() is None
    (request,) = dialog.open_requests()
    assert (request.turn, [each.role for each in request.messages]) == (
        "score-1-reminder",
        ["system", "user"],
    )
    asked = request.messages[-1].content
    assert asked.startswith(f"{PROMPTS.score}\n\n")  # caches of the endpoint find the prompt
    assert "at most 100 words" in asked
    dialog = dialog.with_reply("score-1-reminder", said(form(total=57, analysis="Short.")))
    (question,) = dialog.open_requests()
    assert [each.role for each in question.messages] == ["system", "user", "assistant", "user"]
    verdict = judgment(dialog.with_reply("missing-tools", said("None."))).verdict
    assert (verdict.total, verdict.analysis.split("\n")[0]) == (57, "Short.")
    assert (verdict.short_analysis, verdict.numbers_from_reminder) == (True, False)


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (Reply(form(), "length"), CUT),
        (said(""), "the judge's answer was empty"),
        (
            said("Good."),
            (
                f"{CUT}. A short answer has no verdict: the last line does not hold a whole number "
                "from 0 to 100 alone"
            ),
        ),
    ],
)
def test_a_cut_answer_counts_for_nothing_whatever_it_says(second: Reply, reason: str) -> None:
    dialog = conversation().with_reply("score-1", Reply(form(), "length"))
    dialog = dialog.with_reply("score-1-reminder", second)

    assert dialog.open_requests() == ()
    assert dialog.outcome() == FailedConversation(reason, retriable=True)


def test_a_short_answer_may_lack_criteria_and_takes_none_from_the_cut_one() -> None:
    dialog = conversation().with_reply("score-1", Reply(form(), "length"))
    dialog = dialog.with_reply("score-1-reminder", said("Short.\n40"))

    verdict = judgment(dialog.with_reply("missing-tools", said("None."))).verdict
    assert (verdict.total, set(verdict.criteria.values())) == (40, {None})
    assert (verdict.analysis, verdict.incomplete_criteria) == ("Short.", True)


def test_a_cut_answer_to_a_reminder_fails() -> None:
    dialog = conversation().with_reply("score-1", said("no form"))

    failed = dialog.with_reply("score-1-reminder", Reply(form(), "length")).outcome()
    assert failed == FailedConversation(CUT, retriable=True)


def test_a_refusal_in_words_is_not_retriable() -> None:
    dialog = conversation().with_reply("score-1", said("I\u2019m sorry, but I can't assist."))
    dialog = dialog.with_reply("score-1-reminder", said("Sorry, I will not rate this."))

    result = dialog.outcome()

    assert isinstance(result, FailedConversation)
    assert result.reason.startswith("the judge refused: ")
    assert not result.retriable


@pytest.mark.parametrize(
    "answers", [("Sorry, I will not.", "No form."), ("No form.", "Sorry, I will not.")]
)
def test_one_refusal_in_words_of_two_answers_is_retriable(answers: tuple[str, str]) -> None:
    dialog = conversation().with_reply("score-1", said(answers[0]))
    result = dialog.with_reply("score-1-reminder", said(answers[1])).outcome()

    assert isinstance(result, FailedConversation)
    assert result.reason.startswith("no verdict, even after a reminder: ")
    assert result.retriable


def test_an_apology_with_a_verdict_is_not_a_refusal() -> None:
    dialog = conversation().with_reply("score-1", said("no form"))
    dialog = dialog.with_reply("score-1-reminder", said(f"Sorry for that.\n{ALONE}"))

    assert turns(dialog) == ["missing-tools"]


@pytest.mark.parametrize("finish_reason", ["length", "content_filter"])
def test_an_unusable_missing_tools_answer_keeps_the_score(finish_reason: str) -> None:
    dialog = conversation().with_reply("score-1", said(form()))

    result = judgment(dialog.with_reply("missing-tools", Reply("1. git", finish_reason)))

    assert result.verdict.total == 57
    assert result.missing_tools is None
    assert result.missing_tools_error


def test_a_failed_missing_tools_turn_keeps_the_score() -> None:
    dialog = conversation().with_reply("score-1", said(form()))

    dialog = dialog.with_missing_tools_failed("the endpoint answered 500 three times")

    assert dialog.open_requests() == ()
    result = judgment(dialog)
    assert result.verdict.total == 57
    assert result.missing_tools is None
    assert result.missing_tools_error == "the endpoint answered 500 three times"
    with pytest.raises(ValueError, match="not open"):
        dialog.with_missing_tools_failed("again")


@pytest.mark.parametrize("turn", ["score-2", "score-1-reminder", "missing-tools", ""])
def test_a_reply_to_a_turn_that_is_not_open_is_refused(turn: str) -> None:
    with pytest.raises(ValueError, match=r"is not open\. Open turns: score-1"):
        conversation().with_reply(turn, said(form()))


def test_a_turn_is_answered_once() -> None:
    dialog = conversation().with_reply("score-1", said(form()))
    with pytest.raises(ValueError, match="Open turns: missing-tools"):
        dialog.with_reply("score-1", said(form()))

    done = dialog.with_reply("missing-tools", said("None."))
    with pytest.raises(ValueError, match="Open turns: none"):
        done.with_reply("missing-tools", said("None."))
    with pytest.raises(ValueError, match="not open"):
        conversation().with_missing_tools_failed("too early")


def test_a_conversation_needs_a_sample() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        conversation(samples=0)


REPLIES = st.builds(
    Reply,
    st.sampled_from([form(), form(total=20), ALONE, "no form", "", "Sorry, no."]),
    st.sampled_from(["stop", "length", "content_filter"]),
)


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 9), REPLIES), min_size=12, max_size=12))
def test_every_conversation_ends_and_its_log_restores_its_state(
    samples: int, answers: list[tuple[int, Reply]]
) -> None:
    dialog = conversation(samples)
    for choice, reply in answers:
        asked = dialog.open_requests()
        if asked:
            assert dialog.outcome() is None
            dialog = dialog.with_reply(asked[choice % len(asked)].turn, reply)

    # A score turn and a reminder each, and one question: at most 4 * 2 + 1 = 9 turns.
    assert dialog.outcome() is not None
    replayed = Conversation(PROMPTS, CRITERIA, samples)
    for turn, reply in dialog.replies:
        replayed = replayed.with_reply(turn, reply)
    assert replayed == dialog
    assert replayed.outcome() == dialog.outcome()


@pytest.mark.parametrize("totals", [(57, 40, 80), (80, 57, 40), (40, 80, 57)])
def test_the_lower_median_of_the_samples_is_kept(totals: tuple[int, ...]) -> None:
    dialog = conversation(samples=3)
    assert turns(dialog) == ["score-1", "score-2", "score-3"]
    for number, total in enumerate(totals, start=1):
        dialog = dialog.with_reply(f"score-{number}", said(form(total=total, analysis=f"A{total}")))
    assert texts(dialog)[1].startswith("A57")

    result = judgment(dialog.with_reply("missing-tools", said("None.")))

    assert result.verdict.total == 57
    assert result.verdict.analysis.startswith("A57")
    assert result.sample_totals == totals
    # Mean 59; (4 + 361 + 441) / 2 = 403; the square root is 20.07.
    assert result.spread == pytest.approx(20.0749, abs=1e-4)


def test_the_lower_of_two_samples_and_the_first_of_equal_ones_is_kept() -> None:
    two = conversation(samples=2)
    lower = two.with_reply("score-1", said(form(total=60))).with_reply(
        "score-2", said(form(total=55, analysis="lower"))
    )
    assert texts(lower)[1].startswith("lower")
    # Mean 57.5; (6.25 + 6.25) / 1 = 12.5; the square root is 3.5355.
    spread = judgment(lower.with_reply("missing-tools", said("None."))).spread
    assert spread == pytest.approx(3.5355, abs=1e-4)

    equal = two.with_reply("score-2", said(form(analysis="second"))).with_reply(
        "score-1", said(form(analysis="first"))
    )
    assert texts(equal)[1].startswith("first")


def test_a_failed_sample_is_reported_and_the_others_count() -> None:
    dialog = conversation(samples=3).with_reply("score-2", Reply(form(), "length"))
    dialog = dialog.with_reply("score-3", said("no form"))
    # score turns come first
    assert turns(dialog) == ["score-1", "score-2-reminder", "score-3-reminder"]
    dialog = dialog.with_reply("score-2-reminder", Reply(form(), "length"))
    dialog = dialog.with_reply("score-3-reminder", said("no form"))
    dialog = dialog.with_reply("score-1", said(form()))

    result = judgment(dialog.with_reply("missing-tools", said("None.")))

    assert (result.sample_totals, result.spread) == ((57,), None)
    assert [reason.split(". ")[0] for reason in result.sample_errors] == [
        "the judge's answer was cut by the token limit",
        (
            "no verdict, even after a reminder: the last line does not hold a whole number "
            "from 0 to 100 alone"
        ),
    ]


def test_if_all_samples_fail_each_reason_is_given_once() -> None:
    dialog = conversation(samples=3)
    for number in (1, 2):
        dialog = dialog.with_reply(f"score-{number}", Reply("", "content_filter"))
    assert dialog.outcome() is None
    dialog = dialog.with_reply("score-3", Reply("", "stop"))

    assert dialog.outcome() == FailedConversation(
        "the judge refused (content_filter); the judge's answer was empty", retriable=True
    )
