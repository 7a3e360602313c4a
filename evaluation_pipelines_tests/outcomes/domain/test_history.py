"""Commits that revert each other, in histories written by hand."""

from datetime import timedelta

from evaluation_pipelines.outcomes.domain.history import Commit, History
from evaluation_pipelines_tests.outcomes.repositories import START


def _history(*commits: Commit) -> History:
    by_id = {commit.commit_id: commit for commit in reversed(commits)}
    return History(by_id, commits[-1].commit_id, is_shallow=False, known_until=START)


def test_commits_that_revert_all_before_them_are_decided_one_by_one() -> None:
    # Ten are made in each second, so that children have the time of their parents.
    ids = [f"{number:040x}" for number in range(1200)]
    commits = [
        Commit(
            commit_id, tuple(ids[:n][-1:]), START + timedelta(seconds=n // 10), tuple(ids[:n][-40:])
        )
        for n, commit_id in enumerate(ids)
    ]
    history = _history(*commits)
    # The last one reverts 40 before it, and the one before these reverts the next 40.
    assert history.reverting(ids[-1]) is None
    assert history.reverting(ids[-2]) == history.commits[ids[-1]]
    assert history.reverting(ids[-41]) == history.commits[ids[-1]]
    assert history.reverting(ids[-42]) is None
    assert history.reverting(ids[-43]) == history.commits[ids[-42]]


def test_a_commit_that_is_cut_off_from_the_branch_can_revert() -> None:
    old = Commit("a" * 40, (), START)
    side = Commit("b" * 40, ("d" * 40,), START + timedelta(1), (old.commit_id,))
    tip = Commit("c" * 40, (old.commit_id,), START + timedelta(2))
    assert _history(old, side, tip).reverting(old.commit_id) == side
