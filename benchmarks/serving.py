"""Requests per second and latency of a served model with 1, 20 and 200 concurrent clients.

    python -m benchmarks.serving --model_folder weights

Each client sends one sentence after the other over a connection of its own to a server on loopback.
Clients are threads of one process beside the server, and share its cores. The requests of the first
seconds are not counted. Rounds of the numbers of clients are interleaved.
"""

import http.client
import json
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import quantiles

from benchmarks.common import ROOT, Failed, Settings, Values, as_flags, python, read_settings
from benchmarks.decoders.task import train_demo
from benchmarks.machine import facts
from benchmarks.report import write_report
from benchmarks.rounds import Outcome, Result, interleave, raw, rows
from translate_ddp.data.inputs import read_given_pairs
from translate_ddp.errors import UserError, report_errors

CLIENTS = (1, 20, 200)
HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class ServingBenchmark(Settings):
    model_folder: str = ""
    """Folder of a run; '' trains one on the embedded demo first, about a minute."""
    source: str = ""
    """File of sentences, one per line; '': the embedded demo's."""
    target: str = "it"
    """Language of the translations."""
    seconds: float = 20.0
    """Duration of a measurement."""
    warmup_seconds: float = 3.0
    """Seconds before it."""
    rounds: int = 3
    """Measurements of each number of clients."""


@contextmanager
def server(model_folder: str) -> Iterator[int]:
    """The port of a server in a process of its own."""
    flags = as_flags({"model_folder": model_folder, "port": 0})
    command = [*python(), "-m", "translate_ddp", "serve", *flags]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            port = re.search(r":(\d+) ", process.stdout.readline())
            if not port:
                raise UserError("The server has not started: see the message above.")
            yield int(port[1])
        finally:
            process.terminate()


def measure(port: int, clients: int, sentences: list[str], settings: ServingBenchmark) -> Result:
    """Requests per second, and percentiles of the latency in milliseconds."""
    numbers = count()
    start = time.perf_counter() + settings.warmup_seconds
    end = start + settings.seconds
    latencies: list[float] = []
    errors: list[str] = []

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while (begin := time.perf_counter()) < end and not errors:
            q = sentences[next(numbers) % len(sentences)]
            body = json.dumps({"q": q, "source": "auto", "target": settings.target})
            connection.request("POST", "/translate", body, HEADERS)
            response = connection.getresponse()
            answer = response.read()
            if response.status != 200:
                errors.append(answer.decode())
            if start <= begin and (now := time.perf_counter()) <= end:
                latencies.append(1000 * (now - begin))
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors or len(latencies) < 2:
        raise Failed(errors[0] if errors else "fewer than two requests were answered")
    percentiles = quantiles(latencies, n=100, method="inclusive")
    found = {f"p{p}": percentiles[p - 1] for p in (50, 95, 99)}
    return {"requests": len(latencies) / settings.seconds} | found


def latencies_of(name: str, outcome: Outcome) -> Values:
    return {f"{p}, ms": outcome.median(p) for p in ("p50", "p95", "p99")}


def main() -> None:
    with report_errors(), tempfile.TemporaryDirectory() as work:
        settings = read_settings(ServingBenchmark, __doc__)
        model_folder = settings.model_folder or train_demo(Path(work) / "model")
        if settings.source:
            sentences = Path(settings.source).read_text(encoding="utf-8").splitlines()
        else:
            sentences, _ = read_given_pairs("demo:validation", "", ("en", "it"))
        with server(model_folder) as port:
            measures = {
                f"{n} client{'s' * (n > 1)}": lambda _, n=n: measure(port, n, sentences, settings)
                for n in CLIENTS
            }
            outcomes = interleave(measures, settings.rounds)
        write_report(
            "serving",
            "Serving",
            rows(outcomes, "requests", "requests/s", latencies_of),
            facts=facts() | {"sentences": len(sentences)},
            raw=raw(outcomes),
            folder=settings.results,
        )


if __name__ == "__main__":
    main()
