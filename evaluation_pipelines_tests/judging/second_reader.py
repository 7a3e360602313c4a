"""A second, stricter reader of judges' replies, which shares no code with the program.

It does not look for a verdict: it confirms or rejects one, by plain comparison of words in lines.
"""

from collections.abc import Mapping, Sequence

_MARKS = "*`#>_ \t"
_FAR = 5


def why_rejected(
    replies: Sequence[str],
    total: int,
    points: Mapping[str, int | None],
    maximum: Mapping[str, int],
) -> str | None:
    """Return why a verdict is not what the replies say; ``None`` if it is.

    Args:
        replies: The answer, and the answer to the reminder if there was one, without cut ones.
        total: Total of the verdict.
        points: Points by criterion; ``None`` where the judge gave none.
        maximum: Highest points by criterion.
    """
    if not 0 <= total <= 100:
        return f"the total {total} is out of range"
    for name, given in points.items():
        said = {value for reply in replies for value in _said(reply, name, maximum[name])}
        if given is not None and given not in said:
            return f"{name} {given} is in no line"
        if given is None and any(_single(reply, name, maximum[name]) for reply in replies):
            return f"{name} has a line"
    stated = [_stated(reply) for reply in replies]
    if (total, False) in stated:
        return None
    whole = sum(given or 0 for given in points.values()) * 100 / sum(maximum.values())
    is_near = None not in points.values() and abs(whole - total) <= _FAR
    return None if (total, True) in stated and is_near else f"no last line states {total}"


def _stated(reply: str) -> tuple[int, bool] | None:
    """Return the number of the last line, and whether the word total precedes it."""
    filled = [line for line in reply.splitlines() if line.strip()]
    words = filled[-1].strip(_MARKS).lower() if filled else ""
    before, colon, after = words.partition(":")
    is_named = bool(colon) and before.strip(_MARKS + "-") in {"total", "total score", "total_score"}
    number = (after if is_named else words).strip(_MARKS + "()%")
    return (int(number), is_named) if number.isascii() and number.isdigit() else None


def _said(reply: str, name: str, most: int) -> set[int]:
    """Return all points that lines of a reply give to a criterion."""
    found = set()
    for line in reply.splitlines():
        before, _, after = line.replace("\\", "").partition(":")
        given, _, out_of = after.partition("/")
        numbers = given.strip(_MARKS), out_of.strip(_MARKS + ".,")
        is_name = before.strip(_MARKS + "-").lower() == name
        if is_name and all(number.isdigit() for number in numbers) and int(numbers[1]) == most:
            found.add(int(numbers[0]))
    return {points for points in found if points <= most}


def _single(reply: str, name: str, most: int) -> bool:
    return len(_said(reply, name, most)) == 1
