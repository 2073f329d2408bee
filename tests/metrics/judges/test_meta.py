"""Judging the judge: agreement with people, consistency and cost through `capmeter meta` and `capmeter score`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import kendalltau
from support.judge_server import JudgeServer, Reply, completion, prompt_of
from typer.testing import CliRunner

from capmeter.cli.main import app

pytest.importorskip("openai", reason="needs the judges extra")
pytestmark = pytest.mark.usefixtures("judging")


def grade(body: dict[str, Any]) -> int:
    """What the judge says of "caption K": K, but of every fourth caption the opposite."""
    number = int(prompt_of(body).split("caption ")[1].split("\n")[0])
    return 100 - number if number % 4 == 0 else number


def plan(body: dict[str, Any], before: int) -> Reply:
    return completion(json.dumps({"score": grade(body)}))


def run(*words: str | Path) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def rated(folder: Path, count: int) -> Path:
    """A file of captions, "caption K" with the rating K."""
    path = folder / "rated.jsonl"
    rows = [
        {"id": str(k), "image_id": str(k), "candidate": f"caption {k}", "references": ["a"], "human": [float(k)]}
        for k in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_agreement_with_ratings_has_an_interval(tmp_path: Path) -> None:
    path = rated(tmp_path, 40)
    with JudgeServer(plan).running() as server:
        words = ("meta", "-b", "rated", "-d", path, "-m", server.clair, "--format", "json", "--resamples", "50")
        (result,) = (each for each in json.loads(run(*words))["results"] if each["metric"] == server.clair)
        scores = [100 - k if k % 4 == 0 else k for k in range(40)]
        assert result["value"] == pytest.approx(100 * kendalltau(scores, range(40), variant="b")[0], abs=1e-6)
        assert result["low"] < result["value"] < result["high"]
        assert len(server.received) == 40


def test_consistency_and_cost_stand_beside_the_agreement(tmp_path: Path) -> None:
    """Asked three times, the judge answers differently about every fifth caption: there 1 of 3 pairs is equal."""
    path = rated(tmp_path, 20)
    requests: Counter[int] = Counter()

    def fickle(body: dict[str, Any], before: int) -> Reply:
        number = grade(body)
        requests[number] += 1
        return completion(json.dumps({"score": number - (requests[number] == 3 and number % 5 == 0)}))

    with JudgeServer(fickle).running() as server:
        name = f'clair(model=m,endpoint="{server.url}",repeats=3,temperature=1.0)'
        words = ("meta", "-b", "rated", "-d", path, "-m", name, "--resamples", "50", "--judge-prices", "2.5,10")
        rows = json.loads(run(*words, "--format", "json"))["judging"]
        judging = {row["statistic"]: row["value"] for row in rows}
        wrong = sum((100 - k if k % 4 == 0 else k) % 5 == 0 for k in range(20))
        assert judging["consistency"] == pytest.approx(1 - wrong / 20 * 2 / 3) and judging["scored_share"] == 1
        tokens = judging["input_tokens"], judging["output_tokens"]
        assert min(tokens) > 0 and judging["cost"] == pytest.approx((2.5 * tokens[0] + 10 * tokens[1]) / 1e6)
        text = " ".join(run(*words).split())
        assert f"{100 * judging['consistency']:.1f} % of repeated answers are equal" in text
        assert f"{judging['cost']:.6f} per caption by --judge-prices" in text


def test_the_budget_is_an_option_and_the_table_says_how_many_have_a_score(tmp_path: Path) -> None:
    path = rated(tmp_path, 5)
    refuse = lambda body, before: completion("I'm sorry.") if grade(body) == 3 else plan(body, before)  # noqa: E731
    with JudgeServer(refuse).running() as server:
        words = ["score", str(path), "-m", server.clair]
        refused = CliRunner().invoke(app, [*words, "--max-requests", "4"])
        assert "more than --max-requests 4" in str(refused.exception) and not server.received
        for limit, message in ((("--max-cost", "4"), "--judge-prices"), (("--judge-prices", "cheap"), "is not IN,OUT")):
            wrong = CliRunner().invoke(app, [*words, *limit])
            assert wrong.exit_code == 2 and message in wrong.output
        few = CliRunner().invoke(app, [*words, "--max-requests", "5", "--judge-prices", "1,2"])
        assert few.exit_code == 4 and len(server.received) == 5 and "(4 of 5)" in few.output
        assert "(4 of 5)" in run(*words, "--least-answered", ".5") and len(server.received) == 5
