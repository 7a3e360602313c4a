"""Exit codes, the same for every command: docs/commands.md lists them."""

FAILED = 1
USAGE = 2
NOTHING = 3
"""Nothing was there to be done, where a script has to know: it may stop asking."""

PARTLY = 4
"""Some of it was done: what is missing was said on standard error."""

MEANINGS = {
    0: "done",
    FAILED: "failed: the error says what to do",
    USAGE: "a wrong option or argument",
    NOTHING: "nothing to do, of commands that are run until nothing is left",
    PARTLY: "partly done: what is missing was said",
}


def of_parts(done: int, missing: int) -> int:
    """Return the code of something that has parts: done, partly done, or failed."""
    if not missing:
        return 0
    return PARTLY if done else FAILED
