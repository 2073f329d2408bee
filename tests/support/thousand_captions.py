"""A thousand captions, made of parts, and what an adapter must give of them: the scores of `capmeter.score`."""

from __future__ import annotations

import random
from typing import Any

import capmeter

SUBJECTS = (
    "a brown dog",
    "two small cats",
    "a woman in red",
    "an old man",
    "three children",
    "a bus",
    "the boy's kite",
)
DEEDS = ("runs over", "sleeps on", "waits at", "looks at", "plays near", "is standing beside", "jumps across")
PLACES = ("the grass", "a sofa", "the station", "the sea", "a table with plates", "a busy street", "the old bridge")
REWARDS = ("cider-d", "bleu-4", "mean(rouge-l,cider-r)")
METRICS = "bleu-1,bleu-4,rouge-l,cider-d,cider,cider-r"


def sentence(chance: random.Random) -> str:
    return f"{chance.choice(SUBJECTS)} {chance.choice(DEEDS)} {chance.choice(PLACES)}"


def thousand(seed: int = 0) -> tuple[list[str], list[list[str]], list[int]]:
    """Candidates, references (one to five), and ids in ascending order: some near their references, one empty."""
    chance = random.Random(seed)
    references = [[sentence(chance) for _ in range(chance.randrange(1, 6))] for _ in range(1000)]
    candidates = [
        chance.choice([each[0], sentence(chance), f"{sentence(chance)} and {sentence(chance)}", each[-1] + " ."])
        for each in references
    ]
    candidates[17] = ""
    return candidates, references, sorted(chance.sample(range(600_000), 1000))


def expected(metrics: str = METRICS) -> capmeter.Results:
    candidates, references, ids = thousand()
    by_id = dict(zip(ids, candidates, strict=True))
    return capmeter.score(candidates=by_id, references=dict(zip(ids, references, strict=True)), metrics=metrics)


def scores(results: Any) -> dict[str, float]:
    return {name: each.score for name, each in results.items()}
