"""Prepared folders: synced before they are published, verified, and prepared again if damaged."""

import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import processes
from tests.helpers.faults import Run
from translate_ddp.data import prepared_folder
from translate_ddp.data.dataset import find_prepared
from translate_ddp.data.prepared_folder import (
    Unusable,
    is_usable,
    publish,
    read_summary,
    verify,
)

CONTENT = {"one.npy": bytes(range(200)), "two.txt": b"due\n", "empty": b""}


def write(partial: Path) -> tuple[Path, dict[str, Any]]:
    for name, content in CONTENT.items():
        (partial / name).write_bytes(content)
    return partial.parent / "published", {"count": 3}


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with digests of 64 bytes each."""
    monkeypatch.setattr(prepared_folder, "CHUNK_BYTES", 64)
    return publish(tmp_path / "data", write)


def test_summary_has_the_sha256_of_every_chunk_of_every_file(published: Path):
    summary = read_summary(published)
    assert summary["count"] == 3
    assert summary["files"].keys() == CONTENT.keys()
    for name, content in CONTENT.items():
        chunks = [content[start : start + 64] for start in range(0, len(content), 64)]
        expected = [hashlib.sha256(chunk).hexdigest() for chunk in chunks]
        assert summary["files"][name]["digests"] == expected
    verify(published)


def test_everything_is_synced_before_the_rename_and_the_rename_after_it(
    tmp_path: Path, disk_calls: list[str]
):
    published = publish(tmp_path / "data", write)
    assert disk_calls[-1] == "data" and disk_calls[-2].endswith(f"-> {published.name}")
    before = disk_calls[:-2]
    assert set(before) >= {*CONTENT, "prepared.json"}
    assert any(name.startswith(".preparing-") for name in before)


@pytest.mark.parametrize("name", [*CONTENT, "prepared.json"])
def test_every_changed_missing_and_added_byte_is_found(published: Path, name: str):
    path = published / name
    intact = path.read_bytes()
    changes = [intact[:-1], intact + b"\0"]
    for place in range(0, len(intact), 7):
        changes.append(intact[:place] + bytes([intact[place] ^ 1]) + intact[place + 1 :])
    for content in filter(lambda content: content != intact, changes):
        path.write_bytes(content)
        with pytest.raises(Unusable, match=name):
            verify(published)
    path.unlink()
    with pytest.raises(Unusable, match=f"{name} (is missing|cannot be read)"):
        verify(published)
    path.write_bytes(intact)
    verify(published)


def test_damaged_folder_is_moved_aside_with_one_message(
    published: Path, capsys: pytest.CaptureFixture[str]
):
    assert is_usable(published)
    (published / "one.npy").write_bytes(b"other")
    with (published / "one.npy").open("rb") as mapped:  # by another run
        assert not is_usable(published)
        assert mapped.read() == b"other"
    (aside,) = published.parent.iterdir()
    assert aside.name.startswith(".damaged-published-") and (aside / "one.npy").exists()
    (message,) = capsys.readouterr().out.splitlines()
    assert message.startswith(f"{published} is damaged: one.npy has other bytes than were written.")
    assert str(aside) in message
    assert publish(published.parent, write) == published and is_usable(published)


def test_folder_that_another_process_publishes_first_is_used(tmp_path: Path):
    def write_late(partial: Path) -> tuple[Path, dict[str, Any]]:
        publish(tmp_path / "data", write)
        return write(partial)

    assert publish(tmp_path / "data", write_late) == tmp_path / "data" / "published"
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["published"]


def publish_and_wait(folder: Path) -> None:
    def write_forever(partial: Path) -> tuple[Path, dict[str, Any]]:
        (partial / "started").touch()
        time.sleep(3600)
        raise AssertionError

    publish(folder, write_forever)


@pytest.fixture
def preparing(tmp_path: Path) -> Iterator[processes.Job]:
    """A process that prepares a folder below `data`, and does not end."""
    job = processes.start(publish_and_wait, tmp_path, 1, None, tmp_path / "data")
    processes.wait_until(lambda: list(tmp_path.glob("data/.preparing-*/started")))
    yield job
    job.ranks[0].kill()


def partial_folders(published: Path) -> list[Path]:
    return list(published.parent.glob(".preparing-*"))


def test_partial_folder_is_deleted_only_after_its_process_has_ended(
    preparing: processes.Job, tmp_path: Path
):
    published = publish(tmp_path / "data", write)
    (partial,) = partial_folders(published)
    assert (partial / "started").exists()
    preparing.kill()
    shutil.rmtree(published)
    publish(tmp_path / "data", write)
    assert not partial_folders(published)


def test_validation_set_of_damaged_corpus_is_not_used(run: Run, capsys: pytest.CaptureFixture[str]):
    (summary,) = run.folder.glob("data/*/prepared.json")
    fingerprint = json.loads(summary.read_text())["fingerprint"]
    assert find_prepared(run.folder / "data", fingerprint[:12], "") is not None
    (summary.parent / "validation.src.txt").write_text("other\n")
    assert find_prepared(run.folder / "data", fingerprint[:12], "") is None
    assert "validation.src.txt has other bytes" in capsys.readouterr().err
