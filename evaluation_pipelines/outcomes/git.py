"""Local repositories, read by ``git`` without a shell, hooks, filters or network.

Nothing in a repository is trusted: one whose configuration names a program is refused, and each
command has limits of time and output.
"""

import os
import re
import selectors
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from shutil import which
from tempfile import TemporaryFile
from typing import IO, Any

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.outcomes.domain.history import Commit, History, reverted_ids

_MAX_OUTPUT_BYTES = 256 * 1024 * 1024
_PROGRAMS = re.compile(
    r"(?i)(?:include(?:if)?\..*|alias\..*|filter\..*|merge\..*\.driver|diff\.external"
    r"|diff\..*\.(?:command|textconv)|.*\.(?:program|cmd|helper|vcs|uploadpack|promisor|command)"
    r"|core\.(?:fsmonitor|hookspath|sshcommand|gitproxy|pager|editor|askpass|attributesfile"
    r"|alternaterefscommand|worktree)|pager\..*|extensions\.partialclone|sequence\.editor)"
)
"""Names of configuration that run programs, read other files or fetch."""

_SAFE = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "protocol.allow": "never",
    "log.showSignature": "false",
    "log.mailmap": "false",
    "diff.renameLimit": "1000",
    "blame.ignoreRevsFile": "",
}
_PLAIN = ("--no-color", "--no-ext-diff", "--no-textconv")
_PATCH = ("-p", "--no-renames", "--full-index", "--unified=3", "--diff-algorithm=myers", *_PLAIN)


class GitError(UserError):
    """A repository cannot be read, with its path and the reason."""


@dataclass(frozen=True, slots=True)
class FoundCommit:
    """A commit of a repository, with the time by the clock of its author."""

    commit_id: str
    author_email: str
    authored_at: datetime


class Repository:
    """A local clone or mirror.

    Args:
        path: Its folder.
        seconds: Time for all commands.

    Raises:
        GitError: It is no repository, its configuration names programs, or git is missing.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self.path = path
        self._deadline = time.monotonic() + seconds
        program = which("git")
        if program is None:
            raise GitError("git is not installed: no outcome is read from EVAL_GIT_REPOSITORIES.")
        self._program = program
        inner = path / ".git"
        self._folder = inner if inner.is_dir() else path
        if inner.is_file() or not (self._folder / "objects").is_dir():
            raise GitError(f"{path} is no clone or mirror: name a folder with .git or objects.")
        if (self._folder / "commondir").exists():
            raise GitError(f"{path} is not read: its commondir names another folder. Name that.")
        self._refuse_programs()

    def _refuse_programs(self) -> None:
        for name in ("config", "config.worktree"):
            file = self._folder / name
            if not file.is_file():
                continue
            listed = self._git(
                "config", "--no-includes", "--file", str(file), "--list", "--name-only", "-z"
            )
            if found := next(filter(_PROGRAMS.fullmatch, listed.split("\0")), None):
                raise GitError(
                    f"{self.path} is not read: {found} in its {name} may run a program, read other "
                    "files or fetch. Name a clone without it, such as one by git clone --mirror."
                )

    @cached_property
    def names(self) -> frozenset[str]:
        """Names by which telemetry may call it: folder and address of its origin, shortened."""
        url = self._git(
            "config", "--file", str(self._folder / "config"), "remote.origin.url", ok=(0, 1)
        )
        path = self.path.parent if self.path.name == ".git" else self.path
        return frozenset(filter(None, map(short_name, (path.resolve().name, url.strip()))))

    def history(self, since: datetime, now: datetime) -> History:
        """Return the commits of the default branch from ``since`` on, without patch ids.

        Args:
            since: The first time, in UTC.
            now: The present time: the branch is known up to its last fetch, at most until now.

        Raises:
            GitError: No default branch is known, or the history cannot be read.
        """
        branch = self._default_branch()
        tip = self._git("rev-parse", "--verify", "--end-of-options", f"{branch}^{{commit}}").strip()
        commits = {commit.commit_id: commit for commit in self._log(branch, since)}
        is_shallow = self._git("rev-parse", "--is-shallow-repository").strip() != "false"
        return History(commits, tip, is_shallow, min(self._last_fetched(tip) or now, now))

    def _default_branch(self) -> str:
        head = self._git("symbolic-ref", "-q", "refs/remotes/origin/HEAD", ok=(0, 1)).strip()
        if not head and self._git("rev-parse", "--is-bare-repository").strip() == "true":
            head = self._git("symbolic-ref", "-q", "HEAD", ok=(0, 1)).strip()
        if head:
            return head
        roots = ("refs/remotes/origin/", "refs/heads/")
        for root in roots if self._git("remote").strip() else roots[1:]:
            found = [branch for branch in ("main", "master") if self._has(f"{root}{branch}")]
            if len(found) == 1:
                return root + found[0]
        raise GitError(
            f"{self.path}: its default branch is unknown. Run: git remote set-head origin -a"
        )

    def _has(self, ref: str) -> bool:
        return self._git("for-each-ref", "--format=%(refname)", ref).strip() == ref  # no pattern

    def _log(self, branch: str, since: datetime) -> Iterator[Commit]:
        pretty = "--pretty=tformat:%H%x00%P%x00%ct%x00%B"
        fields = iter(self._git("log", "-z", pretty, _since(since), branch, "--").split("\0"))
        for commit_id, parents, seconds, message in zip(
            fields, fields, fields, fields, strict=False
        ):
            yield Commit(commit_id, tuple(parents.split()), _time(seconds), reverted_ids(message))

    def _last_fetched(self, tip: str) -> datetime | None:
        """Return the time of the last fetch, without one the time of the last commit.

        A repository without remotes is where commits are made: None, it has all of them.
        """
        if not self._git("remote").strip():
            return None
        fetched = self._folder / "FETCH_HEAD"
        if fetched.is_file():
            return datetime.fromtimestamp(fetched.stat().st_mtime, UTC)
        return _time(self._git("log", "-1", "--pretty=%ct", tip, "--"))

    def find(self, commit_ids: Collection[str]) -> dict[str, str]:
        """Return the full id of each commit in the repository, without ambiguous ones."""
        asked = sorted(commit_ids)
        given = "".join(f"{commit}^{{commit}}\n" for commit in asked)
        answers = self._git("cat-file", "--batch-check=%(objectname) %(objecttype)", given=given)
        found = zip(asked, answers.splitlines(), strict=True)
        return {commit: answer.split()[0] for commit, answer in found if answer.endswith(" commit")}

    def authored(self, branch: str, since: datetime) -> list[FoundCommit]:
        """Return the commits of a branch since a time with their authors, if there is one."""
        refs = [f"refs/heads/{branch}", f"refs/remotes/origin/{branch}"]
        known = [ref for ref in refs if self._has(ref)]
        if not known:
            return []
        pretty = "--pretty=tformat:%H%x00%ae%x00%at"
        listed = self._git("log", "-z", "--no-merges", pretty, _since(since), *known, "--")
        fields = iter(listed.split("\0"))
        return [
            FoundCommit(commit_id, email.lower(), _time(seconds))
            for commit_id, email, seconds in zip(fields, fields, fields, strict=False)
        ]

    def authored_at(self, commit_id: str) -> datetime:
        """Return the time of a commit by the clock of its author."""
        return _time(self._git("log", "-1", "--pretty=%at", commit_id, "--"))

    def is_ancestor(self, commit_id: str, tip: str) -> bool:
        """Return whether a commit is part of the history of another one."""
        answer = self._git("rev-list", "--max-count=1", commit_id, f"^{tip}", "--")
        return not answer.strip()

    def with_patches(self, history: History, since: datetime) -> History:
        """Return the history with the patch ids of commits since a time."""
        found, unread = dict[str, list[str]](), None
        command = ("log", "--no-merges", *_PATCH, _since(since), history.tip, "--")
        try:
            for patch, commit in self._patch_ids(*command):
                if commit in history.commits:
                    found.setdefault(patch, []).append(commit)
        except GitError as error:  # an object of one commit is lost
            unread = str(error)
        return replace(history, patches=found, unread_patches=unread)

    def patches_of(self, commit_id: str, history: History) -> set[str]:
        """Return the patch ids of a commit, and of each branch with it as a whole."""
        found = {patch for patch, _ in self._patch_ids("show", *_PATCH, commit_id, "--")}
        tips = self._git(
            *("for-each-ref", "--contains", commit_id, "--count=20", "--format=%(objectname)")
        ).split()
        for tip in {commit_id, *tips}:
            base = self._git("merge-base", history.tip, tip, ok=(0, 1)).strip()
            if base and base != tip:
                found |= self.patch_of(base, tip)
        return found

    def patch_of(self, before: str, after: str) -> set[str]:
        """Return the patch id of the difference of two commits, nothing for equal ones."""
        return {patch for patch, _ in self._patch_ids("diff", *_PATCH, before, after, "--")}

    def _patch_ids(self, *command: str) -> Iterator[tuple[str, str]]:
        """Yield the patch id and commit of each patch that a command writes."""
        with self._started(command, subprocess.DEVNULL) as patches:
            listed = self._output(("patch-id", "--stable"), patches.stdout)
            for line in listed.splitlines():
                patch, _, commit = line.partition(" ")
                yield patch, commit
            self._finish(patches, command[0], (0,))

    def touched(self, commit_id: str) -> list[str]:
        """Return the text files in which a commit added lines."""
        listed = self._git(
            *("diff-tree", "-r", "--root", "--no-commit-id", "--numstat", "-z", "--no-renames"),
            *(*_PLAIN, commit_id, "--"),
        )
        rows = (word.split("\t", 2) for word in listed.split("\0") if word)
        return [path for added, _, path in rows if added not in ("-", "0")]

    def names_since(self, commit_id: str, state: str, paths: Sequence[str]) -> list[str]:
        """Return some files of a commit, and their names up to a later one."""
        listed = self._git(
            *("log", "-z", "--topo-order", "--reverse", "-M", "--diff-filter=R", "--name-status"),
            *("--format=", *_PLAIN, state, f"^{commit_id}", "--"),
        )
        names, parts = set(paths), iter(filter(None, listed.split("\0")))
        for _, old, new in zip(parts, parts, parts, strict=False):
            if old in names:
                names.add(new)
        return sorted(names)

    def lines_of(self, commit: Commit, state: str, paths: Sequence[str]) -> int:
        """Return how many lines of a commit some files have at a later one, missing files 0."""
        listed = self._git("ls-tree", "-r", "-z", "--full-tree", state, "--", *paths)
        entries = (word.partition("\t") for word in listed.split("\0") if word)
        files = [path for about, _, path in entries if " blob " in about]
        old = [f"^{parent}" for parent in commit.parents]
        count = re.compile(rf"^{commit.commit_id} \d+ \d+ (\d+)$", re.MULTILINE)
        blame = ("blame", "--incremental", "--no-textconv", *old, state, "--")
        return sum(
            sum(map(int, count.findall(self._git(*blame, path)))) for path in files if path in paths
        )

    def _git(self, *arguments: str, given: str = "", ok: Sequence[int] = (0,)) -> str:
        with TemporaryFile() as stdin:
            stdin.write(given.encode())
            stdin.seek(0)
            return self._output(arguments, stdin, ok)

    def _output(
        self, arguments: Sequence[str], stdin: IO[bytes] | None, ok: Sequence[int] = (0,)
    ) -> str:
        """Return the output of git. Names without UTF-8 in it can be given back."""
        with self._started(arguments, stdin) as process:
            output = self._read(process, arguments[0])
            self._finish(process, arguments[0], ok)
        return output.decode(errors="surrogateescape")

    def _finish(self, process: "subprocess.Popen[bytes]", name: str, ok: Sequence[int]) -> None:
        try:
            code = process.wait(max(0.1, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise self._too_long(name) from error
        if code not in ok:
            raise GitError(f"{self.path}: git {name} failed with code {code}.")

    @contextmanager
    def _started(
        self, arguments: Sequence[str], stdin: IO[bytes] | int | None
    ) -> Iterator["subprocess.Popen[bytes]"]:
        if time.monotonic() >= self._deadline:
            raise self._too_long(arguments[0])
        options = [part for name, value in _SAFE.items() for part in ("-c", f"{name}={value}")]
        command = [self._program, f"--git-dir={self._folder}", "--no-pager", *options, *arguments]
        with subprocess.Popen(  # noqa: S603 - no shell
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT | {"PATH": os.environ.get("PATH", os.defpath)},
            cwd="/",
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def _read(self, process: "subprocess.Popen[bytes]", name: str) -> bytes:
        stdout: Any = process.stdout
        output = bytearray()
        with selectors.DefaultSelector() as waiting:
            waiting.register(stdout, selectors.EVENT_READ)
            while True:
                left_s = self._deadline - time.monotonic()
                if left_s <= 0 or not waiting.select(left_s):
                    raise self._too_long(name)
                if not (chunk := os.read(stdout.fileno(), 1 << 20)):
                    return bytes(output)
                output += chunk
                if len(output) > _MAX_OUTPUT_BYTES:
                    raise GitError(f"{self.path}: git {name} wrote more than 256 MB.")

    def _too_long(self, name: str) -> GitError:
        return GitError(f"{self.path}: git {name} took too long. The next night goes on.")


_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "TZ": "UTC",
}


def short_name(repository: str) -> str:
    """Return the last part of a name or address of a repository, without ``.git``."""
    return re.split(r"[/:\\]", repository.strip().rstrip("/"))[-1].removesuffix(".git").lower()


def _since(time: datetime) -> str:
    return f"--since-as-filter={int(time.timestamp())}"


def _time(seconds: str) -> datetime:
    """Return a time of a commit, which is any number: the clock of an author may be wrong."""
    return datetime.fromtimestamp(min(max(int(seconds), 0), _LAST_SECOND), UTC)


_LAST_SECOND = 253_402_300_799
"""The end of the year 9999."""
