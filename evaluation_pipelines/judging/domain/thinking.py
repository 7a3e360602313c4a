"""Removal of a model's thinking from its replies.

Reasoning models write their thoughts before the answer. Some endpoints send them in a separate
field, others in the text, between tags that depend on the model.
"""

import re

_NAMES = "(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad)"
_HARMONY_ANSWER = r"(?:<\|start\|>assistant)?<\|channel\|>\s*final\s*<\|message\|>"
# An opening tag counts at the beginning of a line: an analysis may quote one within a sentence.
_TAG = re.compile(
    rf"(?P<indent>^[ \t]*)?(?:"
    rf"(?P<open><{_NAMES}>|\[THINK\]|\u25c1think\u25b7|<\|channel\|>\s*analysis\b)"
    rf"|(?P<close></{_NAMES}>|\[/THINK\]|\u25c1/think\u25b7|{_HARMONY_ANSWER}))",
    re.IGNORECASE | re.MULTILINE,
)
_LINE_END = re.compile(r"[ \t]*(?:\n|\Z)")


def without_thinking(text: str) -> str:
    """Return a reply without thoughts, whose tags may lack the opening or the closing one."""
    kept: list[str] = []
    begin, is_open, was_open = 0, False, False
    for tag in _TAG.finditer(text):
        begins_line = tag["indent"] is not None
        if tag["open"]:
            if begins_line and not is_open:
                kept.append(text[begin : tag.start()])
                is_open = was_open = True
        elif is_open:
            begin, is_open = tag.end(), False
        elif not was_open and (begins_line or _LINE_END.match(text, tag.end())):
            # Some chat templates put the opening tag into the prompt.
            begin, was_open = tag.end(), True
    if not was_open:
        return text
    return "".join([*kept, "" if is_open else text[begin:]]).strip()
