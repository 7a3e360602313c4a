"""Thoughts of a model are not part of its reply."""

import pytest

from evaluation_pipelines.judging.domain.thinking import without_thinking


@pytest.mark.parametrize(
    "reply",
    [
        "<think>\n20/25?\n100\n</think>\n\nWeak.\n57",
        "<think>one</think>Weak.\n57",
        "<THINKING>one\n</thinking>\nWeak.\n57",
        "one\n100\n</think>\n\nWeak.\n57",  # the template opened it in the prompt
        "Weak.\n57\n<think>was that too strict? 100",  # cut within the thoughts
        "[THINK]one[/THINK]Weak.\n57",
        "\u25c1think\u25b7one\u25c1/think\u25b7Weak.\n57",
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Weak.\n57",
        "<reasoning>a</reasoning>\n<think>b</think>\nWeak.\n57",
        "<think>a\n<think>b\n</think>Weak.\n57",
    ],
)
def test_thoughts_are_removed(reply: str) -> None:
    assert without_thinking(reply) == "Weak.\n57"


@pytest.mark.parametrize("reply", ["<think>it was", "<think>\n57", " <think>a</think> "])
def test_a_reply_of_thoughts_alone_is_empty(reply: str) -> None:
    assert not without_thinking(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "Weak. It wrote <think> twice.\n57",
        "It ended with `</think>` in the middle.\n57",
        "  Weak.\n57\n",
        "I think it was weak.\n57",
    ],
)
def test_other_text_stays_as_it_is(reply: str) -> None:
    assert without_thinking(reply) == reply
