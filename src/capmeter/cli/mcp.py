"""`capmeter mcp`: tools for language models, over standard input and output."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capmeter.cli.command import Application
from capmeter.core.options import argument

app = Application()


@dataclass(frozen=True, kw_only=True)
class _ServerOptions:
    """What the tools may read."""

    folder: Path = argument(Path(), "The only folder whose files the tools read.")


@app.command()
def mcp(options: _ServerOptions) -> None:
    """Serve the commands score, compare, explain, validate, list and doctor to a language model (MCP, stdio).

    The tools read files of one folder and nothing else, ask no server and write nothing. Needs the extra `mcp`.

    **Example**

    `capmeter mcp results/`, as the command of a client's configuration
    """
    from capmeter.integrations.mcp import build_server

    build_server(options.folder).run("stdio")
