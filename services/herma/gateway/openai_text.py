"""Text as OpenAI's clients send it: plain, or in parts."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic_core import PydanticCustomError

from herma.common.lines import is_line


def unsupported(text: str, **context: object) -> PydanticCustomError:
    """What a validator raises for what Herma does not do."""
    return PydanticCustomError("unsupported", text, context)


def storable(text: str) -> str:
    """Text that PostgreSQL can store.

    Raises:
        PydanticCustomError: for other text.
    """
    if "\0" in text:
        raise unsupported("must not contain U+0000")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise unsupported("must be Unicode text, without lone surrogates") from error
    return text


def printable(value: str | None) -> str | None:
    """Text of one line; None stays.

    Raises:
        PydanticCustomError: for other text.
    """
    if value is not None and not is_line(value):
        raise unsupported("must be one line")
    return value


def joined(content: object, fields: Mapping[str, str]) -> str:
    """Text, or parts of text as one: a line each, as model servers join them.

    Args:
        fields: By the type of a part that is text, where its text is.

    Raises:
        PydanticCustomError: for what is neither.
    """
    if content is None or isinstance(content, str):
        return storable(content or "")
    if not isinstance(content, list):
        raise unsupported("must be text or a list of parts")
    return "\n".join(_text_of(part, number, fields) for number, part in enumerate(content))


def _text_of(part: object, number: int, fields: Mapping[str, str]) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str) or kind not in fields:
        raise unsupported(
            "part {number} is {kind}; parts can only be text yet", number=number, kind=repr(kind)[:40]
        )
    text = part.get(fields[kind])
    if not isinstance(text, str):
        raise unsupported("part {number} has no text", number=number)
    return storable(text)
