"""Drawing of anchor sessions with known probabilities, stratified by label and model.

A simple random sample of each stratum: its sessions are ordered by a hash of their key and the id
of the change, and the first ones are drawn. The order never changes, so a session that cannot be an
anchor is replaced by the next one of its stratum.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

DAYS = 28
"""Anchors are drawn from the sessions of this many days."""

ANCHORS = 120
"""Number of anchors of a change, if there are as many sessions."""

SAMPLES = 3
"""Scores of an anchor by each judge."""

_LEAST_PER_STRATUM = 2

Stratum = tuple[str, str | None]
"""(classification_label, agent_model)"""


@dataclass(frozen=True, slots=True)
class FrameSession:
    """A session that can be drawn."""

    organization_id: str
    session_key: str
    session_id: str
    session_date: date
    content_hash: str
    classification_label: str
    agent_model: str | None

    @property
    def key(self) -> tuple[str, str]:
        """Organization and session window."""
        return self.organization_id, self.session_key

    @property
    def stratum(self) -> Stratum:
        """Label and model of the session."""
        return self.classification_label, self.agent_model


@dataclass(frozen=True, slots=True)
class Anchor:
    """A drawn session.

    Attributes:
        session: The session.
        stratum_sessions: Number of sessions of its stratum.
        stratum_anchors: Number of anchors of its stratum.
        place: Place in the order of its stratum, from 0.
        replaced_because: Why the next session took its place; ``None`` for an anchor that counts.
    """

    session: FrameSession
    stratum_sessions: int
    stratum_anchors: int
    place: int
    replaced_because: str | None = None

    @property
    def probability(self) -> float:
        """Probability with which a session of the stratum is drawn."""
        return self.stratum_anchors / self.stratum_sessions


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing of anchors.

    Attributes:
        change_id: The change.
        frame_since: First session date of the sessions to draw from.
        frame_until: Day after the last one.
        frame_sessions: Number of these sessions.
        drawn_at_us: Time of the drawing in microseconds since 1970.
        refusal: Why a judge could not be called at the last attempt; ``None`` if it answered.
    """

    change_id: str
    frame_since: date
    frame_until: date
    frame_sessions: int
    drawn_at_us: int
    refusal: str | None = None


def draw(frame: Sequence[FrameSession], change_id: str, wanted: int = ANCHORS) -> list[Anchor]:
    """Draw the anchors of a change: all sessions if there are at most ``wanted``."""
    strata = _ordered(frame, change_id)
    chosen = allocate({name: len(sessions) for name, sessions in strata.items()}, wanted)
    return [
        Anchor(session, len(sessions), chosen[name], place)
        for name, sessions in strata.items()
        for place, session in enumerate(sessions[: chosen[name]])
    ]


def replacements(
    anchors: Sequence[Anchor], frame: Sequence[FrameSession], change_id: str
) -> list[Anchor]:
    """Return the next session of the stratum for each anchor that was replaced; some may be left.

    Args:
        anchors: All anchors of the change so far, those that were replaced too.
        frame: The sessions of the dates that the anchors were drawn from, as they are now.
        change_id: The change.
    """
    drawn = {each.session.key for each in anchors}
    live = Counter(each.session.stratum for each in anchors if each.replaced_because is None)
    last = {each.session.stratum: each for each in sorted(anchors, key=lambda each: each.place)}
    found: list[Anchor] = []
    for name, sessions in _ordered(frame, change_id).items():
        if name not in last:
            continue
        of_stratum = last[name]
        rest = [each for each in sessions if each.key not in drawn]
        places = enumerate(rest[: of_stratum.stratum_anchors - live[name]], of_stratum.place + 1)
        sizes = of_stratum.stratum_sessions, of_stratum.stratum_anchors
        found += [Anchor(session, *sizes, place) for place, session in places]
    return found


def allocate(sizes: Mapping[Stratum, int], wanted: int) -> dict[Stratum, int]:
    """Return the number of anchors of each stratum, in proportion to its sessions.

    Each stratum has at least two if it has as many sessions; the largest remainders are rounded up.
    """
    total = sum(sizes.values())
    if total <= wanted:
        return dict(sizes)
    shares = {name: size * wanted / total for name, size in sizes.items()}
    least = {name: min(size, _LEAST_PER_STRATUM) for name, size in sizes.items()}
    chosen = {name: max(int(shares[name]), least[name]) for name in sizes}
    by_remainder = sorted(
        sizes, key=lambda name: (int(shares[name]) - shares[name], name[0], name[1] or "")
    )
    rounded_down = [name for name in by_remainder if chosen[name] < shares[name]]
    for name in rounded_down[: max(wanted - sum(chosen.values()), 0)]:
        chosen[name] += 1
    return chosen


def _ordered(frame: Sequence[FrameSession], change_id: str) -> dict[Stratum, list[FrameSession]]:
    """Return the sessions of each stratum in their random order."""
    strata: dict[Stratum, list[FrameSession]] = defaultdict(list)
    for session in sorted(frame, key=lambda each: _position(each, change_id)):
        strata[session.stratum].append(session)
    return dict(sorted(strata.items(), key=lambda each: (each[0][0], each[0][1] or "")))


def _position(session: FrameSession, change_id: str) -> bytes:
    return hashlib.sha256("\0".join((change_id, *session.key)).encode()).digest()
