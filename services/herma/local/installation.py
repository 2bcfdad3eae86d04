"""One data folder: its identity, its secrets, its lock."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from herma.common.errors import AlreadyExists, HermaError
from herma.session_authority.domain.keys import mint_key

# Who may call whom.
PAIRS = (
    "gateway>session-authority",
    "operator>session-authority",
    "agent-runner>session-authority",
    "agent-runner>tool-sandbox",
    "agent-runner>memory",
    "tool-sandbox>tool-sandbox-broker",
)
ROLES = ("authority", "sandbox", "memory")


class UnusableFolder(HermaError):
    """The data folder cannot be used."""

    reason = "UNUSABLE_FOLDER"


def make_folder(folder: Path) -> None:
    """Makes a data folder, of mode 0700, and its folder of logs; what is there stays as it is.

    Raises:
        UnusableFolder: when that cannot be done.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "logs").mkdir(exist_ok=True)
    except OSError as error:
        raise UnusableFolder(
            f"the data folder {folder} cannot be used ({error.strerror}): set HERMA_DATA_DIR to another"
        ) from error


class Installation:
    """A data folder, held by one `herma up` at a time.

    Args:
        folder: Made if it is not there.

    Raises:
        AlreadyExists: when another `herma up` holds it.
        UnusableFolder: when it cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        make_folder(self.folder)
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise AlreadyExists(
                f"another `herma up` runs on {self.folder}: stop it with `herma down`, "
                "or set HERMA_DATA_DIR to another folder"
            ) from error
        self._secrets = self._load()
        self.id: str = self._secrets["id"]

    def database_password(self, role: str) -> str:
        """Of a service's role, or of `superuser`."""
        return str(self._secrets["database"][role])

    def keys_of(self, service: str) -> dict[str, str]:
        """The pair keys that a service is part of."""
        keys: dict[str, str] = self._secrets["service_keys"]
        return {pair: key for pair, key in keys.items() if service in pair.split(">")}

    @property
    def local_model_key(self) -> str:
        """The key that the local model asks for."""
        return str(self._secrets["local_model_key"])

    @property
    def turn_token_key(self) -> str:
        """PEM of the private key."""
        return str(self._secrets["turn_token_key"])

    @property
    def turn_token_public_key(self) -> str:
        """PEM of the public key."""
        return public_key_of(self.turn_token_key)

    @property
    def runtime_folder(self) -> Path:
        """Folder for sockets, whose paths must be short; private to this user."""
        base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
        folder = base / f"herma-{self.id}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise AlreadyExists(f"{folder} belongs to somebody else")
        return folder

    def operator_key(self) -> str:
        """The operator's API key, kept in `admin.key`."""
        path = self.folder / "admin.key"
        if path.exists():
            return path.read_text().strip()
        key = mint_key()
        write_private(path, key + "\n")
        return key

    def close(self) -> None:
        """Lets another `herma up` have the folder."""
        os.close(self._lock)

    def _load(self) -> dict[str, Any]:
        path = self.folder / "secrets.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        fresh = fresh_secrets(known)
        if fresh != known:
            write_private(path, json.dumps(fresh, indent=1))
        return fresh


def fresh_secrets(known: dict[str, Any]) -> dict[str, Any]:
    """An installation's secrets: those that are known, and new ones for what is missing."""
    return {
        "id": known.get("id") or secrets.token_hex(5),
        "turn_token_key": known.get("turn_token_key") or _new_key(),
        "local_model_key": known.get("local_model_key") or secrets.token_hex(32),
        "database": {role: secrets.token_hex(16) for role in (*ROLES, "superuser")}
        | known.get("database", {}),
        "service_keys": {pair: secrets.token_hex(32) for pair in PAIRS} | known.get("service_keys", {}),
    }


def public_key_of(private_key: str) -> str:
    """PEM of the public half of a turn token key."""
    key = load_pem_private_key(private_key.encode(), None)
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def write_private(path: Path, text: str) -> None:
    """Writes a file of mode 0600 atomically."""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _new_key() -> str:
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
