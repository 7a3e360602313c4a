"""A session is cut to its tokens, the least telling first, and each cut is told in its place."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.judging.domain.prompt.truncate import (
    LAST_STEPS,
    PromptPart,
    PromptStep,
    total_cost,
    truncate,
)

HEADING = "IN ALL"


def step(
    number: int, text: str = "", *, stays: bool = False, is_tool_text: bool = True
) -> PromptStep:
    part = (PromptPart("result", text, is_tool_text),) if text else ()
    return PromptStep(f"{number}:00", f"STEP {number}", part, "", stays)


def many(count: int, *, text: str = "", stays: tuple[int, ...] = ()) -> list[PromptStep]:
    return [step(number, text, stays=number in stays) for number in range(count)]


def titles(text: str) -> list[str]:
    return [line for line in text.split("\n") if "] STEP" in line]


def test_what_fits_is_shown_as_it_is() -> None:
    speech = replace(
        step(0), title="PROMPT", parts=(PromptPart("", "one\ntwo", is_tool_text=False),)
    )
    call = replace(step(1, "a\n  b"), title="TOOL ls: ok", note="not logged: parameters")

    fitted = truncate(HEADING, [speech, call], 1000)

    assert fitted.text == (
        "IN ALL\n[0:00] PROMPT\n  one\n  two\n[1:00] TOOL ls: ok\n  result:\n    a\n      b\n"
        "  not logged: parameters"
    )
    assert not fitted.truncated
    assert fitted.tokens == total_cost([fitted.text])


def test_long_tool_texts_lose_their_middle_first_and_only_as_much_as_needed() -> None:
    long = "word " * 4000  # 20 000 characters, about 5 000 tokens
    words = "said " * 1000
    steps = [step(0, long), step(1, long), step(2, words, is_tool_text=False), step(3, "short")]

    fitted = truncate(HEADING, steps, 8_000)

    assert fitted.truncated
    assert fitted.tokens <= 8_000
    assert fitted.text.count("characters left out here") == 2
    assert "said " * 999 in fitted.text
    assert len(titles(fitted.text)) == 4
    # 8 000 characters each would be 2 * 2 500 tokens: the first size that fits.
    assert fitted.text.count("word") > 3000


def test_then_the_oldest_steps_go_but_not_the_first_prompt_failures_and_the_last_ones() -> None:
    steps = many(40, text="word " * 60, stays=(0, 3, 7))

    fitted = truncate(HEADING, steps, 2_600)

    left = [int(line.split()[-1]) for line in titles(fitted.text)]
    assert {0, 3, 7} <= set(left)
    assert left[-LAST_STEPS:] == list(range(40 - LAST_STEPS, 40))
    gone = [number for number in range(40) if number not in left]
    assert gone
    # From the oldest on, without a hole.
    assert gone == [number for number in range(gone[-1] + 1) if number not in (0, 3, 7)]
    assert "[... 2 steps from 1:00 to 2:00 left out here ...]" in fitted.text
    assert "[... 3 steps from 4:00 to 6:00 left out here ...]" in fitted.text
    assert fitted.tokens <= 2_600


def test_then_everything_that_is_long_loses_its_middle() -> None:
    steps = [
        step(number, "said " * 2000, stays=True, is_tool_text=False) for number in range(LAST_STEPS)
    ]

    fitted = truncate(HEADING, steps, 3_000)

    assert len(titles(fitted.text)) == LAST_STEPS
    assert fitted.text.count("characters left out here") == LAST_STEPS
    assert 1_000 < fitted.tokens <= 3_000


def test_at_last_the_text_as_a_whole_does() -> None:
    steps = many(500, text="it failed", stays=tuple(range(500)))

    fitted = truncate(HEADING, steps, 1_000)

    assert fitted.truncated
    assert 500 < fitted.tokens <= 1_000
    assert fitted.text.startswith("IN ALL\n[0:00] STEP 0")
    assert fitted.text.endswith("it failed")
    assert "characters left out here" in fitted.text


def test_no_step_is_no_text() -> None:
    assert truncate(HEADING, [], 100).text == "IN ALL"


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 30, 3000]), st.booleans(), st.booleans()), max_size=40
    ),
    st.sampled_from([150, 400, 1500, 6000]),
)
def test_the_budget_is_kept_and_cuts_are_told(
    shapes: list[tuple[int, bool, bool]], budget: int
) -> None:
    steps = [
        step(number, "word " * words, stays=stays, is_tool_text=is_tool_text)
        for number, (words, stays, is_tool_text) in enumerate(shapes)
    ]

    fitted = truncate(HEADING, steps, budget)

    assert fitted.tokens <= budget
    assert fitted.truncated == ("left out here" in fitted.text)
