"""Errors of judge calls: their cause, whether a retry may help, and whether they were charged."""

from enum import StrEnum


class Fault(StrEnum):
    """Kind of a failure; ``UNREACHABLE``: nothing was sent, ``CONNECTION``: it broke later."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    UNREACHABLE = "unreachable"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    UNREADABLE = "unreadable_answer"
    CONTENT_FILTER = "content_filter"
    TOO_LONG = "too_long"
    REJECTED = "rejected"
    MISCONFIGURED = "misconfigured"


class JudgeCallError(Exception):
    """A call failed after its retries.

    Attributes:
        fault: Kind of the failure.
        reason: A sentence for users; contains neither the key nor the prompt.
        retriable: True if the same call may succeed later.
        status: HTTP status; ``None`` if there was no answer.
        attempts: Number of requests that were sent.
        maybe_charged: True if the last request may have been charged.
        retry_after_s: Wait that the endpoint asks for; ``None`` if it does not say.
    """

    def __init__(
        self,
        fault: Fault,
        reason: str,
        *,
        retriable: bool,
        status: int | None = None,
        maybe_charged: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.fault = fault
        self.reason = reason
        self.retriable = retriable
        self.status = status
        self.attempts = 1
        self.maybe_charged = maybe_charged
        self.retry_after_s = retry_after_s

    @property
    def cost_usd(self) -> float | None:
        """Cost of the last request: 0 if it was certainly not charged, otherwise unknown."""
        return None if self.maybe_charged else 0.0


class BudgetReachedError(Exception):
    """A call failed and its retry does not fit into the budget; the session stays due.

    The cost of the failed request is already booked.
    """

    cost_usd = 0.0
