"""Why a judge gave no answer: what went wrong, whether to ask again, whether it was charged."""

from enum import StrEnum


class Fault(StrEnum):
    """What kind of thing went wrong, for counting."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    UNREADABLE = "unreadable_answer"
    CONTENT_FILTER = "content_filter"
    TOO_LONG = "too_long"
    REJECTED = "rejected"
    MISCONFIGURED = "misconfigured"


class JudgeCallError(Exception):
    """One call failed, after its retries.

    Attributes:
        fault: The kind.
        reason: A sentence for people; holds neither key nor prompt.
        retriable: Whether the same call may succeed later.
        status: HTTP status, None when no answer came.
        attempts: Requests that were sent.
        maybe_charged: Whether the last one may have been charged all the same.
        retry_after_s: How long the endpoint asks to wait; None when it does not say.
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
        """0 when the last request was certainly not charged, else unknown."""
        return None if self.maybe_charged else 0.0


class BudgetReachedError(Exception):
    """A call failed and a retry of it does not fit into the budget: its session stays due.

    The request that failed is booked already.
    """

    cost_usd = 0.0
