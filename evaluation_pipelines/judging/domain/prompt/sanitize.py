"""Text from telemetry as what can be seen of it, and nothing else.

Letters that are not seen can carry orders to a model that no reader of the transcript notices;
colours and cursor movements say nothing to a judge; and words that a model's own chat format uses
to end a message must not reach a server that reads them as such.
"""

import re
import unicodedata

# Colours and the like; then a window title, up to its end or that of the line.
_TERMINAL = re.compile(r"\x1b\[[0-9;:?]*[ -/]{0,4}[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?")
_CHAT_FORMAT = re.compile(
    # <|im_start|> <|eot_id|> and with the wide bars of some models
    r"<[|\uff5c](?=[^<>\n]{0,40}[|\uff5c]>)"
    r"|<(?=/?s>)|<(?=</?SYS>>)|<(?=(?:start|end)_of_turn>)|\[(?=/?INST\])"
)
_LINE_ENDS = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_KEPT = frozenset("\n\t")
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn"))


class _WithoutHidden(dict[int, int | None]):
    """A table for ``str.translate`` that learns each letter when it is first met."""

    def __missing__(self, code: int) -> int | None:
        letter = chr(code)
        hidden = letter not in _KEPT and unicodedata.category(letter) in _HIDDEN
        self[code] = None if hidden else code
        return self[code]


_without_hidden = _WithoutHidden()


def plain_text(text: str) -> str:
    r"""The text without colours, hidden letters and words of chat formats, lines ending in \\n."""
    text = _LINE_ENDS.sub("\n", _TERMINAL.sub("", text)).translate(_without_hidden)
    # A blank breaks such a word and leaves it to be read.
    return _CHAT_FORMAT.sub(lambda found: f"{found[0]} ", text)


def plain_line(text: str, longest: int = 100) -> str:
    """The same on one line of at most so many letters."""
    line = " ".join(plain_text(text).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
