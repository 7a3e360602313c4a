"""Owner of a lease: a process, and whether it is still running."""

import os
import socket
import uuid


def new_owner() -> str:
    """Return a unique name for this process: ``<host>:<process id>:<random>``."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}"


def is_gone(owner: str) -> bool:
    """Return True if the process of a lease has ended without releasing it.

    Only processes of this machine can be checked; leases of others expire. A wrong True
    (containers that share a host name) does no harm: the number of a lease that was taken over is
    invalid, so nothing is committed twice.
    """
    host, _, rest = owner.partition(":")
    process_id = rest.partition(":")[0]
    if host != socket.gethostname() or not process_id.isdecimal():
        return False
    try:
        os.kill(int(process_id), 0)  # signal 0 only asks
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):  # of another user, or no process id of this machine
        return False
    return False
