"""Where telemetry that came with a key lies, so that its path says whose it is.

``received/<organization>/<UTC date>/<file>`` in the landing folder; the organization is
percent-encoded, and ``_`` for keys of all organizations, whose records keep what they say.
"""

from urllib.parse import quote, unquote

RECEIVED = "received"
_NO_ORGANIZATION = "_"
_MAX_NAME_BYTES = 255


def received_folder(organization: str | None) -> str:
    """Return the folder of an organization's telemetry, relative to the landing folder.

    Raises:
        ValueError: the name of the organization gives no name of a folder.
    """
    if organization is None:
        return f"{RECEIVED}/{_NO_ORGANIZATION}"
    # A leading dot would hide the folder, an underscore could be mistaken for no organization.
    name = quote(organization, safe="").replace("~", "%7E")
    name = "".join(f"%{ord(each):02X}" if each in "._" else each for each in name[:1]) + name[1:]
    if not name or len(name) > _MAX_NAME_BYTES:
        raise ValueError(f"the organization {organization!r} is too long for the name of a folder")
    return f"{RECEIVED}/{name}"


def organization_of(path: str) -> str | None:
    """Return the organization that a landing file came with; None if its records say it."""
    parts = path.split("/")
    if len(parts) < 3 or parts[0] != RECEIVED or parts[1] == _NO_ORGANIZATION:
        return None
    return unquote(parts[1])
