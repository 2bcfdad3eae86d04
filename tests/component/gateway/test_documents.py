"""What the gateway tells about itself."""

from __future__ import annotations

import httpx
from tests.component.gateway.wire_authority import WireAuthority


async def test_the_openapi_document_describes_every_answer(anonymous: httpx.AsyncClient) -> None:
    document = (await anonymous.get("/openapi.json")).json()
    assert "HTTPValidationError" not in document["components"]["schemas"]
    operations = [
        (f"{method} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    assert {name for name, _ in operations} == {
        "post /v1/sessions",
        "get /v1/sessions",
        "get /v1/sessions/{session_id}",
        "delete /v1/sessions/{session_id}",
        "post /v1/sessions/{session_id}/messages",
        "get /v1/sessions/{session_id}/messages",
        "get /v1/sessions/{session_id}/events",
        "get /v1/turns/{turn_id}",
        "post /v1/turns/{turn_id}/interrupt",
        "post /v1/keys",
        "get /v1/keys",
        "delete /v1/keys/{key_id}",
        "get /v1/profiles",
        "get /v1/profiles/{name}",
        "put /v1/profiles/{name}",
        "post /v1/keys/{key_id}/rotate",
        "get /v1/principals",
        "post /v1/principals",
        "get /v1/principals/{principal_id}",
        "patch /v1/principals/{principal_id}",
        "get /v1/grants",
        "post /v1/grants",
        "delete /v1/grants/{grant_id}",
        "get /v1/issuers",
        "post /v1/issuers",
        "delete /v1/issuers/{issuer_id}",
        "get /v1/whoami",
        "get /v1/audit",
        "get /v1/audit/verification",
        "get /v1/tenants",
        "post /v1/tenants",
        "post /v1/chat/completions",
        "post /v1/responses",
        "get /v1/responses/{response_id}",
        "delete /v1/responses/{response_id}",
        "post /v1/responses/{response_id}/cancel",
        "get /v1/responses/{response_id}/input_items",
        "get /v1/models",
        "get /v1/models/{model}",
    }
    for name, operation in operations:
        assert operation["security"], name
        for status, response in operation["responses"].items():
            assert status != "422", name
            openai = name.partition(" ")[2].startswith(("/v1/chat", "/v1/models", "/v1/responses"))
            refusal = "application/json" if openai else "application/problem+json"
            kind = refusal if status >= "400" else None
            assert kind is None or list(response["content"]) == [kind], (name, status)
            assert status == "204" or response["content"], (name, status)


async def test_readiness_follows_the_authority(
    anonymous: httpx.AsyncClient, authority: WireAuthority
) -> None:
    assert (await anonymous.get("/readyz")).status_code == 200
    assert authority.server is not None
    await authority.server.refuse()
    assert (await anonymous.get("/readyz")).status_code == 503
    await authority.stop()
    assert (await anonymous.get("/readyz")).status_code == 503
    assert (await anonymous.get("/healthz")).status_code == 200
    await authority.start()
    assert (await anonymous.get("/readyz")).status_code == 200


async def test_metrics_are_prometheus_text(anonymous: httpx.AsyncClient) -> None:
    answer = await anonymous.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "python_info" in answer.text
