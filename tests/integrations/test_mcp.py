"""The server of tools for language models: what its own client gets, and what no request gets."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

mcp = pytest.importorskip("mcp", reason="needs the extra mcp")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SECRET = "a-sentence-that-stands-outside-the-folder"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of captions beside a file that must not be read, with links that lead to it."""
    root = tmp_path / "captions"
    root.mkdir()
    for name in ("strong", "weak", "references"):
        shutil.copy(EXAMPLES / f"{name}.json", root)
    row = {"id": 1, "image_id": 1, "caption": SECRET, "references": [SECRET], "image": "../secret.json"}
    (tmp_path / "secret.json").write_text(json.dumps([row]))
    (tmp_path / "secrets").mkdir()
    shutil.copy(tmp_path / "secret.json", tmp_path / "secrets" / "s.json")
    os.mkfifo(tmp_path / "pipe.json")  # whoever opens it waits for ever
    (root / "link.json").symlink_to("../secret.json")
    (root / "pipe.json").symlink_to("../pipe.json")
    (root / "links").symlink_to("../secrets")
    (root / "circle.json").symlink_to("circle.json")
    (root / "json.py").write_text("raise SystemExit('a module of the folder was imported')")
    (root / "broken.json").write_text('[{"image_id": 1, "caption": ')
    return root


def test_the_client_gets_what_the_commands_print(folder: Path) -> None:
    command = mcp.StdioServerParameters(command=sys.executable, args=["-m", "capmeter", "mcp", str(folder)])

    async def talk() -> None:
        async with mcp.Client(mcp.stdio_client(command)) as client:
            tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
            assert set(tools) == {"score", "compare", "explain", "validate", "list", "doctor"}
            assert (
                tools["score"]["required"] == ["candidates"] and tools["explain"]["properties"]["captions"]["maximum"]
            )

            async def ask(tool: str, **arguments: Any) -> Any:
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, result.content
                assert len(result.content[0].text) <= 40_000
                return json.loads(result.content[0].text)

            captions = {"candidates": "strong.json", "references": "references.json"}
            scores = await ask("score", **captions, metrics="cider-d")
            assert round(scores["systems"]["strong"]["metrics"]["cider-d"]["score"], 4) == 0.8217
            systems = {"ours": "strong.json", "theirs": "weak.json"}
            assert "ours" in str(await ask("compare", systems=systems, references="references.json"))
            assert len(await ask("explain", **captions, captions=2)) == 2
            long = await ask("explain", **captions, captions=20, metrics="rouge-l,cider-d,bleu-4,chair")
            assert long["left_out"] + len(long["answer"]) == 20
            assert (await ask("validate", captions="strong.json", references="references.json"))["ok"]
            assert not (await ask("validate", captions="broken.json"))["ok"]
            assert "cider-d" in await ask("list") and "sigma" in str(await ask("list", metric="cider-d"))
            assert (await ask("doctor"))["numpy"]["state"] == "ready"
            for tool, arguments, said in (
                ("score", {"candidates": "strong.json"}, "references"),
                ("score", {**captions, "metrics": "ciderd9"}, "cider-d"),
                ("score", {**captions, "metrics": "clipscore"}, "pictures"),
                ("score", {**captions, "metrics": "cider-d(idf=link.json)"}, "regular file"),
                ("score", {**captions, "metrics": "penalised(metric=clair(model=x))"}, ""),
                ("score", {**captions, "candidates": "link.json"}, "folder"),
                ("explain", {**captions, "captions": 21}, "20"),
            ):
                result = await client.call_tool(tool, arguments)
                assert result.is_error and said in result.content[0].text

    anyio.run(talk)


def hostile_requests(count: int, seed: int = 0) -> Iterator[bytes]:
    """Lines for the server: paths outside, huge and malformed values, what is not a request at all."""
    rng = random.Random(seed)
    paths = ["../secret.json", "/etc/passwd", "link.json", "links/s.json", "links", "pipe.json", "circle.json"]
    paths += [".", "-", "--help", "~/x", "*.json"]
    paths += ["--references=../secret.json", "strong.json/../../secret.json", "x=../secret.json", "", "a\0b", "nul\n"]
    paths += ["/dev/stdin", "/proc/self/environ", "http://127.0.0.1:9/x.json", "file:///etc/passwd", "../" * 150]
    paths += ["strong.json/secret.json", "./../captions/../secret.json", "C:\\x", "broken.json"]
    values: list[Any] = [*paths, None, True, 0, -1, 10**30, 1e308, [], {}, ["strong.json"], {"a": "strong.json"}]
    values += ["x" * 100_000, [["a"]] * 1000, {"x" * 1000: 1}, "é" * 5000]
    inner = ["../secret.json", "/etc/passwd", "link.json", "pipe.json", "links", "..", ".", '"../x"', "a/b", "~"]
    metrics = [f"cider-d(idf={each})" for each in inner] + [f"sbert(encoder={each})" for each in inner]
    metrics += [f"mean(cider-d(idf={each}),bleu-4)" for each in inner] + [f"chair(objects={each})" for each in inner]
    metrics += ["clair(model=x)", "judge(model=x,task=../secret.json)", "clair(model=x,endpoint=http://127.0.0.1:9)"]
    metrics += ["clipscore", "refpac-s", "penalised(metric=judge(model=x))", "(" * 400, "mean(" * 9 + "x", "--help"]
    tools = ["score", "compare", "explain", "validate", "list", "doctor2", "", "../score"]
    keys = ["candidates", "references", "metrics", "captions", "which", "systems", "metric", "extra"]
    for number in range(count):
        kind = rng.randrange(10)
        if kind == 0:
            yield rng.choice(
                [
                    b"",
                    b"{",
                    b'{"\\ud800": 1}',
                    b"[]",
                    b"null",
                    b"\xff\xfe",
                    b'{"jsonrpc":"2.0"}',
                    b"[" * 5000,
                    b'"x"' * 99,
                    b"\0",
                ]
            )
            continue
        tool = rng.choice(tools)
        arguments: Any = {key: rng.choice(values) for key in rng.sample(keys, rng.randrange(len(keys)))}
        if kind < 5:  # right but for one thing
            tool, arguments = (
                "score",
                {"candidates": "strong.json", "references": "references.json", "metrics": "bleu-4"},
            )
            arguments |= {"metrics": rng.choice(metrics)} if kind < 3 else {rng.choice(keys[:2]): rng.choice(paths)}
        elif kind == 5:
            tool, arguments = (
                "compare",
                {"systems": {rng.choice(["a", "--x", "a=b", ""]): rng.choice(paths), "b": "link.json"}},
            )
        elif kind == 6:
            arguments = rng.choice(values)
        request = {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }
        if kind == 7:
            request["method"] = rng.choice(["resources/read", "prompts/get", "tools/list", "x", "initialize", ""])
            request["params"] = rng.choice([{"uri": "file:///etc/passwd"}, {}, {"name": SECRET[:3]}])
        yield json.dumps(request).encode()


@pytest.mark.slow
def test_a_thousand_hostile_requests_get_nothing_from_outside(folder: Path) -> None:
    command = [sys.executable, "-m", "capmeter", "mcp", str(folder)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert server.stdin is not None and server.stdout is not None and server.stderr is not None
    errors = list[bytes]()
    reader = threading.Thread(target=lambda: errors.append(server.stderr.read()))  # type: ignore[union-attr]
    reader.start()
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    first = [
        {"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    last = {"jsonrpc": "2.0", "id": "last", "method": "tools/call", "params": {"name": "validate", "arguments": {}}}
    last["params"] = {"name": "score", "arguments": {"candidates": "strong.json", "references": "references.json"}}
    lines = [*(json.dumps(each).encode() for each in first), *hostile_requests(1000), json.dumps(last).encode()]
    writer = threading.Thread(target=lambda: (server.stdin.write(b"\n".join(lines) + b"\n"), server.stdin.flush()))  # type: ignore[union-attr]
    writer.start()
    answers: dict[Any, dict[str, Any]] = {}
    asked = {json.loads(line)["id"] for line in lines if b'"tools/call"' in line}
    while not asked <= answers.keys():
        line = server.stdout.readline()
        assert line, b"".join(errors)
        answer = json.loads(line)
        answers[answer.get("id")] = answer
    writer.join()
    server.stdin.close()
    assert server.wait(60) == 0
    reader.join()
    said = json.dumps(answers, ensure_ascii=False)
    assert SECRET not in said and "root:" not in said and "a module of the folder" not in said
    assert "Traceback" not in said and b"Traceback" not in b"".join(errors)
    assert max(len(json.dumps(each)) for each in answers.values()) < 100_000
    assert '"cider-d"' in answers["last"]["result"]["content"][0]["text"]
