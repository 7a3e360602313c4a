"""History of a default branch: when a commit was merged, and which commit reverted it."""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from operator import attrgetter

_REVERTS = re.compile(
    r"\breverts? (?:commits? )?([0-9a-f]{7,64})((?:(?:,| and|\s)+[0-9a-f]{7,64})*)"
)
_ID = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit. ``reverts`` are ids, perhaps short ones, of commits that its message names."""

    commit_id: str
    parents: tuple[str, ...]
    committed_at: datetime
    reverts: tuple[str, ...] = ()


def reverted_ids(message: str) -> tuple[str, ...]:
    """Return the ids of commits that a message, as ``git revert`` writes it, reverts.

    Of "reverts commit A, reversing changes made to B" only A.
    """
    found: list[str] = []
    for first, others in _REVERTS.findall(message.lower()):
        found += [first, *_ID.findall(others)]
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class History:
    """The commits of the default branch.

    Attributes:
        commits: Id -> commit, children before parents. Old ones may be missing.
        tip: The last commit of the branch.
        is_shallow: The clone lacks older history.
        known_until: The branch is known up to this time.
        patches: Patch id -> commits of the branch with it, where patches were compared.
        unread_patches: Why some of these patches could not be read.
    """

    commits: Mapping[str, Commit]
    tip: str
    is_shallow: bool
    known_until: datetime
    patches: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unread_patches: str | None = None

    @cached_property
    def mainline(self) -> Sequence[Commit]:
        """The states that the branch had, oldest first: the first parents of its tip."""
        found: list[Commit] = []
        current = self.commits.get(self.tip)
        while current is not None:
            found.append(current)
            current = self.commits.get(current.parents[0]) if current.parents else None
        return found[::-1]

    @cached_property
    def merged_with(self) -> Mapping[str, Commit]:
        """Each commit -> the state of the branch that had it first."""
        found: dict[str, Commit] = {}
        for state in self.mainline:
            left = [state.commit_id]
            while left:
                commit_id = left.pop()
                if commit_id not in found and commit_id in self.commits:
                    found[commit_id] = state
                    left.extend(self.commits[commit_id].parents)
        return found

    def state_at(self, time: datetime) -> Commit | None:
        """Return the last state of the branch by a time."""
        return next(
            (commit for commit in reversed(self.mainline) if commit.committed_at <= time), None
        )

    def twin(self, patch_ids: Iterable[str], since: datetime) -> str | None:
        """Return the first commit of the branch with one of these patches, made since a time."""
        found = [
            commit
            for patch_id in patch_ids
            for commit in self.patches.get(patch_id, ())
            if self.commits[commit].committed_at >= since
        ]
        return min(
            found, key=lambda commit: (self.commits[commit].committed_at, commit), default=None
        )

    def reverting(self, commit_id: str, inverse: str | None = None) -> Commit | None:
        """Return the commit of the branch that reverts another one and is not reverted itself.

        A revert after which the same change was made again does not count.

        Args:
            commit_id: A commit of the branch. Reverting its merge reverts it as well.
            inverse: Patch id of its opposite.
        """
        opposites = self.patches.get(inverse or "", ())
        alike = (
            self.commits[same].committed_at for same in self._with_same_patch.get(commit_id, ())
        )
        last = max(alike, default=self.commits[commit_id].committed_at)
        lasting = self._lasting(commit_id, opposites, self._reverted)
        return min(
            (found for found in lasting if found.committed_at >= last),
            key=lambda commit: (commit.committed_at, commit.commit_id),
            default=None,
        )

    @cached_property
    def _reverted(self) -> Collection[str]:
        """The commits that lasting ones revert by their messages, decided from the last back."""
        found = set[str]()
        for commit in sorted(self.commits.values(), key=attrgetter("committed_at"), reverse=True):
            if any(self._lasting(commit.commit_id, (), found)):
                found.add(commit.commit_id)
        return found

    def _lasting(
        self, commit_id: str, opposites: Iterable[str], reverted: Collection[str]
    ) -> Iterator[Commit]:
        """Yield the later commits that revert one, by message or as opposites, and are in force."""
        names = {commit_id, self.merged_with.get(commit_id, self.commits[commit_id]).commit_id}
        found = {commit for name in names for commit in self._reverting.get(name, ())}
        for opposite in (found | set(opposites)) - names:
            if (
                opposite not in reverted
                and self.commits[opposite].committed_at >= self.commits[commit_id].committed_at
            ):
                yield self.commits[opposite]

    @cached_property
    def _with_same_patch(self) -> Mapping[str, Sequence[str]]:
        """Each commit -> the commits with its patch."""
        return {commit: same for same in self.patches.values() for commit in same}

    @cached_property
    def _reverting(self) -> Mapping[str, Sequence[str]]:
        """Each commit -> those whose message reverts it."""
        ids, found = sorted(self.commits), dict[str, list[str]]()
        for commit in self.commits.values():
            for named in commit.reverts:
                place = bisect_left(ids, named)
                matching = [
                    commit_id for commit_id in ids[place : place + 2] if commit_id.startswith(named)
                ]
                if len(matching) == 1 and matching[0] != commit.commit_id:
                    found.setdefault(matching[0], []).append(commit.commit_id)
        return found
