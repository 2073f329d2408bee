"""`capmeter view`: the page on the loopback address, and nothing else."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.command_line import capmeter

import capmeter as toolkit
from capmeter.cli import view

# an interrupt is an interrupt, also where this process was started in the background, and ignores it
STARTED = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from capmeter.cli.main import main; main()"
)
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    captions = toolkit.load(EXAMPLES / "weak.json", EXAMPLES / "references.json")
    path = tmp_path_factory.mktemp("view") / "scores.json"
    toolkit.score(captions, ["rouge-l"]).save(path)
    return path


@contextmanager
def served(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server that runs, and what it printed as its address."""
    command = [sys.executable, "-c", STARTED, "view", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            yield running, running.stdout.readline().strip()
        finally:
            running.kill()


def request(address: str, path: str = "/", method: str = "GET", host: str | None = None) -> tuple[int, str, bytes]:
    location = address.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(location, timeout=60)
    connection.request(method, path, headers={"Host": host or location})
    answer = connection.getresponse()
    result = answer.status, answer.headers.get("Content-Type", ""), answer.read()
    connection.close()
    return result


@pytest.mark.skipif(sys.platform == "win32", reason="sends an interrupt as a terminal does")
def test_the_page_is_served_until_ctrl_c(scores: Path) -> None:
    with served(scores, "--title", "Weak ones") as (running, address):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        status, kind, page = request(address)
        assert (status, kind) == (200, "text/html; charset=utf-8")
        assert b"<title>Weak ones" in page and b"rouge-l" in page
        assert request(address, "/?x=1")[2] == page
        assert request(address, method="HEAD")[0] == 200
        assert request(address, "/../scores.json")[0] == 404, "nothing but the page is given out"
        assert request(address, "/etc/passwd")[0] == 404
        assert request(address, host="elsewhere.example:80")[0] == 403, "a name elsewhere that leads here"
        assert request(address, host=address.replace("http://127.0.0.1", "localhost").rstrip("/"))[0] == 200
        assert request(address, method="POST")[0] == 501
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0
        assert running.stderr is not None
        message = running.stderr.read()
        assert message.endswith("capmeter: stopped\n") and "Traceback" not in message and "GET" not in message


def test_a_port_that_is_taken_is_told(scores: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as selection:
        port = selection.getsockname()[1]
        done = capmeter("view", scores, "--port", port)
    assert done.returncode == 1 and f"port {port} cannot be used" in done.stderr and done.stdout == ""


def test_a_file_that_holds_no_results_is_told() -> None:
    done = capmeter("view", EXAMPLES / "strong.json")
    assert done.returncode == 1 and "not a results file of capmeter" in done.stderr
    missing = capmeter("view", "absent.json")
    assert missing.returncode == 1 and "absent.json" in missing.stderr
    assert capmeter("view", "x.json", "--port", "70000").returncode == 2


def test_hosts_and_broken_connections(capsys: pytest.CaptureFixture[str]) -> None:
    with view.PageServer((view.LOOPBACK, 0), view.page_handler(b"<p>page")) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}/"
            with socket.create_connection(
                ("127.0.0.1", server.server_port), timeout=60
            ):  # a browser connects in advance
                assert request(address)[2] == b"<p>page"
            assert request(address, host=f"localhost:{server.server_port + 1}")[0] == 403, "another port"
            assert request(address, host="localhost:anything")[0] == 403
            reset = socket.create_connection(("127.0.0.1", server.server_port), timeout=60)
            reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            reset.sendall(b"GET / HTTP/1.1\r\n")
            reset.close()
            assert request(address)[0] == 200
        finally:
            server.shutdown()
            thread.join(10)
    assert capsys.readouterr().err == ""
