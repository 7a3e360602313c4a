"""Who holds a lease: a process of a machine, and whether it can still be at work."""

import os
import socket
import uuid


def new_owner() -> str:
    """A name for one use of a lease by this process: ``<host>:<process id>:<random>``."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}"


def is_gone(owner: str) -> bool:
    """Whether the process of a lease has ended without giving it back.

    Only a process of this machine can be looked up; of any other the answer is no, and the lease
    ends by its time. A wrong yes (containers that share a host name) does no harm: the number of
    a lease that was taken away is void, so that nothing is committed twice.
    """
    host, _, rest = owner.partition(":")
    process_id = rest.partition(":")[0]
    if host != socket.gethostname() or not process_id.isdecimal():
        return False
    try:
        os.kill(int(process_id), 0)  # signal 0 only asks
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):  # somebody else's, or no process id of this machine
        return False
    return False
