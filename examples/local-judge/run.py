"""Scores captions with CAPEval's checklist and the model that `serve.py` serves; prints scores, notes and tokens.

python run.py checklist.jsonl captions.json [--port 8099] [--captions-limit 20]
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.error
import urllib.request
from pathlib import Path

import capmeter


def wait_for_server(port: int, seconds: float = 120) -> None:
    """Returns when the server lists its models; exits with a sentence if it does not."""
    address, end = f"http://127.0.0.1:{port}/v1/models", time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            if time.monotonic() > end:
                raise SystemExit(f"no server at {address}; start it with: python serve.py MODEL.gguf") from None
            time.sleep(1)


def main() -> None:
    """Reads the captions, asks the judge, prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checklist", type=Path, help="CAPEval's checklist.jsonl")
    parser.add_argument("captions", type=Path, help="JSON: image -> caption")
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--captions-limit", type=int, default=20, help="number of captions to score")
    parser.add_argument("--concurrency", type=int, default=1, help="questions at a time; llama.cpp answers one by one")
    options = parser.parse_args()
    wait_for_server(options.port)
    texts = dict(list(json.loads(options.captions.read_text("utf-8")).items())[: options.captions_limit])
    captions = capmeter.load(texts, on_missing="keep")
    metric = f'capeval(model=local,endpoint="http://127.0.0.1:{options.port}/v1",questions="{options.checklist}")'
    limits = capmeter.JudgeLimits(concurrency=options.concurrency, timeout=900, tries=2)
    start = time.monotonic()
    results = capmeter.score(captions, [metric], settings=capmeter.Settings(judging=limits))[metric]
    print(f"completeness {results.score:.3f}, {', '.join(f'{k} {v:.3f}' for k, v in results.parts.items())}")
    for reason, ids in results.notes.items():
        print(f"{reason}: {len(ids)} of {len(captions)} captions")
    print(f"{time.monotonic() - start:.0f} s; {results.signature}")


if __name__ == "__main__":
    main()
