"""Parses and scenes of captions: computed once, cached in memory and on disk under their parser's version."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.spice_parses import use_parser
from support.written_parses import caption, official_rows

from capmeter.captions.caption_set import SentencePool
from capmeter.core.errors import AssetError, MissingBackend
from capmeter.core.settings import MemoryCache, Settings
from capmeter.text.parsing import parsers as corenlp
from capmeter.text.parsing.dependency_parse import CaptionParse
from capmeter.text.parsing.parsers import CoreNlp, _find_installation, _one_line, corenlp_status, parse_captions
from capmeter.text.scene_graphs.extraction import Scenes, SceneTable
from capmeter.text.scene_graphs.graph import no_synsets

RUNS = caption("a/DT/a/2/det dog/NN/dog/3/nsubj runs/VBZ/run/0/root")

FRENCH = caption("un/NN/un/2/det chien/NN/chien/3/nsubj court/NN/court/0/root vite/NN/vite/3/dep loin/NN/loin/3/dep")


class Counting:
    """A parser with a table of parses, that fails for "bad" and records the captions that it is given."""

    batch = 2

    def __init__(self, version: str = "counting-1") -> None:
        self.version = version
        self.calls: list[list[str]] = []

    def parse(self, captions: Sequence[str]) -> list[CaptionParse | None]:
        self.calls.append(list(captions))
        return [
            None if text == "bad" else RUNS if "dog" in text else FRENCH if "chien" in text else CaptionParse()
            for text in captions
        ]


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> Counting:
    counting = Counting()
    use_parser(monkeypatch, counting)
    return counting


def new_process(cache: Path | None = None) -> Settings:
    """Settings with empty caches in memory."""
    return Settings(cache=cache, memory=MemoryCache())


def test_captions_are_parsed_once() -> None:
    parser, settings = Counting(), new_process()
    assert parse_captions(parser, ["a", "bad"], settings) == [CaptionParse(), None]
    assert parse_captions(parser, ["bad", "a", "dog", "dog"], settings) == [None, CaptionParse(), RUNS, RUNS]
    assert parser.calls == [["a", "bad"], ["bad", "dog"]]


def test_parses_outlive_the_process(tmp_path: Path) -> None:
    captions = ["a dog runs", "bad", "half \ud800"]
    first = parse_captions(Counting(), captions, new_process(tmp_path))
    parser = Counting()
    assert parse_captions(parser, captions, new_process(tmp_path)) == first
    assert parser.calls == [["bad"]]  # a failure is not stored
    parser = Counting("counting-2")
    parse_captions(parser, ["a dog runs"], new_process(tmp_path))
    assert parser.calls[-1] == ["a dog runs"]


def test_scenes_outlive_the_process_and_need_no_parse(parser: Counting, tmp_path: Path) -> None:
    sentences = ["a dog runs", "bad", "un chien court vite loin", "собака бежит", "犬", "🐕"]

    def table(settings: Settings) -> SceneTable:
        scenes: SceneTable = SentencePool(sentences).analyse(Scenes("caption", settings))
        return scenes

    settings = new_process(tmp_path)
    first = table(settings)
    assert first.scenes[0].tuples == (("dog", "run"), ("dog",))
    assert first.scenes[1].tuples is None
    assert [scene.english for scene in first.scenes] == [True, True, False, False, False, True]
    parser.calls.clear()
    table(settings)
    assert parser.calls == [["bad"]]  # the others are in memory
    parser.calls.clear()
    settings = new_process(tmp_path)
    assert table(settings).scenes == first.scenes
    assert parser.calls == [["bad"]]


def test_equal_lists_of_references_share_a_graph(parser: Counting) -> None:
    one: SceneTable = SentencePool(["a dog runs", "well"]).analyse(Scenes("caption"))
    other: SceneTable = SentencePool(["so", "well", "a dog runs"]).analyse(Scenes("caption"))
    graph = one.reference_graph([0, 1], no_synsets)
    assert str(graph) == "dog: run"
    assert other.reference_graph([2, 1], no_synsets) is graph
    assert other.reference_graph([1, 2], no_synsets) is not graph


# The official parser through Java: what it needs, its failures, and the real program where it is installed.


# a stand-in for Java with answers like CoreNLP's: every word is a noun; "die" exits, "sleep" waits, "odd" is no tree
JAVA = """
import json, os, sys, time
with open(os.environ["STARTS"], "a") as file:
    file.write("start\\n")
if os.environ.get("BROKEN"):
    sys.exit("no heap")
for line in sys.stdin:
    words = line.split()
    if "die" in words and not os.path.exists(os.environ["STARTS"] + ".died"):
        open(os.environ["STARTS"] + ".died", "w").close()
        sys.exit(1)
    if "always-die" in words:
        sys.exit(1)
    if "sleep" in words:
        time.sleep(60)
    tokens = [{"word": word, "pos": "NN", "lemma": word} for word in words]
    heads = range(7, 7 + len(words)) if "odd" in words else range(len(words))
    edges = [{"dep": "ROOT" if k == 0 else "dep", "governor": k, "dependent": k + 1} for k in heads]
    sentences = [{"tokens": tokens, "basic-dependencies": edges}] if words else []
    print(json.dumps({"sentences": sentences}, indent=2), flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like an installation, with a stand-in for `java` on the path."""
    if os.name == "nt":
        pytest.skip("the stand-in for Java is a script with a shebang line")
    corenlp_folder = tmp_path / "corenlp"
    corenlp_folder.mkdir()
    for name in (corenlp.JAR, "slf4j-api-1.7.12.jar", "slf4j-simple-1.7.21.jar", corenlp.PCFG):
        (corenlp_folder / name).write_bytes(b"x")
    java = tmp_path / "java"
    java.write_text(f"#!{sys.executable}\n{JAVA}")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("STARTS", str(tmp_path / "starts"))
    monkeypatch.setenv(corenlp.ENVIRONMENT, str(corenlp_folder))
    return corenlp_folder


def starts(folder: Path) -> int:
    return len((folder.parent / "starts").read_text().splitlines())


def words(parse: CaptionParse | None) -> list[tuple[str, ...]]:
    assert parse is not None
    return [sentence.words for sentence in parse.sentences]


def test_one_process_for_all_captions(folder):
    parser = CoreNlp()
    assert parser.version == "corenlp-3.6.0-pcfg-2d711642b726"  # sha256 of "x"
    assert [words(each) for each in parser.parse(["a dog", "quit", "", " \n ", "two\nlines"])] == [
        [("a", "dog")],
        [("quit",)],
        [],
        [],
        [("two", "lines")],
    ]
    assert words(parser.parse(["é 🐶 \ud800"])[0]) == [("é", "🐶", "?")]
    assert starts(folder) == 1
    parser.close()


def test_a_process_that_dies_is_restarted_once(folder):
    parser = CoreNlp()
    assert [words(each) for each in parser.parse(["die", "dog"])] == [[("die",)], [("dog",)]]
    assert starts(folder) == 2
    parses = parser.parse(["always-die", "dog"])
    assert parses[0] is None
    assert words(parses[1]) == [("dog",)]
    parser.close()


def test_captions_that_time_out_or_have_no_parse_are_skipped(folder):
    parser = CoreNlp()
    parser.parse(["dog"])  # Java runs now, so that the short timeout is for the caption alone
    parser.timeout = 0.3
    assert parser.parse(["sleep"]) == [None]
    parser.timeout = 60.0
    parses = parser.parse(["odd one", "dog"])
    assert parses[0] is None
    assert words(parses[1]) == [("dog",)]
    parser.close()


def test_the_error_has_the_message_of_a_java_that_cannot_start(folder, monkeypatch):
    monkeypatch.setenv("BROKEN", "1")
    with pytest.raises(AssetError, match="did not start; its message: no heap"):
        CoreNlp().parse(["a dog"])


def test_the_asset_folder_is_searched_too(folder, tmp_path, monkeypatch):
    monkeypatch.delenv(corenlp.ENVIRONMENT)
    monkeypatch.setenv("CAPMETER_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("capmeter.core.assets.package_folder", lambda *inner: None)
    ready, message = corenlp_status()
    assert not ready
    assert "get_stanford_models" in message
    assert str(tmp_path / "data" / "assets" / "corenlp") in message
    shutil.copytree(folder, tmp_path / "data" / "assets" / "corenlp")
    assert _find_installation().jars[0] == tmp_path / "data" / "assets" / "corenlp" / corenlp.JAR


def test_errors_name_what_is_missing(folder, monkeypatch):
    assert corenlp_status()[0] is True
    (folder / corenlp.PCFG).unlink()
    ready, message = corenlp_status()
    assert not ready
    assert "neither englishPCFG.ser.gz nor stanford-corenlp-3.6.0-models.jar" in message
    with zipfile.ZipFile(folder / corenlp.MODELS, "w") as archive:
        archive.writestr("edu/stanford/nlp/models/lexparser/englishPCFG.ser.gz", b"x")
    installation = _find_installation()
    assert installation.version == "corenlp-3.6.0-pcfg-2d711642b726"
    assert installation.jars[-1].name == corenlp.MODELS
    (folder / corenlp.MODELS).write_bytes(b"not a zip")
    with pytest.raises(AssetError, match="damaged"):
        _find_installation()
    (folder / corenlp.JAR).unlink()
    with pytest.raises(MissingBackend, match=r"there is no stanford-corenlp-3.6.0.jar"):
        _find_installation()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingBackend, match="needs a Java runtime"):
        corenlp._find_java()


def test_captions_that_are_commands_of_the_shell():
    assert [_one_line(text) for text in ("q", "Quit", "exit", "a\r\nb", "\t", "a q")] == [
        *("q ", "Quit ", "exit ", "a  b", "", "a q")
    ]


def test_the_official_parser_gives_the_official_parses(shared: Path, monkeypatch: pytest.MonkeyPatch):
    """Hand-written captions with several sentences, quotation marks, emoji; 25 from each end of the file."""
    tools = shared / "tools" / "corenlp"
    if not tools.is_dir() or shutil.which("java") is None:
        pytest.skip("needs Java and Stanford CoreNLP (tools/corenlp of the research data folder)")
    monkeypatch.setenv(corenlp.ENVIRONMENT, str(tools))
    rows = list(official_rows(shared))
    sample = [*rows[:12], *rows[-20:], *[row for row in rows if len(row["sentences"]) != 1][:8]]
    parser = CoreNlp()
    parses = parser.parse([row["caption"] for row in sample])
    parser.close()
    assert parses == [CaptionParse.from_dict(row) for row in sample]
