"""The file of identities."""

from pathlib import Path

from evaluation_pipelines.people.domain.identities import Identities
from evaluation_pipelines.people.domain.parse import IdentitiesError, parse_identities

_MAX_BYTES = 5_000_000


def read_identities(path: Path) -> Identities:
    """Read a file of identities.

    Raises:
        IdentitiesError: The file cannot be used; the message names file and line.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise IdentitiesError(f"{path} is larger than {_MAX_BYTES} bytes, the limit")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"{error.reason} at byte {error.start}"
        raise IdentitiesError(f"{path} is not UTF-8: {reason}") from None
    return parse_identities(text, str(path))


def identities_fingerprint(path: Path) -> str:
    """Return a text that changes when the file is added, changed or removed."""
    try:
        status = path.stat()
    except OSError:
        return "none"
    return f"{status.st_mtime_ns}:{status.st_size}"


def keep_identities(target: Path, source: Path) -> None:
    """Copy a file of identities unchanged to ``target``, unless it is the same file.

    Raises:
        OSError: The file cannot be written.
    """
    if target.exists() and target.samefile(source):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_name(f".{target.name}.new")
    staged.write_bytes(source.read_bytes())
    staged.replace(target)
