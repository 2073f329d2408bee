"""`capmeter view`: the page of results, served to this machine's browser."""

from __future__ import annotations

import http.server
import sys
import tempfile
from pathlib import Path
from typing import Any

import typer

from capmeter.cli.main import say
from capmeter.cli.output import command_line, write
from capmeter.cli.report import read_named
from capmeter.errors import InputError
from capmeter.progress import shown

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
LOOPBACK = "127.0.0.1"
_NAMES = (LOOPBACK, "localhost")


@app.command()
def view(
    results: list[str] = typer.Argument(
        ...,
        help="Files that `capmeter score --output` wrote. `NAME=FILE` names the system.",
        metavar="RESULTS.json...",
    ),
    port: int = typer.Option(0, "--port", "-p", help="The port; 0: any that is free.", min=0, max=65535),
    title: str = typer.Option("Caption scores", help="The page's heading."),
    images_root: Path | None = typer.Option(
        None, help="The folder of the pictures, which are then shown as thumbnails.", exists=True, file_okay=False
    ),
) -> None:
    """Show results in the browser: serves their page on this machine alone, and prints its address.

    The page is that of `capmeter report`. The server listens on the loopback address 127.0.0.1, gives out nothing but
    the page, and stops with Ctrl-C.

    **Examples**

    `capmeter view scores.json`

    `capmeter view ours=a.json theirs=b.json --port 8000`
    """
    page = _page(results, title, images_root)
    try:
        server = http.server.ThreadingHTTPServer((LOOPBACK, port), _handler(page))
    except OSError as problem:
        why = problem.strerror or problem
        raise InputError(f"port {port} cannot be used ({why}); choose another, or leave --port out") from None
    with server:
        try:
            write(f"http://{LOOPBACK}:{server.server_port}/\n")
            sys.stdout.flush()
            say("Ctrl-C stops the server")
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            say("stopped")


def _page(results: list[str], title: str, images_root: Path | None) -> bytes:
    """The page of these results."""
    systems = read_named(results)
    from capmeter.report.page import write_page  # after the files were read: their mistakes are told at once

    with shown(), tempfile.TemporaryDirectory() as folder:
        written = write_page(
            systems,
            Path(folder) / "page.html",
            title=title,
            images="none" if images_root is None else "embed",
            images_root=images_root or Path(),
            command=command_line(),
        )
        return written.path.read_bytes()


def _handler(page: bytes) -> type[http.server.BaseHTTPRequestHandler]:
    """Answers requests for `/` with the page; everything else is not found."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(with_page=True)

        def do_HEAD(self) -> None:
            self._answer(with_page=False)

        def _answer(self, *, with_page: bool) -> None:
            # a site elsewhere whose name leads to this machine may not read the captions
            if (self.headers.get("Host") or "").rpartition(":")[0] not in _NAMES:
                self.send_error(403, "asked by another name than localhost")
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
            """Requests are not told."""

    return Handler
