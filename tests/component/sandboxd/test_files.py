"""Files of the workspace: faithful to the byte, replaced atomically, never outside."""

from __future__ import annotations

import asyncio
import os
import uuid

import grpc
import pytest
from tests.component.sandboxd.sandbox import Sandbox

from herma.api.sandboxd.v1 import sandboxd_pb2 as pb

NAMES = [
    b"plain",
    b"with space",
    b"new\nline",
    b"\xff\xfe not utf-8",
    b"-rf",
    b"deep/er/and/deeper",
    b"'\"$x",
]


async def code_of(work) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await work
    return caught.value.code()


@pytest.mark.parametrize("size", [0, 1, 262_144, 1 << 20, 5_000_001])
async def test_any_size_comes_back(sandbox: Sandbox, size: int) -> None:
    content = os.urandom(size)
    assert await sandbox.write(b"file", content)
    read, header = await sandbox.read(b"file")
    assert read == content
    assert (header.size, header.mode) == (size, 0o644)
    assert (await sandbox.read(b"file", size // 2, 1000))[0] == content[size // 2 :][:1000]


async def test_any_name_is_kept(sandbox: Sandbox) -> None:
    for name in NAMES:
        assert await sandbox.write(name, name)
        assert (await sandbox.read(name))[0] == name
    listed = await sandbox.run("find . -path ./.herma -prune -o -type f -print0")
    assert set(listed.kept.strip(b"\0").split(b"\0")) == {b"./" + name for name in NAMES}


async def test_absolute_paths_below_the_workspace_are_its_own(sandbox: Sandbox) -> None:
    top = (await sandbox.run("pwd")).kept.strip()
    await sandbox.write(top + b"/file", b"x")
    assert (await sandbox.read(b".//file"))[0] == b"x"
    assert (await sandbox.read(top + b"/file"))[0] == b"x"


async def test_no_path_leads_outside(sandbox: Sandbox) -> None:
    top = (await sandbox.run("pwd; mkdir a; ln -s /etc etc; ln -s ../.. up; ln -s /etc/passwd passwd;"
                             " ln -s loop loop; ln -s a/../../x sly")).kept.strip()  # fmt: skip
    for path in (
        *(b"../x", b"a/../../x", b"/etc/passwd", b"/", b"", b".", top, top + b"/../x", top + b"x/y"),
        *(b"etc/passwd", b"passwd", b"up/x", b"loop", b"sly", b"nul\0", b"x" * 5000),
    ):
        assert await code_of(sandbox.read(path)) is grpc.StatusCode.INVALID_ARGUMENT, path
        assert await code_of(sandbox.write(path, b"")) is grpc.StatusCode.INVALID_ARGUMENT, path


async def test_links_inside_are_followed(sandbox: Sandbox) -> None:
    top = (await sandbox.run("pwd; mkdir -p a/b; ln -s a/b near; ln -s $PWD/a/b/file far")).kept.strip()
    await sandbox.write(b"near/file", b"x")
    assert (await sandbox.read(b"far"))[0] == b"x"
    await sandbox.write(b"far", b"y")
    assert (await sandbox.read(top + b"/a/b/file"))[0] == b"y"
    assert b"far ->" in (await sandbox.run("ls -l far")).kept


async def test_a_path_that_is_swapped_meanwhile_stays_inside(sandbox: Sandbox) -> None:
    outside = (await sandbox.run("mkdir d; echo mine > d/hostname; cat /etc/hostname")).kept
    call = sandbox.stream_exec("mv d real; while :; do ln -sfn real d; ln -sfn /etc d; done", timeout=30)
    await call.read()
    seen = set()
    for _ in range(300):
        try:
            seen.add((await sandbox.read(b"d/hostname"))[0])
        except grpc.aio.AioRpcError as error:
            seen.add(error.code())
    call.cancel()
    assert outside not in seen
    assert seen <= {b"mine\n", grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}


async def test_only_regular_files_are_read(sandbox: Sandbox) -> None:
    await sandbox.run("mkdir folder; mkfifo pipe; python3 -c 'import socket;"
                      ' socket.socket(socket.AF_UNIX).bind("socket")\'')  # fmt: skip
    for path in (b"folder", b"pipe", b"socket"):
        assert await code_of(sandbox.read(path)) is grpc.StatusCode.INVALID_ARGUMENT, path
    assert await code_of(sandbox.read(b"missing")) is grpc.StatusCode.NOT_FOUND
    assert await code_of(sandbox.read(b"no/such/folder")) is grpc.StatusCode.NOT_FOUND
    assert await code_of(sandbox.read(b"x", -1)) is grpc.StatusCode.INVALID_ARGUMENT
    assert await code_of(sandbox.write(b"folder", b"x")) is grpc.StatusCode.INVALID_ARGUMENT
    assert await code_of(sandbox.write(b"pipe/x", b"x")) is grpc.StatusCode.INVALID_ARGUMENT


async def test_content_that_is_not_what_was_announced_changes_nothing(sandbox: Sandbox) -> None:
    await sandbox.write(b"file", b"old")
    for work in (
        sandbox.write(b"file", b"new", sha256=bytes(32)),
        sandbox.write(b"file", b"new", size=2),
        sandbox.write(b"file", b"new", size=4),
        sandbox.write(b"file", b"new", sha256=b"short"),
    ):
        assert await code_of(work) is grpc.StatusCode.INVALID_ARGUMENT
    assert (await sandbox.run("cat file; ls -A")).kept == b"oldfile\n"


async def test_a_hardlink_is_replaced_and_not_written_through(sandbox: Sandbox) -> None:
    await sandbox.run("echo old > file; ln file other")
    assert not await sandbox.write(b"file", b"new\n")
    assert (await sandbox.run("cat file other")).kept == b"new\nold\n"


async def test_the_mode_is_kept_or_set(sandbox: Sandbox) -> None:
    await sandbox.run("touch script; chmod 755 script")
    await sandbox.write(b"script", b"#!/bin/sh\n")
    assert (await sandbox.read(b"script"))[1].mode == 0o755
    await sandbox.write(b"script", b"", mode=0o4600)
    assert (await sandbox.read(b"script"))[1].mode == 0o600


async def test_readers_see_the_old_or_the_new_and_nothing_between(sandbox: Sandbox) -> None:
    contents = [bytes([65 + number]) * 700_000 for number in range(4)]
    await sandbox.write(b"file", contents[0])
    writing = asyncio.gather(*(sandbox.write(b"file", content) for content in contents))
    while not writing.done():
        read, _ = await sandbox.read(b"file")
        assert read in contents
    await writing


async def test_a_write_that_is_fenced_out_midway_changes_nothing(sandbox: Sandbox) -> None:
    call = sandbox.stub.WriteFile(metadata=sandbox.metadata, timeout=20)
    await call.write(
        pb.WriteFileRequest(
            header=pb.WriteFileHeader(call_id=str(uuid.uuid4()), epoch=1, path=b"f", sha256=bytes(32))
        )
    )
    # The header was seen when the draft lies beside the file.
    while not (await sandbox.run("ls -A | grep herma-", epoch=1)).kept:
        await asyncio.sleep(0.02)
    await sandbox.attach(str(uuid.uuid4()), epoch=2)
    await call.done_writing()
    assert await code_of(call) is grpc.StatusCode.FAILED_PRECONDITION
    assert (await sandbox.run("ls -A", epoch=2)).kept == b""
