"""Secret keys of keyed hashes, each in a file of its own that only its owner may read."""

import os
import secrets
from pathlib import Path

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.storage.store import refuse_link

_KEY_BYTES = 32


class SecretKeyError(UserError):
    """The file of a key is missing, or is none."""


def read_key(path: Path) -> bytes | None:
    """Return the key in a file; None if there is no file.

    Raises:
        SecretKeyError: The file has no key.
        OSError: The file cannot be read, or is a symbolic link.
    """
    refuse_link(path)
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return None
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise SecretKeyError(
            f"{path} has no key of {_KEY_BYTES} bytes in hexadecimal digits: restore it from a "
            "backup."
        )
    return key


def make_key(path: Path) -> bytes:
    """Return the key in a file, which is made with mode 0600 if it is missing.

    Raises:
        SecretKeyError: The file has no key.
        OSError: It cannot be read or written.
    """
    if (known := read_key(path)) is not None:
        return known
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    key = secrets.token_bytes(_KEY_BYTES)
    try:
        with os.fdopen(os.open(staged, flags, 0o600), "w", encoding="ascii") as file:
            file.write(key.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(staged, path)
    except FileExistsError:  # another process was faster
        return make_key(path)
    finally:
        staged.unlink(missing_ok=True)
    return key
