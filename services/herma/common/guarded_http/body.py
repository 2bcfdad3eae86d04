"""The body of an answer, decoded and counted."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Final

import httpcore

from herma.common.guarded_http.failures import ReplyTooLarge, ReplyUnusable, peer_failures

_CHUNK: Final = 64 * 1024
# Decoding is work of the event loop's thread; others get their turn in between.
_PIECES_BETWEEN_TURNS: Final = 16


async def body_of(response: httpcore.Response, encoding: str, limit: int) -> AsyncGenerator[bytes, None]:
    """The body, in pieces of at most 64 KiB when it was compressed.

    Args:
        encoding: Its `Content-Encoding`.
        limit: Bytes after decompression; what arrives is bounded by little more.

    Raises:
        ReplyTooLarge: beyond the limit.
        ReplyUnusable: when it is not what its encoding says, or that was not asked for.
        PeerFailure: when the other side fails.
    """
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise ReplyUnusable("the answer is encoded in a way that was not asked for")
    gunzip = _Gunzip() if "gzip" in encoding else None
    size = arrived = turns = 0
    async for raw in _raw(response):
        arrived += len(raw)
        # Nothing may be packed into very much, too.
        if arrived > limit + limit // 8 + _CHUNK:
            raise _too_large(limit)
        for chunk in [raw] if gunzip is None else gunzip.pieces(raw):
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            yield chunk
            turns += 1
            if turns % _PIECES_BETWEEN_TURNS == 0:
                await asyncio.sleep(0)
    # The answer to HEAD is encoded, and has no body.
    if gunzip is not None and arrived and not gunzip.is_complete:
        raise ReplyUnusable("the answer is cut short")


async def _raw(response: httpcore.Response) -> AsyncIterator[bytes]:
    pieces = response.aiter_stream()
    while True:
        with peer_failures():
            try:
                raw = await anext(pieces)
            except StopAsyncIteration:
                return
        yield raw


def _too_large(limit: int) -> ReplyTooLarge:
    return ReplyTooLarge(f"the answer is larger than {limit} bytes")


class _Gunzip:
    """Inflates gzip (RFC 1952), members that follow one another included."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)

    @property
    def is_complete(self) -> bool:
        """Whether a member has just ended."""
        return self._member.eof

    def pieces(self, raw: bytes) -> Iterator[bytes]:
        """What comes out, in pieces: a small input may be a very large output."""
        while raw:
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=31)
            try:
                piece = self._member.decompress(raw, _CHUNK)
            except zlib.error as error:
                raise ReplyUnusable("the answer is not what its encoding says") from error
            raw = self._member.unconsumed_tail or self._member.unused_data
            if piece:
                yield piece
