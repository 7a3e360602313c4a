"""Errors of forgetting."""

from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.errors import UserError

_WHERE = {
    "person": "people list and people unknown show who is known",
    "user": "people unknown shows the ids that telemetry has",
    "session": "sessions lists them",
    "organization": "sessions lists them",
}


class NothingKnownError(UserError):
    """Nothing is known of what is to be forgotten; nothing was changed."""

    def __init__(self, subject: Subject) -> None:
        super().__init__(
            f"Nothing is known of the {subject.kind} {subject.value!r}: {_WHERE[subject.kind]}. "
            "Telemetry that was not read yet is known after: evaluation-pipelines ingest"
        )


class NotForgottenError(UserError):
    """Something could not be erased; what was done stays done, and another run does the rest."""
