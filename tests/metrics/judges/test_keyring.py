"""A judge's key from the system's keyring."""

from __future__ import annotations

import sys

import pytest
from support.judge_server import KEY, JudgeServer, captions, completion, score

from capmeter.core.errors import AssetError, MissingBackend
from capmeter.metrics.judges.connection import read_key

pytest.importorskip("openai", reason="needs the judges extra")
pytestmark = pytest.mark.usefixtures("judging")


@pytest.fixture
def passwords(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    """The passwords of an in-memory keyring, by service and user."""
    keyring = pytest.importorskip("keyring", reason="needs the keyring extra")
    backend = pytest.importorskip("keyring.backend")
    stored: dict[tuple[str, str], str] = {}

    class MemoryKeyring(backend.KeyringBackend):  # type: ignore[misc, name-defined]
        priority = 1

        def get_password(self, service: str, username: str) -> str | None:
            return stored.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            stored[service, username] = password

    before = keyring.get_keyring()
    keyring.set_keyring(MemoryKeyring())
    monkeypatch.setenv("CAPMETER_JUDGE_KEY", "keyring")
    yield stored
    keyring.set_keyring(before)


def test_the_key_of_a_server_comes_from_the_keyring(passwords: dict[tuple[str, str], str]) -> None:
    with JudgeServer(lambda body, before: completion('{"score": 50}')).running() as server:
        passwords["capmeter", server.url.removeprefix("http://").removesuffix("/v1")] = KEY
        scores = score(captions(), f'clair(model=m,endpoint="{server.url}")')
        assert scores.score == 0.5 and KEY not in scores.signature
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}


def test_a_key_of_another_server_is_not_sent(passwords: dict[tuple[str, str], str]) -> None:
    passwords["capmeter", "api.openai.com"] = KEY
    assert read_key("https://api.openai.com/v1").value == KEY
    with pytest.raises(AssetError, match=r"no key of 127\.0\.0\.1:8000 in the keyring; store it with `keyring set cap"):
        read_key("http://127.0.0.1:8000/v1")


def test_a_locked_keyring(passwords: dict[tuple[str, str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = pytest.importorskip("keyring")
    errors = pytest.importorskip("keyring.errors")

    def refuse(service: str, username: str) -> str:
        raise errors.KeyringLocked("secret details")

    monkeypatch.setattr(keyring, "get_password", refuse)
    with pytest.raises(AssetError, match=r"the keyring cannot be read \(KeyringLocked\)") as problem:
        read_key("http://a/v1")
    assert "secret details" not in str(problem.value)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(MissingBackend, match=r"needs keyring: pip install 'capmeter\[keyring\]'"):
        read_key("http://a/v1", {"CAPMETER_JUDGE_KEY": "keyring"})
