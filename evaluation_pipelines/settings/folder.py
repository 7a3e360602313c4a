"""Types of settings that are a folder or a file of this machine, or a place in an object store."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, PlainValidator

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def _local_path(path: Path) -> Path:
    if _URL.match(str(path)):
        message = f"{path} is a URL; it must be a path of this machine"
        raise ValueError(message)
    # No shell expands "~" in .env: it would become a folder of that name.
    return path.expanduser()


LocalPath = Annotated[Path, AfterValidator(_local_path)]
"""Path of this machine with ``~`` expanded; a URL such as ``s3://bucket`` is refused."""

_OBJECT_STORE = re.compile(r"[a-z][a-z0-9]*://[^/?#@*\[\s]+(?:/[^?#@*\[\s]*)?\Z")


class ObjectStoreUrl(str):
    """Bucket, and the beginning of the keys in it, without a slash at the end."""

    __slots__ = ()


def _location(given: object) -> object:
    text = str(given)
    if not _URL.match(text):
        return Path(text).expanduser()
    if not _OBJECT_STORE.match(text):  # not shown: there may be a secret in it
        message = "must be a path or a URL such as s3://bucket/prefix, without user and query"
        raise ValueError(message)
    return ObjectStoreUrl(text.rstrip("/"))


Location = Annotated[Path | ObjectStoreUrl, PlainValidator(_location)]
"""Path of this machine with ``~`` expanded, or the URL of an object store."""
