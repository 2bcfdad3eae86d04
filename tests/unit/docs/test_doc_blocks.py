"""The reader of documents that `tests/e2e/test_docs.py` stands on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.doc_blocks import Block, blocks_of, mismatch, shown_after

DOCUMENT = """\
# Title

```sh
echo one
```

```text
one
```

Words.

```sh no-test reason="needs a key"
curl away
```

Words between.

```text
not its output
```
"""


def shown(text: str, language: str = "text") -> Block:
    return Block(Path("x.md"), 1, language, {}, text, 0)


def test_blocks_and_what_they_print(tmp_path: Path) -> None:
    document = tmp_path / "x.md"
    document.write_text(DOCUMENT)
    blocks = blocks_of(document)
    assert [(b.line, b.language, b.text) for b in blocks] == [
        (3, "sh", "echo one"),
        (7, "text", "one"),
        (13, "sh", "curl away"),
        (19, "text", "not its output"),
    ]
    assert blocks[2].options == {"no-test": "", "reason": "needs a key"}
    assert shown_after(blocks, blocks[0]) == blocks[1]
    assert shown_after(blocks, blocks[2]) is None


@pytest.mark.parametrize("fence", ["```\nx\n```", "```brainf\nx\n```", "```sh maybe\nx\n```", "```sh\nx"])
def test_fences_that_are_not_understood_are_refused(tmp_path: Path, fence: str) -> None:
    document = tmp_path / "x.md"
    document.write_text(fence)
    with pytest.raises(AssertionError):
        blocks_of(document)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("Ready in 4.8 s.", "Ready in 12 s.\n"),
        ("a  b", "a      b"),
        ("before\n…\nafter", "before\nx\ny\nafter\n"),
        ("before\n…\nafter", "before\nafter\n"),
        ("key …", "key herma_abc"),
        ("turn 019adb4e-5a3c-7000-8000-000000000000", "turn 019adb4e-ffff-7abc-8abc-0123456789ab"),
    ],
)
def test_output_of_the_same_shape_fits(text: str, printed: str) -> None:
    assert mismatch(shown(text), printed) == ""


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("Ready in 4.8 s.", "Ready in a while."),
        ("one", "one\ntwo"),
        ("before\n…\nafter", "before\nx"),
        ("ok", ""),
    ],
)
def test_output_of_another_shape_does_not(text: str, printed: str) -> None:
    assert mismatch(shown(text), printed)


def test_json_fits_by_fields_and_types() -> None:
    example = shown('{"id": "x", "items": [{"n": 1}], "none": []}', "json")
    assert mismatch(example, '{"id": "y", "items": [{"n": 7}, {"n": 8}], "none": [1]}') == ""
    assert "$.items[0]" in mismatch(example, '{"id": "y", "items": [{"n": "7"}], "none": []}')
    assert "printed" in mismatch(example, '{"id": "y", "items": [{"n": 7}]}')
    assert "none printed" in mismatch(example, '{"id": "y", "items": [], "none": []}')
