"""SPICE's own parser through Java: Stanford CoreNLP 3.6.0 with its English PCFG, for the official numbers.

Nothing is compiled: CoreNLP's own command line (its interactive shell, which reads one caption per line and writes
JSON) is run, with any Java from 8 on. One process is started at the first caption and kept for the run; a caption that
takes too long is skipped, and a process that dies is restarted once.

What is needed is `stanford-corenlp-3.6.0.jar`, the slf4j jars beside it, and the parser's model, alone
(`englishPCFG.ser.gz`, 1.9 MB) or inside `stanford-corenlp-3.6.0-models.jar`. They are looked for in the folder that the
environment variable CAPMETER_CORENLP names, else in the asset folder (`capmeter.assets.asset_folder`), else in
`spice/lib` of an installed pycocoevalcap.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import weakref
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from capmeter.assets import ASSETS, asset_folder
from capmeter.errors import AssetError, InputError, MissingBackend
from capmeter.text.parses import CaptionParse, Parse

CORENLP = ASSETS["corenlp"]
ENVIRONMENT, JAR = CORENLP.environment, CORENLP.files[0]
MODELS = "stanford-corenlp-3.6.0-models.jar"
PCFG = "englishPCFG.ser.gz"
_INSIDE = f"edu/stanford/nlp/models/lexparser/{PCFG}"
_HOW = (
    f"get it with: {CORENLP.get}; or name a folder that holds {JAR}, the slf4j jars and {PCFG} (or {MODELS}) by the "
    f"environment variable {ENVIRONMENT}"
)

_STARTING, _PER_CAPTION = 120.0, 60.0  # seconds
_MEMORY = "-Xmx3G"
_COMMANDS = ("q", "quit", "exit")  # what the shell reads as a command


@dataclass(frozen=True)
class Installation:
    """Where the program is: `jars` for Java's class path, and the parser's model as a file or a name in a jar."""

    jars: tuple[Path, ...]
    model: str
    sha256: str  # of the model

    @property
    def version(self) -> str:
        """What a signature says of the parser."""
        return f"corenlp-3.6.0-pcfg-{self.sha256[:12]}"


@lru_cache(maxsize=4)
def _installation(folder: Path) -> Installation:
    jar, model, models = folder / JAR, folder / PCFG, folder / MODELS
    if not jar.is_file():
        raise MissingBackend(f"Stanford CoreNLP is not in {folder}: there is no {JAR}; {_HOW}")
    jars = (jar, *sorted(folder.glob("slf4j-*.jar")))
    if len(jars) == 1:
        raise MissingBackend(f"{folder} has {JAR}, but not the slf4j jars that it needs; {_HOW}")
    if model.is_file():
        return Installation(jars, str(model), hashlib.sha256(model.read_bytes()).hexdigest())
    try:
        with zipfile.ZipFile(models) as archive:
            sha256 = hashlib.sha256(archive.read(_INSIDE)).hexdigest()
    except FileNotFoundError:
        raise MissingBackend(f"the parser's model is not in {folder}: neither {PCFG} nor {MODELS}; {_HOW}") from None
    except (KeyError, zipfile.BadZipFile) as problem:
        raise AssetError(f"{models} is damaged or is not CoreNLP's ({problem}); {_HOW}") from problem
    return Installation((*jars, models), _INSIDE, sha256)


def find_installation() -> Installation:
    """The program and its model; a `MissingBackend` or `AssetError` says what is missing and how to get it."""
    folder = CORENLP.find()
    if folder is None:
        raise MissingBackend(
            f"parser=corenlp needs Stanford CoreNLP 3.6.0, which was not found; {_HOW}, or put it into "
            f"{asset_folder(CORENLP.name)}"
        )
    return _installation(folder.resolve())


def find_java() -> str:
    """The path of `java`; a `MissingBackend` where there is none."""
    java = shutil.which("java")
    if java is None:
        raise MissingBackend(
            "parser=corenlp needs a Java runtime (8 or later), and there is no `java` on the path; install one, "
            "or use the parser that ships with capmeter, which needs no Java"
        )
    return java


def corenlp_state() -> tuple[bool, str]:
    """Whether the official parser is ready, and a sentence that says where it is or what is missing."""
    try:
        found, java = find_installation(), find_java()
    except (MissingBackend, AssetError) as problem:
        return False, str(problem)
    return True, f"Stanford CoreNLP in {found.jars[0].parent} ({found.version}), {java}"


class CoreNlp:
    """The official parser. `parse` starts its process when it is first needed; `close` ends it."""

    batch: int = 256  # ten seconds of work

    def __init__(self, *, seconds: float = _PER_CAPTION) -> None:
        """A parser that skips a caption after this many seconds."""
        self._seconds = seconds
        self._found = find_installation()
        self._process: _Process | None = None

    @property
    def version(self) -> str:
        """What a signature says of the parser."""
        return self._found.version

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        """The parse of each caption, in order; None for one that took too long or that the parser could not read."""
        return [self._one(caption) for caption in captions]

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def _one(self, caption: str) -> CaptionParse | None:
        line = one_line(caption)
        if not line:
            return CaptionParse()
        for _ in range(2):  # a process that dies is restarted once
            process = self._running()
            try:
                return process.ask(line, self._seconds)
            except _Died:
                self.close()
            except TimeoutError:
                self.close()
                return None
        return None

    def _running(self) -> _Process:
        if self._process is None or self._process.owner != os.getpid():
            self._process = _Process(self._found)
        return self._process


def one_line(caption: str) -> str:
    """A caption that the shell can read: one line, and not one of its commands."""
    line = " ".join(caption.split("\n")).replace("\r", " ").replace("\0", " ")
    line = line.encode("utf-8", "replace").decode("utf-8")  # lone surrogates
    return line + " " if line.strip().lower() in _COMMANDS else line if line.strip() else ""


def read_answer(answer: Any) -> CaptionParse:
    """The parse in an answer of CoreNLP's JSON."""
    sentences = []
    for sentence in answer["sentences"]:
        tokens = sentence["tokens"]
        heads, labels = [0] * len(tokens), [""] * len(tokens)
        for edge in sentence["basic-dependencies"]:
            heads[edge["dependent"] - 1] = edge["governor"]
            labels[edge["dependent"] - 1] = edge["dep"] if edge["governor"] else "root"
        texts = (tuple(token[name] for token in tokens) for name in ("word", "pos", "lemma"))
        words, tags, lemmas = texts
        sentences.append(Parse(words, tags, lemmas, tuple(heads), tuple(labels)))
    return CaptionParse(tuple(sentences))


class _Died(Exception):
    """The process ended before it answered."""


class _Process:
    """CoreNLP's shell: a line in, a JSON object out."""

    def __init__(self, found: Installation) -> None:
        self.owner = os.getpid()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `end`)
        command = [
            *(find_java(), _MEMORY, "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"),
            "-Dstdin.encoding=UTF-8",
            *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", os.pathsep.join(map(str, found.jars))),
            *("edu.stanford.nlp.pipeline.StanfordCoreNLP", "-annotators", "tokenize,ssplit,parse,lemma"),
            *("-parse.model", found.model, "-outputFormat", "json"),
        ]
        try:
            self._running = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
            )
        except OSError as problem:
            raise MissingBackend(
                f"Java could not be started ({problem}); parser=corenlp needs a Java runtime"
            ) from None
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        assert self._running.stdout is not None
        reader = threading.Thread(target=_read, args=(self._running.stdout, self._lines), daemon=True)
        reader.start()
        self._stop = weakref.finalize(self, _end, self._running, self._errors)
        try:
            self.ask("a", _STARTING)
        except (_Died, TimeoutError):
            said = self._said()
            self.end()
            raise AssetError(f"Stanford CoreNLP did not start; it said: {said or 'nothing'}") from None

    def ask(self, line: str, seconds: float) -> CaptionParse | None:
        """The parse of one line; None if the answer is not a parse."""
        try:
            assert self._running.stdin is not None
            self._running.stdin.write(line.encode("utf-8") + b"\n")
            self._running.stdin.flush()
        except OSError:
            raise _Died from None
        answer: list[bytes] = []
        while not answer or answer[-1].rstrip() != b"}":
            try:
                got = self._lines.get(timeout=seconds)
            except queue.Empty:
                raise TimeoutError from None
            if got is None:
                raise _Died
            answer.append(got)
        try:
            return read_answer(json.loads(b"".join(answer), strict=False))
        except (ValueError, KeyError, TypeError, IndexError, InputError):
            return None

    def _said(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return " | ".join(lines[-3:])

    def end(self) -> None:
        """Ends the process."""
        self._stop()


def _read(stream: IO[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    """Passes on the lines of a stream, then None."""
    for line in stream:
        lines.put(line)
    lines.put(None)


def _end(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, errors):
        if stream is not None:
            try:
                stream.close()
            except OSError:  # unwritten input of a process that is gone
                continue
