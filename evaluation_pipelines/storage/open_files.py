"""Whether another process has a file open, as the operating system knows it."""

import errno
import os
import signal
from pathlib import Path


def is_open_elsewhere(path: Path) -> bool | None:
    """Return True if a file is open already, in any process; None if the system cannot tell.

    Linux grants a lease for writing only on a file that is open once; it is returned at once.

    Raises:
        OSError: The file cannot be opened.
    """
    import fcntl

    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        # Whoever opens the file meanwhile waits; the signal of that would end this process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except AttributeError:  # not on this system
        return None
    except OSError as error:
        return True if error.errno in (errno.EAGAIN, errno.EBUSY) else None
    finally:
        os.close(descriptor)
    return False
