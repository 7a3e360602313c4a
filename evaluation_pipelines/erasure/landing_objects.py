"""Objects that still have telemetry of what was forgotten are replaced, or deleted.

The ledger gets an entry of the new object with the position that the old one was read to, after the
object: only then its ETag is known. After a kill between the two it is read again, and its events
count once.
"""

from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, cast

from evaluation_pipelines.erasure.context import ErasureContext
from evaluation_pipelines.erasure.rewriting import KeptError, add_entry, source_file, write_pruned
from evaluation_pipelines.storage.landing import LandingFile, read_head
from evaluation_pipelines.storage.lock import Hold

if TYPE_CHECKING:
    from evaluation_pipelines.storage.object_landing import ObjectLanding

_REPLACED = "it was replaced meanwhile: run this again"
_VERSIONS = "it was written anew, but the bucket may keep its older versions: delete these there"


def rewrite_object(
    context: ErasureContext, landing: "ObjectLanding", file: LandingFile, hold: Hold
) -> None:
    """Replace an object by what is left of it, or delete it, with the lock ``ingest``.

    Raises:
        KeptError: It still has it, or its older versions may.
        FileNotFoundError: It was replaced or deleted since it was listed.
        PermissionError: The access keys may not write it.
        LandingError: The store does not answer.
    """
    has_versions = landing.has_versions(file)
    with landing.open(file) as handle:
        source = source_file(context, file, handle)
        with TemporaryFile() as opened:
            new = cast(BinaryIO, opened)
            position = write_pruned(context, file, handle, new, source)
            head = read_head(new)
            new.seek(0)
            content = new.read()
        hold.check()
        if not content:
            if not landing.delete(file):
                raise KeptError(_REPLACED)
        else:
            written = landing.replace(file, content)
            if source is not None:
                add_entry(
                    context,
                    source,
                    (written.device, written.inode),
                    head,
                    size_bytes=written.size_bytes,
                    position=position,
                    was_finished=source.finished_size_bytes == file.size_bytes,
                )
                context.done(f"position in {landing.shown(file.path)}")
    if has_versions:
        raise KeptError(_VERSIONS)
