"""The gateway as a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path

import httpx
from tests.component.gateway.wire_authority import SERVICE_KEYS, WireAuthority

_TRACE = "0af7651916cd43dd8448eb211c80319c"


async def test_a_trace_starts_here_and_sigterm_ends_streams_and_process(
    authority: WireAuthority, tmp_path: Path
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{probe.getsockname()[1]}"
    spans = tmp_path / "spans.jsonl"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "herma.gateway",
        env={
            **os.environ,
            "HERMA_HTTP_LISTEN": listen,
            "HERMA_AUTHORITY_ADDRESS": f"127.0.0.1:{authority.port}",
            "HERMA_SERVICE_KEYS": json.dumps(SERVICE_KEYS),
            "HERMA_SPANS_FILE": str(spans),
        },
    )
    try:
        headers = {"Authorization": "Bearer good"}
        async with httpx.AsyncClient(
            base_url=f"http://{listen}", headers=headers, timeout=10, trust_env=False
        ) as client:
            await _ready(client)
            path = f"/v1/sessions/{authority.session_id}"
            answer = await client.post(
                f"{path}/messages",
                json={"content": "whispered"},
                headers={"traceparent": f"00-{_TRACE}-b7ad6b7169203331-01"},
            )
            assert answer.status_code == 202
            async with client.stream("GET", f"{path}/events") as stream:
                assert "http_server_request_duration_seconds_count" in (await client.get("/metrics")).text
                process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(5):
                    await stream.aread()
        async with asyncio.timeout(10):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = spans.read_text()
    assert "whispered" not in text
    (span,) = [span for span in map(json.loads, text.splitlines()) if span["trace_id"] == _TRACE]
    assert span["name"] == "POST /v1/sessions/{session_id}/messages"
    assert (span["kind"], span["parent_id"]) == ("SERVER", "b7ad6b7169203331")
    assert span["attributes"]["http.request.method"] == "POST"
    assert span["attributes"]["http.route"] == "/v1/sessions/{session_id}/messages"
    assert span["attributes"]["http.response.status_code"] == 202
    expected = f"00-{_TRACE}-{span['span_id']}-01"
    submitted = [request for request in authority.requests if hasattr(request, "traceparent")]
    assert [request.traceparent for request in submitted] == [expected]
    assert expected in authority.traceparents


async def _ready(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                if (await client.get("/readyz")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)
