"""Parsers by name, and the parses of captions, shared by several metrics.

`caption` is the bundled parser; `corenlp` is SPICE's own, through Java. Parses are
cached in memory and on disk under the parser's name and its model's hash.

SPICE's own parser through Java: Stanford CoreNLP 3.6.0 with its English PCFG, for the official numbers.

Nothing is compiled: CoreNLP's own command line (its interactive shell, which reads one caption per line and writes
JSON) is run with Java 8 or later. One process is started at the first caption and serves the whole run; a caption that
takes too long is skipped, and a process that dies is restarted once.

It needs `stanford-corenlp-3.6.0.jar`, the slf4j jars in the same folder, and the parser's model, as a file
(`englishPCFG.ser.gz`, 1.9 MB) or inside `stanford-corenlp-3.6.0-models.jar`. The folder is that of the environment
variable CAPMETER_CORENLP, else the asset folder (`capmeter.core.assets.asset_folder`), else `spice/lib` of an installed
pycocoevalcap.
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
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, Annotated, Any, Literal, Protocol

from capmeter.core.assets import ASSETS, asset_folder
from capmeter.core.errors import AssetError, InputError, MissingBackend
from capmeter.core.settings import Settings, encode_texts
from capmeter.text.parsing.caption_parser import bundled_caption_parser
from capmeter.text.parsing.dependency_parse import CaptionParse, Parse
from capmeter.text.tokenization.token_tables import SentenceSource

CORENLP = ASSETS["corenlp"]
ENVIRONMENT, JAR = CORENLP.environment, CORENLP.files[0]
MODELS = "stanford-corenlp-3.6.0-models.jar"
PCFG = "englishPCFG.ser.gz"
_MODEL_MEMBER = f"edu/stanford/nlp/models/lexparser/{PCFG}"
_INSTRUCTIONS = (
    f"get it with: {CORENLP.get}; or name a folder that holds {JAR}, the slf4j jars and {PCFG} (or {MODELS}) by the "
    f"environment variable {ENVIRONMENT}"
)

_START_TIMEOUT, _TIMEOUT = 120.0, 60.0  # seconds
_MEMORY = "-Xmx3G"
_COMMANDS = ("q", "quit", "exit")  # what the shell reads as a command


@dataclass(frozen=True)
class _Installation:
    """The files of the program."""

    jars: tuple[Path, ...]  # Java's class path
    model: str  # a file, or the name of a member of a jar
    sha256: str  # of the model

    @property
    def version(self) -> str:
        """The parser in signatures."""
        return f"corenlp-3.6.0-pcfg-{self.sha256[:12]}"


def _read_installation(folder: Path) -> _Installation:
    program_jar, model_path, models_jar = folder / JAR, folder / PCFG, folder / MODELS
    if not program_jar.is_file():
        raise MissingBackend(f"Stanford CoreNLP is not in {folder}: there is no {JAR}; {_INSTRUCTIONS}")
    jars = (program_jar, *sorted(folder.glob("slf4j-*.jar")))
    if len(jars) == 1:
        raise MissingBackend(f"{folder} has {JAR}, but not the slf4j jars that it needs; {_INSTRUCTIONS}")
    if model_path.is_file():
        return _Installation(jars, str(model_path), hashlib.sha256(model_path.read_bytes()).hexdigest())
    try:
        with zipfile.ZipFile(models_jar) as archive:
            sha256 = hashlib.sha256(archive.read(_MODEL_MEMBER)).hexdigest()
    except FileNotFoundError:
        raise MissingBackend(
            f"the parser's model is not in {folder}: neither {PCFG} nor {MODELS}; {_INSTRUCTIONS}"
        ) from None
    except (KeyError, zipfile.BadZipFile) as problem:
        raise AssetError(f"{models_jar} is damaged or is not CoreNLP's ({problem}); {_INSTRUCTIONS}") from problem
    return _Installation((*jars, models_jar), _MODEL_MEMBER, sha256)


def _find_installation() -> _Installation:
    """Finds the program and its model.

    Raises:
        MissingBackend, AssetError: a file is missing or damaged; the message says how to get it.
    """
    folder = CORENLP.find()
    if folder is None:
        raise MissingBackend(
            f"parser=corenlp needs Stanford CoreNLP 3.6.0, which was not found; {_INSTRUCTIONS}, or put it into "
            f"{asset_folder(CORENLP.name)}"
        )
    return _read_installation(folder.resolve())


def _find_java() -> str:
    """Returns the path of `java`, or raises a `MissingBackend`."""
    java = shutil.which("java")
    if java is None:
        raise MissingBackend(
            "parser=corenlp needs a Java runtime (8 or later), and there is no `java` on the path; install one, "
            "or use the parser that ships with capmeter, which needs no Java"
        )
    return java


def corenlp_status() -> tuple[bool, str]:
    """Checks whether the parser can run; returns this and a sentence that says where it is or what is missing."""
    try:
        installation, java = _find_installation(), _find_java()
    except (MissingBackend, AssetError) as problem:
        return False, str(problem)
    return True, f"Stanford CoreNLP in {installation.jars[0].parent} ({installation.version}), {java}"


class CoreNlp:
    """The official parser. `parse` starts its process when it is first needed; `close` ends it.

    Args:
        timeout: seconds after which a caption is skipped.

    Raises:
        MissingBackend, AssetError: a file of the program is missing or damaged.
    """

    batch: int = 256  # ten seconds of work

    def __init__(self, *, timeout: float = _TIMEOUT) -> None:
        self.timeout = timeout
        self._installation = _find_installation()
        self._process: _Process | None = None

    @property
    def version(self) -> str:
        """The parser in signatures."""
        return self._installation.version

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        """Returns the parse of each caption; None for one that took too long or that the parser could not read."""
        return [self._parse_caption(caption) for caption in captions]

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def _parse_caption(self, caption: str) -> CaptionParse | None:
        caption_line = _one_line(caption)
        if not caption_line:
            return CaptionParse()
        for _ in range(2):  # a process that dies is restarted once
            process = self._start()
            try:
                return process.parse(caption_line, self.timeout)
            except _Died:
                self.close()
            except TimeoutError:
                self.close()
                return None
        return None

    def _start(self) -> _Process:
        if self._process is None or self._process.owner != os.getpid():
            self._process = _Process(self._installation)
        return self._process


def _one_line(caption: str) -> str:
    """Turns a caption into one line that is not a command of the shell."""
    line = " ".join(caption.split("\n")).replace("\r", " ").replace("\0", " ")
    line = line.encode("utf-8", "replace").decode("utf-8")  # lone surrogates
    return line + " " if line.strip().lower() in _COMMANDS else line if line.strip() else ""


def _read_answer(answer: Any) -> CaptionParse:
    """Reads the parse in an answer of CoreNLP (JSON)."""
    sentence_parses = []
    for sentence in answer["sentences"]:
        tokens = sentence["tokens"]
        heads, labels = [0] * len(tokens), [""] * len(tokens)
        for edge in sentence["basic-dependencies"]:
            heads[edge["dependent"] - 1] = edge["governor"]
            labels[edge["dependent"] - 1] = edge["dep"] if edge["governor"] else "root"
        words, tags, lemmas = (tuple(token[field_name] for token in tokens) for field_name in ("word", "pos", "lemma"))
        sentence_parses.append(Parse(words, tags, lemmas, tuple(heads), tuple(labels)))
    return CaptionParse(tuple(sentence_parses))


class _Died(Exception):
    """The process ended before it answered."""


class _Process:
    """CoreNLP's shell: a line in, a JSON object out."""

    def __init__(self, installation: _Installation) -> None:
        self.owner = os.getpid()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `end`)
        command = [
            *(_find_java(), _MEMORY, "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"),
            "-Dstdin.encoding=UTF-8",
            *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", os.pathsep.join(map(str, installation.jars))),
            *("edu.stanford.nlp.pipeline.StanfordCoreNLP", "-annotators", "tokenize,ssplit,parse,lemma"),
            *("-parse.model", installation.model, "-outputFormat", "json"),
        ]
        try:
            self._java = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors)
        except OSError as problem:
            raise MissingBackend(
                f"Java could not be started ({problem}); parser=corenlp needs a Java runtime"
            ) from None
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        assert self._java.stdout is not None
        reader_thread = threading.Thread(target=_queue_lines, args=(self._java.stdout, self._lines), daemon=True)
        reader_thread.start()
        self._stop = weakref.finalize(self, _terminate, self._java, self._errors)
        try:
            self.parse("a", _START_TIMEOUT)
        except (_Died, TimeoutError):
            self._errors.seek(0)
            error_lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            error_message = " | ".join(error_lines[-3:])
            self.end()
            raise AssetError(f"Stanford CoreNLP did not start; its message: {error_message or 'none'}") from None

    def parse(self, line: str, timeout: float) -> CaptionParse | None:
        """Returns the parse of one line; None if the answer is not a parse."""
        try:
            assert self._java.stdin is not None
            self._java.stdin.write(line.encode("utf-8") + b"\n")
            self._java.stdin.flush()
        except OSError:
            raise _Died from None
        answer_lines: list[bytes] = []
        while not answer_lines or answer_lines[-1].rstrip() != b"}":
            try:
                answer_line = self._lines.get(timeout=timeout)
            except queue.Empty:
                raise TimeoutError from None
            if answer_line is None:
                raise _Died
            answer_lines.append(answer_line)
        try:
            return _read_answer(json.loads(b"".join(answer_lines), strict=False))
        except (ValueError, KeyError, TypeError, IndexError, InputError):
            return None

    def end(self) -> None:
        """Ends the process."""
        self._stop()


def _queue_lines(output_stream: IO[bytes], line_queue: queue.SimpleQueue[bytes | None]) -> None:
    """Puts the lines of a stream into a queue, then None."""
    for line in output_stream:
        line_queue.put(line)
    line_queue.put(None)


def _terminate(process: subprocess.Popen[bytes], error_file: IO[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, error_file):
        if stream is not None:
            try:
                stream.close()
            except OSError:  # unwritten input of a process that is gone
                continue


ParserName = Annotated[Literal["caption", "corenlp"], "the parser: the bundled one, or the official one (Java)"]

PARSERS = ("caption", "corenlp")


class Parser(Protocol):
    """Parses captions."""

    @property
    def version(self) -> str:
        """The parser in signatures: its name and the hash of its model."""
        ...

    @property
    def batch(self) -> int:
        """Number of captions to pass in one call."""
        ...

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        """Returns the parse of each caption; None for one that could not be parsed in reasonable time."""
        ...


def check_parser(name: str) -> None:
    """Raises an `InputError` if there is no parser of this name."""
    if name not in PARSERS:
        raise InputError(f"unknown parser {name!r}; expected one of {', '.join(PARSERS)}")


@lru_cache(maxsize=4)
def find_parser(name: str) -> Parser:
    """Returns the parser of this name, loaded once per process.

    Raises:
        InputError: the name is unknown.
        MissingBackend, AssetError: what the parser needs is missing or damaged.
    """
    check_parser(name)
    return CoreNlp() if name == "corenlp" else bundled_caption_parser()


def parser_status(name: str) -> tuple[bool, str]:
    """Checks whether a parser can run; returns this and a sentence that says where it is or what is missing."""
    if name == "corenlp":
        return corenlp_status()
    try:
        return True, find_parser(name).version
    except (MissingBackend, AssetError) as problem:
        return False, str(problem)


def parse_captions(
    parser: Parser, captions: Sequence[str], settings: Settings | None = None
) -> list[CaptionParse | None]:
    """Parses captions, as far as the caches of the settings do not have their parses.

    Args:
        parser: the parser.
        captions: the captions.
        settings: the caches; None: those of the environment.

    Returns:
        The parse of each caption; None for one that could not be parsed in reasonable time.
    """

    def parse_rows(rows: list[int]) -> list[dict[str, Any] | None]:
        return [None if parse is None else parse.to_dict() for parse in parser.parse([captions[row] for row in rows])]

    return (
        (settings or Settings())
        .result_cache()
        .results(
            f"parses/1/{parser.version}",
            encode_texts(captions),
            parse_rows,
            batch_size=parser.batch,
            decode=CaptionParse.from_dict,
            task="parses",
        )
    )


def looks_english(parse: CaptionParse | None) -> bool:
    """Whether a caption looks English, by the vocabulary of the bundled parser."""
    if parse is None:
        return True
    return bundled_caption_parser().looks_english(word for sentence in parse.sentences for word in sentence.words)


@dataclass(frozen=True, eq=False)
class ParseTable:
    """The parse of each sentence of a pool, None for one that could not be parsed."""

    parses: Sequence[CaptionParse | None]


@dataclass(frozen=True)
class Parses:
    """Analysis: the parse of each sentence of a pool, by the parser of this name, with the caches of the settings."""

    parser: str
    settings: Settings = field(default_factory=Settings)

    def compute(self, pool: SentenceSource) -> ParseTable:
        """Parses every sentence of the pool."""
        return ParseTable(parse_captions(find_parser(self.parser), pool.sentences, self.settings))
