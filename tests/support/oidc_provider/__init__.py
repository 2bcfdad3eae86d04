"""npm's `oidc-provider` as a process, and the ways of people and programs to a token."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
from jwt.algorithms import ECAlgorithm

from herma.local.processes import dies_with_parent
from tests.support.oidc_issuer import Key

_VERSION = "8.8.1"
_HERE = Path(__file__).parent
_CACHE = _HERE.parents[2] / ".cache" / "npm" / f"oidc-provider-{_VERSION}"
_REDIRECT = "http://127.0.0.1:9/callback"

PEOPLE = "herma-people"
PROGRAMS = "herma-programs"


class OidcProvider:
    """A provider on a port; started again with other keys it is the same issuer."""

    def __init__(self, port: int, groups: Mapping[str, Sequence[str]]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._port = port
        self._groups = groups
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *keys: Key) -> None:
        """Serves with these keys, of which the first signs."""
        self.stop()
        settings = {
            "port": self._port,
            "jwks": {"keys": [_private(key) for key in keys]},
            "groups": {subject: list(groups) for subject, groups in self._groups.items()},
        }
        server = _installed() / "server.mjs"
        server.write_text((_HERE / "server.mjs").read_text())
        self._process = subprocess.Popen(
            ["node", str(server), json.dumps(settings)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=dies_with_parent(signal.SIGKILL),
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"serving\n"

    def stop(self) -> None:
        """Serves no more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def token_of_program(self, audience: str) -> str:
        """An access token for a program (RFC 9068), by client credentials."""
        answer = httpx.post(
            f"{self.url}/token",
            data={"grant_type": "client_credentials", "resource": audience, "scope": "use"},
            auth=(PROGRAMS, "programs-secret-of-a-test"),
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    def token_of_person(self, subject: str) -> str:
        """An ID token for a person, who signs in and consents as in a browser."""
        with httpx.Client(trust_env=False, base_url=self.url, timeout=20) as browser:
            query = {
                "client_id": PEOPLE,
                "response_type": "code",
                "scope": "openid",
                "redirect_uri": _REDIRECT,
                "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
                "code_challenge_method": "S256",
            }
            answer = browser.get("/auth", params=query)
            forms = iter(
                [{"prompt": "login", "login": subject, "password": "any"}, {"prompt": "consent"}]
            )
            while not str(answer.headers.get("location", "")).startswith(_REDIRECT):
                if answer.is_redirect:
                    answer = browser.get(answer.headers["location"])
                    continue
                found = re.search(r'action="([^"]+)"', answer.text)
                assert found, answer.text
                answer = browser.post(found[1], data=next(forms))
            code = parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]
            # The verifier of RFC 7636's own example.
            answer = browser.post(
                "/token",
                data={
                    "grant_type": "authorization_code",
                    "code": code,
                    "redirect_uri": _REDIRECT,
                    "code_verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
                },
                auth=(PEOPLE, "people-secret-of-a-test"),
            )
            assert answer.status_code == 200, answer.text
            return str(answer.json()["id_token"])


def _installed() -> Path:
    """The package's folder, filled once a checkout."""
    if not (_CACHE / "node_modules" / "oidc-provider").is_dir():
        _CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [
                "npm",
                "install",
                "--no-package-lock",
                "--no-audit",
                "--no-fund",
                f"oidc-provider@{_VERSION}",
            ],
            cwd=_CACHE,
            check=True,
            capture_output=True,
        )
    return _CACHE


def _private(key: Key) -> dict[str, object]:
    private = ECAlgorithm.to_jwk(key.private, as_dict=True)
    return {**private, "kid": key.kid, "use": "sig", "alg": key.algorithm}
