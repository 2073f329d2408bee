"""Keys get out nowhere, the environment changes nothing, and no answer is used for another question."""

from __future__ import annotations

import base64
import codecs
import html
import json
import logging
import socketserver
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.judge_server import JudgeServer, Reply, captions, completion, prompt_of, score
from support.judge_tasks import grade
from typer.testing import CliRunner

from capmeter.cli.main import app
from capmeter.core.errors import CapmeterError, InputError
from capmeter.core.settings import JudgeLimits
from capmeter.metrics.judges.judge import Clair
from capmeter.metrics.judges.server import ApiKey, find_server, read_key

pytest.importorskip("openai", reason="needs the judges extra")
pytestmark = pytest.mark.usefixtures("judging")
SECRET = "sk-live-Ab3/Cd4/Ef5/Gh6/Jk7/Lm8/Np9/Qr1/St2/Uv3/Wx4/Yz"
FORMS = {
    "plain": SECRET,
    "percent": quote(SECRET, safe=""),
    "percent twice": quote(quote(SECRET, safe=""), safe=""),
    "JSON": SECRET.replace("/", "\\/"),
    "unicode": "".join(f"\\u{ord(c):04x}" for c in SECRET),
    "HTML": html.escape("".join(f"&#{ord(c)};" for c in SECRET)),
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "header in base64": base64.urlsafe_b64encode(f"Bearer {SECRET}".encode()).decode(),
    "base64 twice": base64.b64encode(base64.b64encode(SECRET.encode())).decode(),
    "base32": base64.b32encode(SECRET.encode()).decode(),
    "base85": base64.b85encode(SECRET.encode()).decode(),
    "hexadecimal": SECRET.encode().hex(),
    "bytes": SECRET.encode().hex(":"),
    "bytes with prefixes": " ".join(f"0x{ord(c):02x}" for c in SECRET),
    "codes": " ".join(str(ord(c)) for c in SECRET),
    "reversed": SECRET[::-1],
    "rot13": codecs.encode(SECRET, "rot13"),
    "spaced": " ".join(SECRET),
    "capitals": SECRET.upper(),
    "beginning": SECRET[:20],
    "end": SECRET[-20:],
    "full width": "".join(chr(ord(c) + 0xFEE0) for c in SECRET),
}
FIELDS = ["content", "refusal", "finish", "token", "alternative", "id", "model", "header", "status", "error", "code"]
FIELDS += ["body"]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_key_is_masked_in_every_encoding(form: str) -> None:
    key = ApiKey(SECRET)
    for text in (f"wrong key: {form} (see the help)", json.dumps({"score": 10, "reason": form})):
        assert form not in key.mask(text) and "[key]" in key.mask(text)
        assert form not in key.mask_message(text)
    assert key.mask('{"score": 85, "reason": "both show a dog"}') == '{"score": 85, "reason": "both show a dog"}'


def test_parts_of_the_key_in_several_fields_are_masked() -> None:
    """Each is too short to be masked by itself: five letters."""
    for fields in (["no: sk-liv", "e-Ab3/", ""], ["3/Cd4", "bad", "e-Ab"], ["wrong", "Ab3/Cd", "4/Ef5/"]):
        assert ApiKey(SECRET).mask_fields(fields) == ["[key]"]
    assert ApiKey(SECRET).mask_fields(["bad key", "invalid_request", "401"]) == ["bad key", "invalid_request", "401"]


@given(st.integers(0, 47), st.integers(6, 54), st.text(max_size=20), st.sampled_from(["", " ", "-", "\n", "\u200b"]))
def test_every_part_of_the_key_is_masked(start: int, length: int, text: str, between: str) -> None:
    part = SECRET[start : start + length]
    if sum(character.isalnum() for character in part) >= 6:
        masked = ApiKey(SECRET).mask(f"{text} {between.join(part)}")
        assert "[key]" in masked and between.join(part) not in masked


def reply_with(field: str, form: str) -> Reply:
    """A response that repeats the key in one of its fields."""
    tokens = [["$", {"$": 0.0}], [f"8{form}" if field == "token" else "8", {f"8 {form}": -0.1}]]
    reply = completion(f"so: {form} $80$" if field == "content" else "$80$", tokens)
    body = json.loads(reply.body)
    if field == "refusal":
        body["choices"][0]["message"] = {"content": None, "refusal": form}
    if field == "finish":
        body["choices"][0]["finish_reason"] = form
    body |= {field: form} if field in ("id", "model") else {}
    if field in ("error", "code"):
        error = {"message": f"bad key {form}" if field == "error" else "bad", "code": form, "type": form}
        return Reply(400, json.dumps({"error": error}).encode())
    if field == "body":
        return Reply(200, f"<html>{form}</html>".encode())
    headers = (
        {"X-Request-Id": form.replace("\n", ""), "Retry-After": form} if field == "header" and form.isascii() else {}
    )
    return Reply(503 if field == "status" else 200, json.dumps(body).encode(), headers)


@pytest.mark.parametrize("field", FIELDS)
def test_no_file_message_or_log_has_the_key(
    field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that repeats the key in a dozen encodings, in every field: nothing of a run contains it."""
    monkeypatch.setenv("CAPMETER_JUDGE_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    rows = tmp_path / "rows.jsonl"
    texts = [{"image_id": name, "candidate": f"caption {name}.", "references": ["a"]} for name in FORMS]
    rows.write_text("".join(json.dumps(row) + "\n" for row in texts))
    by_name = lambda body, before: reply_with(field, FORMS[prompt_of(body).split("caption ")[-1].split(".")[0]])  # noqa: E731
    with JudgeServer(by_name).running() as server:
        metric = grade(tmp_path, server.url)
        words = ["score", str(rows), "-m", metric, "--judge-tries", "1", "-o", str(tmp_path / "scores.json")]
        words += ["--judge-concurrency", "32"]
        outcome = CliRunner().invoke(app, words)
        assert len(server.received) == len(FORMS)
    texts_of_run = [outcome.output, str(outcome.exception), caplog.text]
    texts_of_run += [
        path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path != rows and path.is_file()
    ]
    for name, form in FORMS.items():
        assert not any(form in text or json.dumps(form)[1:-1] in text for text in texts_of_run), name


def test_the_environment_of_other_products_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "OPENAI_ORG_ID": "org-OTHER",
        "OPENAI_PROJECT_ID": "proj-OTHER",
        "OPENAI_ADMIN_KEY": "admin-OTHER",
        "OPENAI_CUSTOM_HEADERS": "X-A: OTHER\nAuthorization: Bearer OTHER\nX-\u00e4: \u00e4",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/OTHER",
        "OPENAI_API_KEY": "OTHER",
        "http_proxy": "socks5://127.0.0.1:9",
        "ALL_PROXY": "foo bar",
        "SSL_CERT_FILE": "/nowhere",
        "SSLKEYLOGFILE": "/nowhere/keys",
    }.items():
        monkeypatch.setenv(name, value)
    with JudgeServer(lambda body, before: completion('{"score": 50}')).running() as server:
        monkeypatch.setenv("CAPMETER_JUDGE_URL", server.url)
        assert score(captions(), "clair(model=m)").score == 0.5
        sent = {name: value for headers in server.headers for name, value in headers.items()}
        assert not any("OTHER" in f"{name}{value}" or "stainless" in name for name, value in sent.items())


def test_without_an_address_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    with pytest.raises(InputError, match=r"no server is named to ask: set CAPMETER_JUDGE_URL .*endpoint="):
        score(captions(), "clair(model=m)")


ADDRESSES = (
    "ftp://a nonsense http://user:secret@a/v1 http://a/v1?key=secret http://a:99999999/v1 http:// http://a..b/v1"
)
ADDRESSES += f" http://{'a' * 70}/v1 http://[::1/v1 http://a\\b local http://\u00e4"


@pytest.mark.parametrize("address", [*ADDRESSES.split(), "http://a b/v1"])
def test_an_address_is_one_sentence(address: str) -> None:
    for use in (find_server, lambda text: Clair(model="m", endpoint=text)):
        with pytest.raises(InputError, match="the judge's server: ") as problem:
            use(address)
        assert "secret" not in str(problem.value)


@given(st.text(max_size=30).map(lambda text: f"http://{text}"))
def test_any_address_is_usable_or_refused(address: str) -> None:
    for use in (find_server, lambda text: JudgeLimits(proxy=text)):
        try:
            use(address)
        except InputError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "foo", "ftp://a:9", "http://u:p@127.0.0.1:99", "http://a"])
def test_a_proxy_is_an_address_without_a_password(proxy: str) -> None:
    with pytest.raises(InputError, match="--judge-proxy: expected an address"):
        JudgeLimits(proxy=proxy)


def test_questions_go_through_the_proxy() -> None:
    with JudgeServer(lambda body, before: completion('{"score": 50}')).running() as proxy:
        name = 'clair(model=m,endpoint="http://judge.invalid/v1")'
        assert score(captions(), name, proxy=proxy.url.removesuffix("/v1")).score == 0.5
        assert {headers["host"] for headers in proxy.headers} == {"judge.invalid"}


def test_certificates_are_a_file(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    for path in (tmp_path / "ca.pem", tmp_path / "missing.pem", tmp_path):
        with pytest.raises(InputError, match="--judge-certificates"):
            score(captions(), 'clair(model=m,endpoint="https://127.0.0.1:9/v1")', certificates=path)


def test_keys_are_checked_and_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SECRET not in repr(ApiKey(SECRET))
    for text in ("sk-line1SECRET\nsk-line2SECRET", "sk-a b", "sk-\u00e9", "sk-\x07"):
        monkeypatch.setenv("CAPMETER_JUDGE_KEY", text)
        with pytest.raises(InputError, match="CAPMETER_JUDGE_KEY: the key contains") as problem:
            read_key()
        assert "SECRET" not in str(problem.value)


class SurplusServer(socketserver.StreamRequestHandler):
    """Answers each request of a connection, and sends another response after it."""

    surplus, pause = b"", 0.0

    def handle(self) -> None:
        while line := self.rfile.readline():
            length = 0
            while line not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
                line = self.rfile.readline()
            prompt = prompt_of(json.loads(self.rfile.read(length)))
            number = int(prompt.split("Candidate set:\n- text ")[1].split("\n")[0])
            body = completion(json.dumps({"score": number})).body
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            threading.Event().wait(self.pause)
            self.wfile.write(self.surplus)


SURPLUS = completion('{"score": 99}').body
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(SURPLUS) + SURPLUS


@pytest.mark.parametrize(
    ("surplus", "pause"),
    [(WHOLE, 0.0), (WHOLE, 0.05), (b"HTTP/1.1 504 Late\r\nContent-Length: 0\r\n\r\n", 0.05), (b"HTTP/1.1 200", 0.05)],
)
def test_a_second_response_is_never_the_answer_to_the_next_question(surplus: bytes, pause: float) -> None:
    handler = type("Handler", (SurplusServer,), {"surplus": surplus, "pause": pause})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        texts = captions([f"text {k}" for k in range(12)])
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        results = score(texts, f'clair(model=m,endpoint="{url}")', concurrency=1, timeout=2)
        server.shutdown()
    assert list(results.items.values()) == pytest.approx([k / 100 for k in range(12)])


def test_an_unusable_cache_is_said_before_the_first_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "else")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("folder", "wal", "garbage"):
        (tmp_path / name).mkdir()
    (tmp_path / "folder" / "answers.sqlite").mkdir()
    (tmp_path / "wal" / "answers.sqlite-wal").mkdir()
    (tmp_path / "garbage" / "answers.sqlite").write_text("no database" * 100)
    (tmp_path / "file").write_text("")
    with JudgeServer(lambda body, before: completion('{"score": 50}')).running() as server:
        for name in ("loop", "folder", "garbage", "file"):
            monkeypatch.setenv("CAPMETER_VECTOR_CACHE", str(tmp_path / name))
            with pytest.raises(CapmeterError, match="cannot be kept in"):
                score(captions(), server.clair)
        monkeypatch.setenv("CAPMETER_VECTOR_CACHE", str(tmp_path / "full"))
        monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 4096}))
        with pytest.raises(CapmeterError, match="the disk is full: 4,096 bytes are free"):
            score(captions(), server.clair)
        assert not server.received


@pytest.mark.parametrize("row", ["null", "[1]", '["a", [[1]], false, false, [1, 2]]', "{"])
def test_a_damaged_answer_is_one_sentence(tmp_path: Path, row: str) -> None:
    with JudgeServer(lambda body, before: completion('{"score": 50}')).running() as server:
        score(captions(), server.clair)
        with closing(sqlite3.connect(tmp_path / "cache" / "judge" / "answers.sqlite")) as database, database:
            database.execute("UPDATE answers SET answer = ?", [row])
        with pytest.raises(CapmeterError, match=r"cannot be kept in .*: .*remove what is damaged"):
            score(captions(), server.clair)


def test_runs_at_the_same_time_share_their_answers(tmp_path: Path) -> None:
    """Two processes ask the same questions at once: each is asked once."""
    rows = tmp_path / "rows.jsonl"
    texts = [{"image_id": str(k), "candidate": f"text {k}", "references": ["a"]} for k in range(40)]
    rows.write_text("".join(json.dumps(row) + "\n" for row in texts))
    slow = threading.Event()

    def plan(body: dict[str, Any], before: int) -> Reply:
        slow.wait(0.1)
        return completion('{"score": 50}')

    with JudgeServer(plan).running() as server:
        words = [sys.executable, "-m", "capmeter", "score", str(rows), "-m", server.clair]
        runs = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        outputs = [run.communicate(timeout=120) for run in runs]
        assert all("0.5000" in output for output, _ in outputs), outputs
        assert len(server.received) == 40
