"""Errors of forgetting."""

import shlex
from collections.abc import Sequence

from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.errors import UserError

_WHERE = {
    "person": "people list shows who is known, people list unknown the rest",
    "user": "people list unknown shows the ids that telemetry has",
    "session": "sessions lists them",
    "organization": "sessions lists them",
}


class NothingKnownError(UserError):
    """Nothing is known of what is to be forgotten; nothing was changed."""

    def __init__(self, subject: Subject, people: Sequence[str] = ()) -> None:
        super().__init__(
            f"Nothing is known of the {subject.kind} {subject.value!r}: "
            f"{_what_to_type(subject, people)}. Telemetry that was not read yet is known after: "
            "evaluation-pipelines ingest"
        )


def _what_to_type(subject: Subject, people: Sequence[str]) -> str:
    if people:
        named = " or ".join(f"--person {shlex.quote(each)}" for each in people)
        return f"the identities have it, forget {named} takes all of that person"
    if subject.kind == "session" and "#" in subject.value:
        own = shlex.quote(subject.value.rpartition("#")[0])
        return f"a session goes whole, type --session {own}"
    return _WHERE[subject.kind]


class NotForgottenError(UserError):
    """Something could not be erased; what was done stays done, and another run does the rest."""
