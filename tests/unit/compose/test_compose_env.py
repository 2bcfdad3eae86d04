"""The secrets of compose.yaml: made once, kept, completed."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from dotenv import dotenv_values

from herma.local.compose_env import Refused, complete, write_compose_env
from herma.session_authority.domain.keys import key_prefix


def test_it_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    added = write_compose_env(file)
    assert set(added) == set(complete({}))
    first = file.read_text()
    assert write_compose_env(file) == []
    assert file.read_text() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == [".env", "admin.key"]
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600


def test_the_operator_s_key_lies_beside_it(tmp_path: Path) -> None:
    write_compose_env(tmp_path / ".env")
    key = (tmp_path / "admin.key").read_text().strip()
    assert key_prefix(key)
    assert dotenv_values(tmp_path / ".env")["HERMA_OPERATOR_KEY"] == key
    (tmp_path / "admin.key").unlink()
    write_compose_env(tmp_path / ".env")
    assert (tmp_path / "admin.key").read_text().strip() == key


def test_two_installations_share_nothing(tmp_path: Path) -> None:
    one, other = complete({}), complete({})
    assert not set(one.values()) & set(other.values())


def test_what_is_there_is_kept_and_what_lacks_is_added(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("# mine\nHERMA_MODEL=qwen3\nHERMA_INSTALLATION=abc\nHERMA_MEMORY_PASSWORD=")
    added = write_compose_env(file)
    text = file.read_text()
    assert text.startswith("# mine\nHERMA_MODEL=qwen3\nHERMA_INSTALLATION=abc\n")
    values = dotenv_values(file)
    assert values["HERMA_SANDBOX_SOCKET_DIR"] == "/run/herma/abc"
    assert values["HERMA_MODEL"] == "qwen3"
    assert values["HERMA_MEMORY_PASSWORD"]
    assert "HERMA_MEMORY_PASSWORD" in added
    assert "HERMA_INSTALLATION" not in added


def test_the_turn_token_keys_are_a_pair_also_when_one_was_lost(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    write_compose_env(file)
    kept = [line for line in file.read_text().splitlines() if not line.startswith("HERMA_TURN_TOKEN_KEY")]
    file.write_text("\n".join(kept))
    assert write_compose_env(file) == ["HERMA_TURN_TOKEN_KEY", "HERMA_TURN_TOKEN_PUBLIC_KEY"]
    values = dotenv_values(file)
    private = load_pem_private_key(str(values["HERMA_TURN_TOKEN_KEY"]).encode(), None)
    public = load_pem_public_key(str(values["HERMA_TURN_TOKEN_PUBLIC_KEY"]).encode())
    assert private.public_key() == public


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="nowhere"):
        write_compose_env(tmp_path / "nowhere" / ".env")
