"""`capmeter view`: the page of results, served to this machine's browser."""

from __future__ import annotations

import http.server
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capmeter.cli.command import Application
from capmeter.cli.inputs import open_systems
from capmeter.cli.main import echo
from capmeter.cli.output import command_line, write
from capmeter.core.errors import InputError
from capmeter.core.options import argument, option
from capmeter.core.progress import show_progress
from capmeter.evaluation.results import read_all

app = Application()
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class _ViewOptions:
    """What is on the page, and where it is served."""

    results: list[str] = argument(
        help="Files that `capmeter score --output` wrote. `NAME=FILE` names the system.", metavar="RESULTS.json..."
    )
    port: int = option(0, "Port (0: pick a free one).", "--port", "-p", minimum=0, maximum=65535)
    title: str = option("Caption scores", "The page's heading.")
    images_root: Path | None = option(
        None, "The folder of the pictures, which are then shown as thumbnails.", path="folder"
    )


@app.command()
def view(options: _ViewOptions) -> None:
    """Show results in the browser: serves their page to this machine only, and prints its address.

    The page is that of `capmeter report`. The server listens on the loopback address 127.0.0.1, serves only this page,
    and stops with Ctrl-C.

    **Examples**

    `capmeter view scores.json`

    `capmeter view ours=a.json theirs=b.json --port 8000`
    """
    handler = page_handler(_page(options))
    try:
        server = PageServer((LOOPBACK, options.port), handler)
    except OSError as problem:
        reason = problem.strerror or problem
        raise InputError(f"port {options.port} cannot be used ({reason}); choose another, or omit --port") from None
    with server:
        try:
            write(f"http://{LOOPBACK}:{server.server_port}/\n")
            sys.stdout.flush()
            echo("Ctrl-C stops the server")
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            echo("stopped")


def _page(options: _ViewOptions) -> bytes:
    """The page of the results."""
    systems = open_systems(options.results, read_all)
    from capmeter.report.page import write_page  # after reading the files, so that errors in them come first

    with show_progress(), tempfile.TemporaryDirectory() as folder:
        page = write_page(
            systems,
            Path(folder) / "page.html",
            title=options.title,
            images="none" if options.images_root is None else "embed",
            images_root=options.images_root or Path(),
            command=command_line(),
        )
        return page.path.read_bytes()


class PageServer(http.server.ThreadingHTTPServer):
    """A server that does not report connections which the browser closed."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Reports nothing."""


def page_handler(page: bytes) -> type[http.server.BaseHTTPRequestHandler]:
    """Answers requests for `/` with the page; everything else is not found."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(with_page=True)

        def do_HEAD(self) -> None:
            self._answer(with_page=False)

        def _answer(self, *, with_page: bool) -> None:
            # a remote site whose name resolves to this machine may not read the captions
            port = self.connection.getsockname()[1]
            if self.headers.get("Host") not in (f"{LOOPBACK}:{port}", f"localhost:{port}"):
                self.send_error(403, "the host is not localhost")
                return
            if self.path.partition("?")[0] != "/":
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(page)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if with_page:
                self.wfile.write(page)

        def log_message(self, format: str, *args: Any) -> None:
            """Logs nothing."""

    return Handler
