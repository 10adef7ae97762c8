"""Files that are translated in chunks: interrupted, divided over ranks, changed, or unwritable."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import faults
from tests.helpers.faults import Run
from tests.helpers.file_translation import names, start
from tests.helpers.options import slow
from tests.helpers.processes import Job
from translate_ddp.apps.commands.model_commands import SavedModel, open_once
from translate_ddp.apps.commands.translate import TranslateConfig
from translate_ddp.errors import UserError
from translate_ddp.runtime.chunked_file import ChunkedFile
from translate_ddp.runtime.world import World
from translate_ddp.translator import Translator

LINES = [
    *("sun moon river", "", "tree. bird fish.", " \t", "stone bird fish wolf tree", "moon"),
    *("wolf wolf", "a", "river", "fish moon", "☃ sun", "tree tree", "bird", "sun sun", "stone"),
]  # four chunks, the last with three lines
CHUNKS = 4
INPUT = "\r\n".join(LINES).encode()  # without a final line break


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the input, for the output."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "in.en").write_bytes(INPUT)
    return place


@pytest.fixture
def translate(trained: Path, place: Path, tmp_path: Path) -> Callable[..., Job]:
    def translate(*flags: str, size: int = 1, fault: str = "", gpus: int = 0) -> Job:
        files = ["--input", str(place / "in.en"), "--output", str(place / "out")]
        folder = ["--model_folder", str(trained)]
        words = ("translate", *files, *folder, *flags)
        return start(tmp_path / "printed", *words, size=size, fault=fault, gpus=gpus)

    return translate


def expected(trained: Path) -> str:
    """The lines as the Python API translates them, one by one."""
    translator = Translator.open(str(trained))
    return "".join(f"{translator.translate([line])[0]}\n" for line in LINES)


def test_file_has_a_translation_of_each_line(
    translate: Callable[..., Job], trained: Path, place: Path
):
    printed = translate(size=2).succeed()
    assert (place / "out").read_text() == expected(trained)
    assert names(place) == ["in.en", "out"]
    assert "translation 100%" in printed


JSONL = ["--format", "jsonl", "--n_best", "2"]


@pytest.fixture(scope="module")
def uninterrupted_jsonl(
    uninterrupted: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory
) -> bytes:
    folder = tmp_path_factory.mktemp("uninterrupted")
    (folder / "in.en").write_bytes(INPUT)
    files = ["--input", str(folder / "in.en"), "--output", str(folder / "out")]
    flags = ["--model_folder", str(uninterrupted().folder), *JSONL]
    start(folder / "printed", "translate", *files, *flags).succeed()
    return (folder / "out").read_bytes()


@pytest.mark.parametrize(
    ("point", "time", "size"),
    [("chunk", 1, 1), ("joined", 1, 1), ("published", 1, 1), *slow(("chunk", 2, 2))],
)
def test_killed_translation_continues_and_ends_as_the_uninterrupted_one(
    translate: Callable[..., Job],
    uninterrupted_jsonl: bytes,
    place: Path,
    point: str,
    time: int,
    size: int,
):
    translate(*JSONL, size=size, fault=faults.kill(point, time, rank=0)).kill_rest()
    assert (place / "out").exists() == (point == "published")
    (partial,) = place.glob("out.*.partial")
    before = {path.name: path.stat().st_mtime_ns for path in partial.iterdir()}
    assert before
    # A second kill, on the way: the chunks of the first start are not computed again.
    if (point, size) == ("chunk", 1):
        translate(*JSONL, fault=faults.kill("chunk")).kill_rest()
        after = {path.name: path.stat().st_mtime_ns for path in partial.iterdir()}
        assert len(after) == len(before) + 1 and before.items() <= after.items()
    printed = translate(*JSONL, size=size).succeed()
    assert "Continues:" in printed and names(place) == ["in.en", "out"]
    assert (place / "out").read_bytes() == uninterrupted_jsonl
    assert uninterrupted_jsonl.count(b"\n") == len(LINES)


@pytest.mark.slow
def test_workers_write_what_one_process_writes_and_continue_its_file(
    translate: Callable[..., Job], trained: Path, place: Path, tmp_path: Path
):
    translate(gpus=2, fault=faults.kill("chunk", time=2)).kill_rest()
    printed = translate().succeed()  # too few parts are left for two workers
    assert "Continues: 8 of 15" in printed
    assert (place / "out").read_text() == expected(trained) and names(place) == ["in.en", "out"]

    files = ["--input", str(place / "in.en"), "--model_folder", str(trained)]
    printed = start(tmp_path / "printed", "translate", *files, gpus=3).succeed()
    assert "Starts 2 processes" in printed
    assert all(line in printed for line in expected(trained).splitlines())


def test_a_worker_refuses_another_model_than_that_of_its_process(trained: Path):
    config = TranslateConfig(saved=SavedModel(model_folder=str(trained)))
    identity = str(config.open().identity)
    assert open_once(config, identity).lang_src
    with pytest.raises(UserError, match="checkpoint has changed"):
        open_once(config, identity.replace("'", "'0", 1))


@pytest.mark.slow
def test_workers_score_as_one_process(trained: Path, place: Path, tmp_path: Path):
    pairs = "".join(f"{line}\t{line}\n" for line in filter(str.strip, LINES * 2))
    (place / "pairs.tsv").write_text(f"en\tit\n{pairs}")
    words = ("score", "--source", str(place / "pairs.tsv"), "--model_folder", str(trained))
    for cores in (1, 2):
        output = place / f"scores-{cores}"
        printed = start(
            tmp_path / "printed", *words, "--output", str(output), cores=cores
        ).succeed()
        assert ("Starts 2 processes" in printed) == (cores == 2)
    assert (place / "scores-1").read_bytes() == (place / "scores-2").read_bytes() != b""


@pytest.mark.slow
def test_stop_keeps_finished_chunks(translate: Callable[..., Job], trained: Path, place: Path):
    # The supervisor's thread receives the signal while the main thread sleeps.
    job = translate(
        fault=faults.several(
            faults.request("int", "chunk", time=2),
            faults.sleep(2, "chunk", time=2),
            faults.error("chunk", time=3),
        )
    )
    assert job.wait() == [2]
    assert "error: Stopped (SIGINT) before" in job.text() and "Traceback" not in job.text()
    translate().succeed()
    assert (place / "out").read_text() == expected(trained)


def test_changed_input_weights_or_settings_do_not_use_the_finished_chunks(
    translate: Callable[..., Job], trained: Path, place: Path
):
    translate(fault=faults.kill("chunk", time=2)).kill_rest()
    lines = ["fish", *LINES[1:]]
    (place / "in.en").write_text("".join(f"{line}\n" for line in lines))
    for flags in ([], ["--beam_width", "1"], ["--preload", "1"]):
        translate(*flags, fault=faults.kill("chunk", time=2)).kill_rest()
    assert len(list(place.glob("out.*.partial"))) == 4
    printed = translate().succeed()
    assert "Continues: 8 of 15" in printed
    translator = Translator.open(str(trained))
    translations = [translator.translate([line])[0] for line in lines]
    assert (place / "out").read_text() == "".join(f"{line}\n" for line in translations)


def test_existing_output_is_not_overwritten(translate: Callable[..., Job], place: Path):
    (place / "out").write_text("mine")
    printed = translate(size=2).fail()
    assert printed.count(f"error: {place / 'out'} exists already") == 1
    assert (place / "out").read_text() == "mine" and names(place) == ["in.en", "out"]


def test_full_disk_keeps_finished_chunks(translate: Callable[..., Job], place: Path):
    printed = translate(fault=faults.full_disk("joined")).fail()
    assert "cannot be written: No space left on device. Finished parts are kept" in printed
    (partial,) = place.glob("out.*.partial")
    assert not (place / "out").exists() and len(list(partial.glob("0*"))) == CHUNKS
    translate().succeed()
    assert names(place) == ["in.en", "out"]


@pytest.mark.slow
def test_missing_folder_is_reported_before_the_work(trained: Path, place: Path, tmp_path: Path):
    words = ("translate", "--input", str(place / "in.en"), "--model_folder", str(trained))
    job = start(tmp_path / "printed", *words, "--output", str(place / "nowhere" / "out"))
    assert "nowhere: create it, or pass another --output" in job.fail()
    job = start(tmp_path / "printed", *words, "--output", str(place / "in.en" / "out"))
    assert "There is no folder" in job.fail()
    job = start(tmp_path / "printed", *words, size=2)
    assert job.fail().count("error: Several processes write one file together") == 1


def test_empty_file_has_an_empty_translation(translate: Callable[..., Job], place: Path):
    (place / "in.en").write_bytes(b"")
    translate().succeed()
    assert (place / "out").read_bytes() == b"" and names(place) == ["in.en", "out"]


def test_output_of_another_program_is_kept_and_so_are_the_finished_chunks(tmp_path: Path):
    output = tmp_path / "out"
    file = ChunkedFile(output, lambda: ["inputs"], 2, World())
    file.compute(file.missing(), lambda chunks: [b"chunk %d\n" % chunk for chunk in chunks])
    output.write_text("precious")
    with pytest.raises(UserError, match="made by another program meanwhile"):
        file.publish()
    assert output.read_text() == "precious"
    output.unlink()
    assert file.missing() == []
    file.publish()
    assert output.read_text() == "chunk 0\nchunk 1\n" and names(tmp_path) == ["out"]
