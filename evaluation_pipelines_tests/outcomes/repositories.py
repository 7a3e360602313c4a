"""Repositories that tests build commit by commit, with times of their own."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2026, 6, 1, 12, tzinfo=UTC)
EMAIL = "ada@example.com"


class Repository:
    """A repository on its branch ``main``. A ``day`` of a commit is in days after START."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        subprocess.run(["git", "init", "-q", "-b", "main", *options, str(path)], check=True)

    def git(self, *arguments: str, day: float = 0) -> str:
        """Run git at a time, and return its output."""
        time = (START + timedelta(days=day)).isoformat()
        environment = {
            "PATH": "/usr/bin:/bin:/usr/local/bin",
            "HOME": str(self.path),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Ada",
            "GIT_AUTHOR_EMAIL": EMAIL,
            "GIT_AUTHOR_DATE": time,
            "GIT_COMMITTER_NAME": "Ada",
            "GIT_COMMITTER_EMAIL": EMAIL,
            "GIT_COMMITTER_DATE": time,
        }
        command = ["git", "-C", str(self.path), *arguments]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, day: float, message: str = "work", **files: str | bytes) -> str:
        """Write files, ``__`` in a name stands for a dot, and return the id of their commit."""
        for name, content in files.items():
            path = self.path / name.replace("__", ".")
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message, day=day)
        return self.git("rev-parse", "HEAD")


def lines(*words: str) -> str:
    """A text with a line for each word."""
    return "".join(f"{word}\n" for word in words)
