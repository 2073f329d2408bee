"""A server of tools for language models (Model Context Protocol, standard input and output): `capmeter mcp FOLDER`.

Each tool is a command of capmeter with a few of its options, run as a process of its own in the folder: what goes wrong
there ends that process, and the answer is the command's JSON or its sentence of error. Nothing outside the folder is
read on a caller's word: files are named relative to it and resolved first, symbolic links included; a metric's
parameters may name files of the folder itself and nothing with a path; metrics that read pictures, which captions name,
and judges, which ask a server, are refused. Needs the extra `mcp`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio

from capmeter._version import __version__
from capmeter.core.errors import CapmeterError, InputError, MissingBackend
from capmeter.evaluation.registry import parse_list

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from pydantic import Field
except ImportError:
    raise MissingBackend("the server needs mcp; install it with: pip install 'capmeter[mcp]'") from None

MAX_ANSWER = 40_000
"""Characters of an answer; longer ones are cut by whole captions or systems, and say so."""
MAX_FILE = 200_000_000  # bytes of a file of captions
_MAX_SECONDS = 600
_REFUSED_INPUTS = {"image", "regions"}
# a name as the command line reads it, without what could lead out of a folder, be an option or need quotes
_METRICS = re.compile(r"[A-Za-z][\w.,()=+@ -]*")
_WORD = re.compile(r"[^,()=+ ]+")
# not the folder: a file there that is called like a module of Python must not be imported
_START = "import os, sys; sys.path = list(filter(os.path.isabs, sys.path)); from capmeter.cli.main import main; main()"

File = Annotated[str, Field(description="A file of captions in the folder, relative to it.", max_length=500)]
References = Annotated[
    str | None, Field(description="A file of references, unless the captions' rows have them.", max_length=500)
]
Metrics = Annotated[
    str, Field(description="Names of metrics, joined by commas: bleu-4,cider-d(sigma=5.0).", max_length=500)
]
Systems = Annotated[
    dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=60)], File],
    Field(description="Two to ten systems: a name and its file of captions.", min_length=2, max_length=10),
]


def build_server(folder: str | os.PathLike[str]) -> MCPServer:
    """The server with its six tools.

    Args:
        folder: the only one whose files the tools read.

    Raises:
        InputError: the folder does not exist.
    """
    root = Path(folder).resolve()
    if not root.is_dir():
        raise InputError(f"{folder} is not a folder; name the one that holds the captions: capmeter mcp FOLDER")
    server = MCPServer("capmeter", version=__version__, instructions=_INSTRUCTIONS, log_level="CRITICAL")
    limiter = anyio.CapacityLimiter(os.cpu_count() or 1)

    async def run(*arguments: str) -> Any:
        async with limiter:
            return await anyio.to_thread.run_sync(_run_command, root, arguments, abandon_on_cancel=True)

    async def answer(*arguments: str) -> str:
        return _cut(await run(*arguments))

    def read_options(references: str | None, metrics: str | None = None) -> list[str]:
        options = [] if references is None else [f"--references={_find_file(root, references)}"]
        return options if metrics is None else [*options, f"--metrics={_check_metrics(root, metrics)}"]

    @server.tool()
    async def score(
        candidates: File, references: References = None, metrics: Metrics = "bleu-4,rouge-l,cider-d"
    ) -> str:
        """Score one system's captions: each metric with its 95% interval, notes on the captions, and a signature."""
        options = read_options(references, metrics)
        return await answer("score", "--format=json", *options, str(_find_file(root, candidates)))

    @server.tool()
    async def compare(systems: Systems, references: References = None, metrics: Metrics = "bleu-4,cider-d") -> str:
        """Compare systems on the same images: differences with intervals, and whether they are significant."""
        files = [f"{name}={_find_file(root, file)}" for name, file in systems.items()]
        return await answer("compare", "--format=json", *read_options(references, metrics), *files)

    @server.tool()
    async def explain(
        candidates: File,
        references: References = None,
        metrics: Metrics = "cider-d",
        captions: Annotated[int, Field(description="How many captions.", ge=1, le=20)] = 3,
        which: Annotated[Literal["worst", "best"], Field(description="By the first metric.")] = "worst",
    ) -> str:
        """Show what each metric matched in the captions with the worst or best scores, and what it did not match."""
        options = [*read_options(references, metrics), f"--{which}={captions}"]
        return await answer("explain", "--format=json", *options, str(_find_file(root, candidates)))

    @server.tool()
    async def validate(captions: File, references: References = None) -> str:
        """Check a file of captions before it is scored: what it holds, and what may be wrong with it."""
        return await answer("validate", "--format=json", *read_options(references), str(_find_file(root, captions)))

    @server.tool(name="list")
    async def list_metrics(
        metric: Annotated[
            str | None, Field(description="For its parameters.", pattern=r"^[A-Za-z][\w-]{0,40}$")
        ] = None,
    ) -> str:
        """List all metrics with what each measures, or the parameters of one and when it misleads."""
        if metric is not None:
            return await answer("list", "--format=json", metric)
        listed = await run("list", "--format=json")
        return _cut({name: each.get("summary", each.get("why")) for name, each in listed.items()})

    @server.tool()
    async def doctor() -> str:
        """Show what can run on this machine, and how to install what cannot."""
        return await answer("doctor", "--format=json")

    return server


_INSTRUCTIONS = (
    "capmeter evaluates captions of images, video and sound. Validate a file first; score or compare with several "
    "metrics; report intervals, signatures and notes with each number; explain single captions. Files are in one "
    "folder and named relative to it. `list` has all metrics."
)


def _find_file(root: Path, name: str) -> Path:
    """A file of the folder, resolved.

    Raises:
        ToolError: it is not there, not a regular file, too large, or outside the folder.
    """
    try:
        path = (root / name).resolve(strict=True)
        if path.is_relative_to(root) and path.is_file() and path.stat().st_size <= MAX_FILE:
            return path
    except (OSError, ValueError, RuntimeError):  # a `ValueError` for NUL, a `RuntimeError` for a circle of links
        pass
    raise ToolError(
        f"{name[:80]!a} is not a file of the folder of at most {MAX_FILE // 10**6} MB; name one relative to it"
    )


def _check_metrics(root: Path, text: str) -> str:
    """The names of metrics, if none names a file outside the folder, reads pictures or asks a server.

    Raises:
        ToolError: one does, or cannot be read.
    """
    if not _METRICS.fullmatch(text):
        raise ToolError("metrics are names joined by commas, with parameters in brackets; paths are not allowed there")
    for word in _WORD.findall(text):
        if word.strip(".") == "" or (root / word).is_symlink() or (root / word).is_dir():
            raise ToolError(f"{word!a} in metrics: only a regular file of the folder may be named there")
    try:
        metrics = parse_list(text)
        refused = [str(each) for each in metrics if "judges" in each.extras or each.needs & _REFUSED_INPUTS]
    except CapmeterError as problem:
        raise ToolError(_shorten(str(problem))) from None
    if refused:
        raise ToolError(f"{', '.join(refused)}: metrics that read pictures or ask a server are not served")
    return text


def _run_command(root: Path, arguments: tuple[str, ...]) -> Any:
    """What a command prints as JSON.

    Raises:
        ToolError: it failed; the command's own sentence, or the last line where there is none.
    """
    offline = {"HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "COLUMNS": "400", "TERM": "dumb"}
    command = [sys.executable, "-c", _START, *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=root,
            env=os.environ | offline,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_MAX_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise ToolError(
            f"{arguments[0]} took more than {_MAX_SECONDS} seconds; take fewer captions or metrics"
        ) from None
    try:
        return json.loads(done.stdout)
    except ValueError:
        lines = re.sub("[╭╮╰╯│─]", " ", done.stderr.decode("utf-8", "replace")).split("\n")
        said = [" ".join(line.split()) for line in lines if line.strip()] or [f"{arguments[0]} failed"]
        raise ToolError(_shorten(" ".join(said[-1:] if said[0].startswith("Traceback") else said))) from None


def _cut(answer: Any) -> str:
    """An answer as JSON of at most `MAX_ANSWER` characters: a list loses its last entries, and says how many."""
    text = json.dumps(answer, indent=1, ensure_ascii=False)
    if len(text) <= MAX_ANSWER:
        return text
    entries = answer if isinstance(answer, list) else list(answer.items())
    for kept in range(len(entries) - 1, 0, -1):
        shown = entries[:kept] if isinstance(answer, list) else dict(entries[:kept])
        text = json.dumps({"answer": shown, "left_out": len(entries) - kept}, indent=1, ensure_ascii=False)
        if len(text) <= MAX_ANSWER:
            return text
    raise ToolError(f"the answer has more than {MAX_ANSWER:,} characters; take fewer captions or metrics")


def _shorten(text: str) -> str:
    return text if len(text) <= 1000 else f"{text[:1000]}…"
