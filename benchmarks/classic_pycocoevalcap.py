"""What `classic.py speed` runs beside capmeter: a program that scores a file of captions with pycocoevalcap.

python benchmarks/classic_pycocoevalcap.py FILE METRICS
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def scores_of_file(path: str, metrics: str) -> dict[str, Any]:
    """The scores of each caption, by metric."""
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    with Path(path).open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    tokenizer = PTBTokenizer()
    gts = tokenizer.tokenize({k: [{"caption": text} for text in row["references"]] for k, row in enumerate(rows)})
    res = tokenizer.tokenize({k: [{"caption": row["candidate"]}] for k, row in enumerate(rows)})
    return {name: list(map(float, scores)) for name, scores in peer_scores(gts, res, metrics).items()}


def peer_scores(gts: dict[int, list[str]], res: dict[int, list[str]], metrics: str) -> dict[str, Any]:
    """The scores of captions that are tokenised."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    scores: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        scores["bleu-4"] = Bleu(4).compute_score(gts, res)[1][3]
    scores["rouge-l"] = Rouge().compute_score(gts, res)[1]
    scores["cider-d"] = Cider().compute_score(gts, res)[1]
    if "meteor" in metrics.split(","):
        from pycocoevalcap.meteor.meteor import Meteor

        scores["meteor"] = Meteor().compute_score(gts, res)[1]
    return {name: scores[name] for name in metrics.split(",")}


if __name__ == "__main__":
    print("\n" + json.dumps(scores_of_file(*sys.argv[1:])))
