"""The server with trained models: many requests at once, a newer model, and the command itself."""

import shutil
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from tests.helpers import processes
from tests.helpers.commands import run_translate_ddp
from tests.helpers.processes import free_port, wait_until
from tests.helpers.served import Client, served
from translate_ddp.apps.serving.server import ServedModel, listen
from translate_ddp.errors import UserError
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.translator import Translator

WORDS = ["sun", "moon", "tree", "river", "stone", "bird", "fish", "wolf"]
RANDOM = Random(0)
TEXTS = [" ".join(RANDOM.choices(WORDS, k=RANDOM.randint(1, 7))) for _ in range(200)]


def checkpoint(folder: Path, epoch: int) -> Path:
    return CheckpointStore(CheckpointConfig(str(folder))).find(str(epoch), World()).path


@pytest.fixture
def first_epoch(trained: Path, tmp_path: Path) -> Path:
    """A folder with the checkpoint of epoch 1 only."""
    folder = tmp_path / "first"
    folder.mkdir()
    shutil.copy(checkpoint(trained, 1), folder)
    return folder


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
def model(first_epoch: Path, reports: list[str]) -> ServedModel:
    """The model of that folder, which the server observes."""
    return ServedModel(first_epoch, lambda: Translator.open(str(first_epoch)), reports.append)


def check_twice(model: ServedModel) -> None:
    """A changed file is used at the second check: it is complete by then."""
    model.check()
    model.check()


def test_200_requests_at_once_are_answered_like_translate(trained: Path):
    translator = Translator.open(str(trained))
    expected = translator.translate(TEXTS)
    with served(translator) as client, ThreadPoolExecutor(len(TEXTS)) as pool:
        together = threading.Barrier(len(TEXTS))

        def translate(text: str) -> str:
            together.wait(60)
            return client.translate(text)["translatedText"]

        assert list(pool.map(translate, TEXTS)) == expected


def test_newer_checkpoint_replaces_the_model_without_a_failed_request(
    trained: Path, first_epoch: Path, model: ServedModel, reports: list[str]
):
    texts = TEXTS[:20]
    old = model.translator.translate(texts)
    newer = checkpoint(trained, 2)
    new = Translator.open(str(newer)).translate(texts)
    assert old != new
    answers: list[list[str]] = []
    stopped = threading.Event()
    with served(model, reload_seconds=0.01) as client, ThreadPoolExecutor(4) as pool:

        def translate() -> None:
            while not stopped.is_set():
                answers.append(client.translate(texts)["translatedText"])

        jobs = [pool.submit(translate) for _ in range(4)]
        try:
            wait_until(lambda: answers)
            shutil.copy(newer, first_epoch)
            wait_until(lambda: answers[-1] == new or any(job.done() for job in jobs))
        finally:
            stopped.set()
        for job in jobs:
            job.result()
    assert answers[0] == old and answers[-1] == new
    assert all(answer in (old, new) for answer in answers)
    assert reports == [f"Opened the model again: {model.translator.name}."]
    assert model.translator.name.startswith("epoch 2, step ")


def test_newer_checkpoint_that_is_not_chosen_changes_nothing(
    trained: Path, first_epoch: Path, reports: list[str]
):
    model = ServedModel(first_epoch, lambda: Translator.open(str(first_epoch), "1"), reports.append)
    translator = model.translator
    shutil.copy(checkpoint(trained, 2), first_epoch)
    check_twice(model)
    assert model.translator is translator and reports == []


def test_damaged_checkpoint_is_reported_and_not_used(
    trained: Path,
    first_epoch: Path,
    model: ServedModel,
    reports: list[str],
    capsys: pytest.CaptureFixture[str],
):
    translator = model.translator
    newer = checkpoint(trained, 2)
    data = newer.read_bytes()
    broken = first_epoch / newer.name
    broken.write_bytes(data[: len(data) // 2])  # as while it is copied
    model.check()
    assert capsys.readouterr().err == ""  # it may be incomplete
    for _ in range(3):
        model.check()
    assert model.translator is translator and reports == []
    assert capsys.readouterr().err.count(f"Skipped {broken}: it is damaged") == 1
    broken.write_bytes(data)
    check_twice(model)
    assert model.translator is not translator
    assert model.translator.state.position.epoch > translator.state.position.epoch


def test_file_that_is_no_model_is_reported_and_not_used(first_epoch: Path, reports: list[str]):
    path = next(first_epoch.glob("*.pt")).rename(first_epoch / "average.pt")
    model = ServedModel(path, lambda: Translator.open(str(path)), reports.append)
    translator = model.translator
    path.write_bytes(b"no model")
    check_twice(model)
    assert model.translator is translator
    assert "average.pt is not a checkpoint" in reports[0] and len(reports) == 1
    path.unlink()
    check_twice(model)
    assert model.translator is translator and len(reports) == 1


@pytest.mark.parametrize(
    ("number", "host"), [(signal.SIGTERM, "127.0.0.1"), (signal.SIGINT, "0.0.0.0")]
)
def test_command_serves_until_a_signal(trained: Path, tmp_path: Path, number: int, host: str):
    port = free_port()
    words = ("serve", "--model_folder", str(trained), "--port", str(port), "--host", host)
    job = processes.start(run_translate_ddp, tmp_path, 1, None, words)
    job.signal_when(lambda: answers(job, port), number)
    output = job.succeed()
    assert f"Serving en to it on http://{host}:{port} " in output
    assert output.endswith("Stopped.\n") and "Traceback" not in output
    warning = f"warning: other machines can reach http://{host}"
    assert (warning in output) == ("warning" in output) == (host == "0.0.0.0")


def answers(job: processes.Job, port: int) -> bool:
    """Whether the server has started; it must then translate."""
    if "Serving" not in job.text():
        return False
    return Client(port).translate("sun moon")["translatedText"] != ""


def test_port_in_use_is_one_message(trained: Path, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        words = ("serve", "--model_folder", str(trained), "--port", str(port))
        output = processes.start(run_translate_ddp, tmp_path, 1, None, words).fail()
    assert f"error: The server cannot use 127.0.0.1, port {port}: Address already in use" in output
    assert "Traceback" not in output and len(output.splitlines()) == 1


@pytest.mark.parametrize(("host", "client"), [("::", "127.0.0.1"), ("::", "::1"), ("::1", "::1")])
def test_all_addresses_are_those_of_ipv4_too(host: str, client: str):
    with listen(host, 0) as bound:
        socket.create_connection((client, bound.getsockname()[1]), timeout=600).close()


@pytest.mark.parametrize("host", ["127.0.0..1", ".", ""])
def test_unusable_host_is_reported(host: str):
    with pytest.raises(UserError, match="The server cannot use"):
        listen(host, 0)
