"""Files are replaced in one step; damaged ones are as good as none."""

import os
from pathlib import Path

import msgspec
import pytest

from harness.core import jsonio
from harness.core.errors import HarnessError


class Note(msgspec.Struct, forbid_unknown_fields=True):
    """A note of the tests."""

    key: str
    runs: tuple[int, ...] = ()


def test_what_was_written_is_read(tmp_path: Path) -> None:
    note = Note("k", (1, 2))
    jsonio.write(tmp_path / "n.json", note)
    assert jsonio.load(Note, tmp_path / "n.json") == note
    assert os.listdir(tmp_path) == ["n.json"]  # noqa: PTH208


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "n.json"
    jsonio.write_text(path, "old")
    real = Path.write_text

    def half(self: Path, text: str, **more: str) -> int:
        real(self, text[:2], **more)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="No space"):
        jsonio.write_text(path, "new text")
    assert path.read_text() == "old"


@pytest.mark.parametrize("text", ["", '{"key": "a', "[]", '{"key": 1}', '{"lock": ""}', "\xff"])
def test_a_damaged_note_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "n.json").write_bytes(text.encode("latin-1"))
    assert jsonio.recall(Note, tmp_path / "n.json") is None
    with pytest.raises(HarnessError, match=r"n\.json: "):
        jsonio.load(Note, tmp_path / "n.json")
    assert jsonio.recall(Note, tmp_path / "none") is None
