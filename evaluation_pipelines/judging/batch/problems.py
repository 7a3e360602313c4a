"""Failed requests and useless replies of one batch: whether sessions or the endpoint caused them.

All of them are decided together after the last result, since results have no order. What the
endpoint caused leaves its sessions due.
"""

from dataclasses import dataclass, field

from evaluation_pipelines.judging.domain.batch_lines import BatchResult
from evaluation_pipelines.judging.domain.blame import Blame, Suspect
from evaluation_pipelines.judging.domain.conversation import why_useless
from evaluation_pipelines.judging.endpoint.errors import Fault, JudgeCallError
from evaluation_pipelines.judging.endpoint.replies import ParsedCompletion
from evaluation_pipelines.judging.endpoint.request_form import is_about_form
from evaluation_pipelines.judging.runner.session_scoring import SYMPTOMS


@dataclass(slots=True)
class BatchProblems:
    """Problems of one batch.

    Attributes:
        max_useless: Replies that are empty or cut from which on the endpoint is to blame, if most
            replies are.
        answered: Number of other replies.
        useless: Useless replies.
    """

    max_useless: int
    answered: int = 0
    useless: list[tuple[BatchResult, ParsedCompletion]] = field(default_factory=list)
    _failed: dict[Suspect, tuple[BatchResult, JudgeCallError]] = field(default_factory=dict)

    def note(self, result: BatchResult, completion: ParsedCompletion) -> bool:
        """Note a reply; return whether it is of use."""
        if why_useless(completion.reply) is not None:
            self.useless.append((result, completion))
            return False
        self.answered += 1
        return True

    def add(self, result: BatchResult, error: JudgeCallError) -> None:
        """Note a failed request."""
        symptom = SYMPTOMS.get(error.fault, "other")
        suspect = Suspect(result.score_id, symptom, error.reason, error.retriable)
        self._failed.setdefault(suspect, (result, error))

    def why_useless(self) -> str | None:
        """Return why the endpoint is to blame for the useless replies; ``None`` if it is not."""
        number = len(self.useless)
        if number < self.max_useless or number <= self.answered:
            return None
        last = why_useless(self.useless[-1][1].reply)
        return f"{number} of {number + self.answered} replies of a batch were of no use: {last}"

    def settle(
        self,
    ) -> tuple[list[tuple[BatchResult, JudgeCallError]], list[tuple[BatchResult, JudgeCallError]]]:
        """Return the failed requests of sessions to blame, and those of sessions that stay due."""
        errors = [error for _, error in self._failed.values()]
        blame = Blame(self.max_useless)
        for each in self._failed:
            blame.add(each)
        is_down = any(self._is_general(each) for each in errors)
        faulty = sum(each.symptom == "faulty" for each in self._failed)
        if not is_down and self.answered >= max(faulty, 1):
            blame.note_reply(None)
        failed, due = blame.settle(is_endpoint_down=is_down)
        guilty = [*blame.take_guilty(), *failed]
        return [self._failed[each] for each in guilty], [self._failed[each] for each in due]

    def _is_general(self, error: JudgeCallError) -> bool:
        """Return whether every request would get the same answer."""
        is_form = error.fault is Fault.REJECTED and is_about_form(error.reason)
        return error.fault is Fault.MISCONFIGURED or (is_form and not self.answered)
