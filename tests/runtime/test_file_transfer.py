"""A file of one node, copied to the nodes that lack it."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers import processes
from translate_ddp.errors import UserError
from translate_ddp.run_settings import DistributedConfig
from translate_ddp.runtime import file_transfer
from translate_ddp.runtime.file_transfer import copy_to_nodes
from translate_ddp.runtime.world import open_world


def copy_from_second_node(folder: str, target: str, receivers: Sequence[int] = (0, 2)) -> None:
    """Each of three ranks is a node with a folder of its own; the second one has the file."""
    os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"] = "0", "1"
    file_transfer.CHUNK_BYTES = 1_000
    with open_world(DistributedConfig()) as world:
        disk = Path(folder) / f"disk{world.rank}"
        try:
            copy_to_nodes(Path(folder) / "disk1" / "file", 1, receivers, disk / target, world)
        except UserError as error:
            (disk / "error").write_text(str(error))


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"disk{rank}" for rank in range(3)]
    for path in paths:
        path.mkdir()
    return paths


@pytest.mark.parametrize("size", [0, 999, 1_000, 3_001])
def test_nodes_receive_the_bytes_of_the_file(disks: list[Path], tmp_path: Path, size: int):
    content = os.urandom(size)
    (disks[1] / "file").write_bytes(content)
    processes.start(copy_from_second_node, tmp_path, 3, None, str(tmp_path), "copy").succeed()
    assert [sorted(p.name for p in disk.iterdir()) for disk in disks] == [
        ["copy"],
        ["file"],
        ["copy"],
    ]
    assert (disks[0] / "copy").read_bytes() == (disks[2] / "copy").read_bytes() == content


def test_node_that_cannot_write_is_an_error_on_every_rank(disks: list[Path], tmp_path: Path):
    (disks[1] / "file").write_bytes(os.urandom(3_001))
    (disks[0] / "new").mkdir()  # and not on the third node
    processes.start(copy_from_second_node, tmp_path, 3, None, str(tmp_path), "new/copy").succeed()
    texts = {(disk / "error").read_text() for disk in disks}
    assert texts == {
        f"The copy of another node's checkpoint at {disks[2] / 'new' / 'copy'} cannot be written: "
        "No such file or directory."
    }


def test_owner_that_cannot_copy_its_own_file_is_an_error(disks: list[Path], tmp_path: Path):
    (disks[1] / "file").write_bytes(b"content")
    for disk in (disks[0], disks[2]):
        (disk / "new").mkdir()
    work = copy_from_second_node
    job = processes.start(work, tmp_path, 3, None, str(tmp_path), "new/copy", [0, 1, 2])
    job.succeed()
    (text,) = {(disk / "error").read_text() for disk in disks}
    assert text.endswith(
        f"{disks[1] / 'new' / 'copy'} cannot be written: No such file or directory."
    )
