"""The environment file of compose.yaml: an installation's secrets, made once.

Invariant: a value that the file holds is never changed, since databases and volumes depend on it; what a
later release asks for is added.  The operator's key is also written to `admin.key` beside it.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

from dotenv import dotenv_values

from herma.common.errors import HermaError
from herma.local.installation import fresh_secrets, public_key_of, write_private
from herma.session_authority.domain.keys import mint_key

_HEAD = """\
# Secrets of one Herma installation, made by `herma compose-env`.  Keep a copy with your backups, and
# never commit it.  Other settings of compose.yaml may stand here too: docs/compose.md names them.
"""

_ROLES = {
    "superuser": "HERMA_POSTGRES_PASSWORD",
    "authority": "HERMA_AUTHORITY_PASSWORD",
    "sandbox": "HERMA_SANDBOX_PASSWORD",
    "memory": "HERMA_MEMORY_PASSWORD",
}


class Refused(HermaError):
    """The file cannot be made."""

    reason = "COMPOSE_ENV_REFUSED"


def write_compose_env(path: Path) -> list[str]:
    """Makes the file, or adds what it lacks; mode 0600, replaced atomically.

    Returns:
        The names of the variables that were added.

    Raises:
        Refused: when it cannot be read or written.
    """
    try:
        text = path.read_text() if path.exists() else _HEAD
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {error}") from error
    known = {
        name: value
        for name, value in dotenv_values(stream=io.StringIO(text), interpolate=False).items()
        if value
    }
    values = complete(known)
    added = [name for name, value in values.items() if known.get(name) != value]
    if not text.endswith("\n"):
        text += "\n"
    lines = "".join(f"{name}={_quoted(values[name])}\n" for name in added)
    try:
        # Also when nothing was added: the mode may be wrong.
        write_private(path, text + lines)
        write_private(path.with_name("admin.key"), values["HERMA_OPERATOR_KEY"] + "\n")
    except OSError as error:
        raise Refused(f"{error.filename} cannot be written: {error.strerror}") from error
    return added


def complete(known: Mapping[str, str]) -> dict[str, str]:
    """All variables that compose.yaml cannot do without: those that are known, and new ones."""
    secrets = fresh_secrets(
        {
            "id": known.get("HERMA_INSTALLATION"),
            "turn_token_key": known.get("HERMA_TURN_TOKEN_KEY"),
        }
    )
    values = {
        "HERMA_INSTALLATION": secrets["id"],
        "HERMA_SANDBOX_SOCKET_DIR": f"/run/herma/{secrets['id']}",
        "HERMA_OPERATOR_KEY": mint_key(),
        "HERMA_TURN_TOKEN_KEY": secrets["turn_token_key"],
        **{variable: secrets["database"][role] for role, variable in _ROLES.items()},
        **{variable_of(pair): key for pair, key in secrets["service_keys"].items()},
    }
    kept = {name: known.get(name, value) for name, value in values.items()}
    # The public half always follows the private one.
    return kept | {"HERMA_TURN_TOKEN_PUBLIC_KEY": public_key_of(secrets["turn_token_key"])}


def variable_of(pair: str) -> str:
    """The variable that holds the key of a pair of services, such as `gateway>session-authority`."""
    return "HERMA_KEY_" + pair.replace(">", "_").replace("-", "_").upper()


def _quoted(value: str) -> str:
    """For both readers of such files, Compose's and python-dotenv's: line ends are written as \\n."""
    if "\n" not in value:
        return value
    return '"' + value.replace("\n", "\\n") + '"'
