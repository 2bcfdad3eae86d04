"""Waiting ends as soon as it can, and says what it saw if it cannot."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from tests.support.waiting import eventually


async def test_it_answers_what_the_check_answers() -> None:
    numbers = count()
    assert await eventually(lambda: next(numbers) > 3 and "found", "enough") == "found"

    async def check() -> int:
        return next(numbers)

    assert await eventually(check, "a number") == 5


async def test_it_says_what_it_waited_for_and_saw_last() -> None:
    numbers = iter([0, [], ""])

    with pytest.raises(AssertionError, match=r"within 0\.1 s: the moon; last seen: ''$"):
        await eventually(lambda: next(numbers, ""), "the moon", 0.1)


async def test_a_check_that_does_not_come_back_fails_too() -> None:
    async def check() -> bool:
        await asyncio.sleep(30)
        return True

    with pytest.raises(AssertionError, match="sleep; last seen: nothing yet"):
        await eventually(check, "sleep", 0.05)


@pytest.mark.parametrize("error", [ZeroDivisionError, TimeoutError, AssertionError])
async def test_errors_of_the_check_are_not_waited_out(error: type[Exception]) -> None:
    def check() -> bool:
        raise error("mine")

    with pytest.raises(error, match=r"^mine$"):
        await eventually(check, "never", 5)
