"""Measurement of ``judge validate`` with a local model that is too slow for all of it.

``python -m evaluation_pipelines_tests.measured_validation --attacks 19 --keep FILE`` asks about a
part of the sessions of ``judge validate`` and appends each to a file, which is not asked again. One
task after another: its severely flawed session, without and with hostile texts, again without, and
its clean twin. ``--read FILE`` only prints the figures.
"""

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from evaluation_pipelines.judging.domain.conversation import Conversation
from evaluation_pipelines.judging.domain.validation import (
    ASKED_AGAIN,
    ATTACKS,
    JUDGED_SESSIONS,
    LabelledSession,
    figures,
)
from evaluation_pipelines.judging.validation import load_labelled, with_attacks
from evaluation_pipelines_tests.measured_models import (
    conversation_about,
    options,
    outcome_of,
    rows_of,
)

_STEP = 4
"""Every fourth attack: since nine tasks are attacked in turn, they take each task, and some attacks
of each family."""


def chosen(attacks: int) -> list[LabelledSession]:
    """Return the sessions of a part of the attacks, one task after another."""
    everything = with_attacks(load_labelled(None))
    again = {session.task: session for session in everything if session.attack == ASKED_AGAIN}
    plain = {session.name: session for session in everything if session.attack is None}
    names = {*sampled([attack.name for attack in ATTACKS])[:attacks]}
    attacked = [session for session in everything if session.attack in names]
    return [
        session
        for task, repeated in again.items()
        for session in (
            plain[repeated.name.removesuffix(" again")],
            *(other for other in attacked if other.task == task),
            repeated,
            plain[task],
        )
    ]


def sampled(names: Sequence[str]) -> list[str]:
    """Return all names in an order of which each beginning is spread over the whole list."""
    return [name for first in (0, 2, 1, 3) for name in names[first::_STEP]]


def conversations(sessions: Iterable[LabelledSession]) -> Iterator[tuple[str, Conversation]]:
    """Yield a conversation about each session.

    A session with and without hostile text has the same random words, so that nothing else differs.
    Asked again it has others, as any session has in a real run.
    """
    for session in sessions:
        words = session.name if session.attack == ASKED_AGAIN else session.task
        boundary = hashlib.sha256(words.encode()).hexdigest()[:32]
        yield session.name, conversation_about(session.events(), boundary)


def judged(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Return what the replies of a file say about its sessions."""
    by_name = {attack.name: attack for attack in with_attacks(load_labelled(None))}
    found = [_judged(by_name[row["session"]], row["replies"]) for row in rows]
    return pl.DataFrame(found, JUDGED_SESSIONS, orient="row")


def cells(found: pl.DataFrame) -> dict[str, str]:
    """Return the figures that have data as cells of a table: value, 95% interval and number."""
    return {
        name: f"{value:.2f} ({low:.2f} to {high:.2f}) of {number}"
        for name, value, low, high, number in found.drop_nulls().iter_rows()
    }


def _judged(session: LabelledSession, replies: Sequence[dict[str, str]]) -> dict[str, Any]:
    names = ("task", "name", "kind", "severity", "attack")
    facts = {name: getattr(session, name) for name in names} | {"is_unreachable": False}
    outcome = outcome_of(replies)
    if outcome is None:
        return {**facts, "problem": "no verdict"}
    return {**facts, "total": outcome.verdict.total, "tags": outcome.verdict.failure_tags}


def main() -> None:
    """Judge labelled sessions with a local model and print its figures."""
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--attacks", type=int, default=len(ATTACKS))
    given = parser.parse_args()
    rows = rows_of(conversations(chosen(given.attacks)), given)
    for name, cell in cells(figures(judged(rows))).items():
        sys.stdout.write(f"{name} | {cell}\n")


if __name__ == "__main__":
    main()
