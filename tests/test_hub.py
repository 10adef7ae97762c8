"""Datasets of the hub: in the cache, out of reach, and unknown."""

import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import datasets
import pytest
from datasets import config

from tests.helpers.corpora import error_of, pairs_of, write_repository
from translate_ddp.data import huggingface
from translate_ddp.data.corpus import read_pairs

pytestmark = pytest.mark.usefixtures("folder")  # an empty cache, and no hub


def test_error_for_unreachable_hub_gives_three_ways_out():
    text = error_of("opus_books", ("en", "it"))
    assert "Helsinki-NLP/opus_books" in text and f"{config.HF_ENDPOINT} does not answer" in text
    assert "HF_HUB_OFFLINE=1" in text and "hf download" in text and "files of your own" in text


def test_silent_hub_times_out(monkeypatch: pytest.MonkeyPatch):
    # Behind a firewall that drops packets, `load_dataset` hangs for minutes.
    monkeypatch.setattr(huggingface, "HUB_TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr("datasets.config.HF_ENDPOINT", url)
        assert f"{url} does not answer" in error_of("wmt/wmt14")


def test_offline_mode_sends_no_request(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface, "_answers", None)
    assert "HF_HUB_OFFLINE is set" in error_of("wmt/wmt14")


class NothingFound(BaseHTTPRequestHandler):
    """A hub that answers and holds no dataset."""

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET


def test_unknown_hub_dataset_raises(monkeypatch: pytest.MonkeyPatch):
    with HTTPServer(("127.0.0.1", 0), NothingFound) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(config, "HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        assert "'wmt/wmt99' doesn't exist on the Hub" in error_of("wmt/wmt99")
        server.shutdown()


def test_cached_hub_dataset_needs_no_network(tmp_path: Path):
    # Without a hub, `load_dataset` retries for 23 s before it looks in its cache.
    cached = tmp_path / "hf_home/datasets/Helsinki-NLP___opus_books/en-it/0.0.0/0123"
    builder = datasets.load_dataset_builder(write_repository(tmp_path / "opus_books"), "en-it")
    builder.download_and_prepare(str(cached))
    pairs = read_pairs("Helsinki-NLP/opus_books", "it", "en")
    assert pairs_of(pairs) == [(f"i{n}", f"e{n}") for n in range(4)]


@pytest.mark.parametrize("module", [None, object(), SimpleNamespace(Cache=lambda: None)])
def test_hub_is_used_where_the_cache_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, module: object | None
):
    # The class `Cache` is not documented: other versions of `datasets` may lack or change it.
    monkeypatch.setitem(sys.modules, "datasets.packaged_modules.cache.cache", module)
    assert "does not answer" in error_of("opus_books", ("en", "it"))
