"""Files that are replaced as a whole."""

import errno
import os
from pathlib import Path

import pytest

from translate_ddp.runtime.files import write_atomically


@pytest.mark.parametrize("data", ["perché\n", b"\x00\xff"])
def test_file_is_replaced_and_nothing_else_is_left(tmp_path: Path, data: str | bytes):
    path = tmp_path / "STATUS.json"
    path.write_text("old and longer than the new content")
    write_atomically(path, data)
    assert path.read_bytes() == (data.encode() if isinstance(data, str) else data)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_file_is_unchanged_if_the_disk_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "config.yaml"
    path.write_text("old")
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(OSError, match="No space left on device"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
