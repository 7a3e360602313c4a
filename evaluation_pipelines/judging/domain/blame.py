"""Decision whether sessions or the endpoint caused failed calls.

A call that failed makes its session a suspect. A later reply shows that the endpoint works: the
suspects so far have failed, except for rejected ones, since replies to earlier requests arrive when
the endpoint already rejects all new ones. At the end of a run the endpoint is to blame for
equal rejections of several sessions, and, unless a reply came later, for errors of several
sessions and for silence; those sessions stay due.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Symptom: TypeAlias = Literal["rejected", "silent", "faulty", "other"]
"""What an endpoint did: refused the request, sent nothing, sent an error, or else."""

SAME_REJECTIONS = 3
"""Sessions of a run with the same rejection after which it stops."""

_ID = re.compile(r"[\w+/=.-]*\d[\w+/=.-]*")
"""A number, or the id of a request."""

_PATTERN_CHARACTERS = 100
"""An answer may end with parts of the request, and it is truncated anywhere."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A scoring whose call failed.

    Attributes:
        score_id: The scoring.
        symptom: What the endpoint did.
        reason: What it said; a sentence for users.
        retriable: Whether another attempt may succeed.
    """

    score_id: str
    symptom: Symptom
    reason: str
    retriable: bool

    @property
    def pattern(self) -> str:
        """What sessions with the same problem have in common.

        Of a rejection its words without numbers and ids; of errors only that they are errors.
        """
        if self.symptom != "rejected":
            return self.symptom
        return _ID.sub("0", self.reason)[:_PATTERN_CHARACTERS]


@dataclass(slots=True)
class Blame:
    """Suspects and useless replies of one run, or of one batch.

    Attributes:
        max_useless: Replies in a row that are empty or cut before the run stops.
    """

    max_useless: int
    _is_answered: bool = False
    _useless: int = 0
    _last_useless: str = ""
    _suspects: list[Suspect] = field(default_factory=list)
    _guilty: list[Suspect] = field(default_factory=list)

    def note_reply(self, why_useless: str | None) -> None:
        """Note a reply, and why it is unusable; a refusal is usable: it is an answer."""
        self._is_answered = True
        self._guilty += [each for each in self._suspects if each.symptom != "rejected"]
        self._suspects = [each for each in self._suspects if each.symptom == "rejected"]
        self._useless = 0 if why_useless is None else self._useless + 1
        self._last_useless = why_useless or ""

    def add(self, suspect: Suspect) -> None:
        """Note a failed call."""
        self._suspects.append(suspect)

    def take_guilty(self) -> list[Suspect]:
        """Return the sessions that have failed since the last call of this method."""
        guilty, self._guilty = self._guilty, []
        return guilty

    def stop_reason(self) -> str | None:
        """Return why the run should stop because of its endpoint; ``None`` if it should not."""
        if self._useless >= self.max_useless:
            return f"{self._useless} replies in a row were unusable, the last one: " + (
                self._last_useless
            )
        alike = self._sessions_by_pattern()
        for each in reversed(self._suspects):
            if each.symptom == "rejected" and alike[each.pattern] >= SAME_REJECTIONS:
                return f"{each.reason}. {SAME_REJECTIONS} sessions got the same answer"
        return None

    def settle(self, *, is_endpoint_down: bool) -> tuple[list[Suspect], list[Suspect]]:
        """End the run; return the sessions that have failed, and those that stay due."""
        alike = self._sessions_by_pattern()
        suspects, self._suspects = self._suspects, []
        failed: list[Suspect] = []
        due: list[Suspect] = []
        for each in suspects:
            is_silence = each.symptom == "silent" and not self._is_answered
            is_alike = each.symptom != "other" and alike[each.pattern] > 1
            is_due = each.symptom != "other" and is_endpoint_down
            (due if is_silence or is_alike or is_due else failed).append(each)
        return failed, due

    def _sessions_by_pattern(self) -> Counter[str]:
        return Counter(pattern for pattern, _ in {(s.pattern, s.score_id) for s in self._suspects})
