"""OpenAI's own client against a platform, and what its tests ask of it."""

from __future__ import annotations

from typing import Any

import openai

from tests.support.platform import TestPlatform


def asking(platform: TestPlatform, url: str = "", **options: Any) -> openai.AsyncOpenAI:
    """An asynchronous client."""
    base = f"{url or platform.up_file['http']}/v1"
    options = {"api_key": platform.admin_key, "max_retries": 0, **options}
    return openai.AsyncOpenAI(base_url=base, **options)


def user(content: str) -> list[Any]:
    return [{"role": "user", "content": content}]


def turns_of(platform: TestPlatform, word: str) -> list[str]:
    rows = platform.sql(
        "authority", f"SELECT id::text FROM authority.turns WHERE content LIKE '%{word}%'"
    )
    return [row[0] for row in rows]


async def streamed(stream: Any) -> tuple[str, list[Any]]:
    """The joined content of a stream, and its chunks."""
    chunks = [chunk async for chunk in stream]
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices), chunks
