"""BERTScore here and in the bert-score package, TBR here and one row at a time, on the same captions and encoder.

    python benchmarks/embedding.py captions.jsonl.gz [--rows 5664] [--plain 200] [--threads 2] [--only bertscore,tbr]

The file holds capmeter's native rows. Each measurement is a process of its own, timed from its start to its end, so
that imports and the loading of the encoder count. Ratios are of clock seconds, and of processor seconds, which other
work on the machine moves less. The plain TBR encodes every sentence of every row by itself and compares piece by piece
in Python, as the released code does, on the first `--plain` rows; rates are per row.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

Row = tuple[str, list[str]]
BETA = 0.4


def read(path: str) -> list[Row]:
    data = Path(path).read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    rows = [json.loads(line) for line in text.splitlines()]
    return [(row["candidate"], row["references"]) for row in rows if not row.get("candidate_in_references")]


def ours(metric: str, rows: list[Row]) -> list[float]:
    import capmeter

    results = capmeter.score(candidates=[c for c, _ in rows], references=[r for _, r in rows], metrics=metric)
    return results[metric].items.array.tolist()


def package(rows: list[Row]) -> list[float]:
    """The bert-score package with its default batches."""
    import bert_score

    from capmeter.encoders import find_encoder

    folder = str(find_encoder("minilm").folder)
    f1 = bert_score.score(
        [c for c, _ in rows], [r for _, r in rows], model_type=folder, num_layers=6, nthreads=1, device="cpu"
    )[2]
    return f1.tolist()


def plain_tbr(rows: list[Row]) -> list[float]:
    """The released formula, a row and a sentence at a time."""
    import torch
    from capmeter_research.papers.tbr.tbr_stop_words import TBR_STOP_WORDS
    from transformers import AutoModel, AutoTokenizer

    from capmeter.encoders import find_encoder

    folder = str(find_encoder("minilm").folder)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    documents: dict[str, int] = {}
    number = 0
    for candidate, references in rows:
        for sentence in (candidate, *references):
            number += 1
            for piece in set(tokenizer.tokenize(sentence)):
                documents[piece] = documents.get(piece, 0) + 1
    idf = {piece: math.log((number + 1) / (count + 1)) for piece, count in documents.items()}

    def encode(sentence: str) -> tuple[list[str], list[torch.Tensor]]:
        with torch.no_grad():
            states = model(**tokenizer(sentence, return_tensors="pt")).last_hidden_state[0]
        return tokenizer.tokenize(sentence), [state / state.norm() for state in states]

    def best(vector: torch.Tensor, others: list[torch.Tensor]) -> float:
        return max((float(vector @ other) for other in others), default=0.0)

    scores = []
    for candidate, references in rows:
        message, said_states = encode(candidate)
        encoded = [encode(reference) for reference in references]
        total = 0.0
        for base, (base_words, base_states) in enumerate(encoded):
            words, states = list(base_words), list(base_states)
            for other, (other_words, other_states) in enumerate(encoded):
                for k, word in enumerate(other_words):
                    against = [base, *(each for each in range(other) if each != base)]
                    if other != base and all(
                        best(other_states[k + 1], encoded[each][1][1:-1]) <= BETA for each in against
                    ):
                        words.append(word)
                        states.append(other_states[k])
            weighted = weight = removed = remaining = 0.0
            for word, state in zip(words, states[1:-1] if len(states) > 2 else [], strict=False):
                match = best(state, said_states[1:-1])
                if match > BETA:
                    weighted, weight = weighted + idf[word] * match, weight + idf[word]
                if word not in TBR_STOP_WORDS:
                    content = [
                        s for s, piece in zip(said_states[1:-1], message, strict=True) if piece not in TBR_STOP_WORDS
                    ]
                    match = best(state, content)
                    if match > BETA:
                        removed, remaining = removed + match, remaining + 1
            total += (weighted / weight if weight else 0.0) * (removed / remaining if remaining else 0.0)
        scores.append(total / len(encoded))
    return scores


WORK = {
    "bertscore": lambda rows: ours("bertscore", rows),
    "package": package,
    "tbr": lambda rows: ours("tbr(as_released=true)", rows),
    "plain": plain_tbr,
    "wmd": lambda rows: ours("wmd", rows),
}


def child(work: str, path: str) -> None:
    rows = json.loads(Path(path).read_text())
    begin = time.process_time()
    scores = WORK[work](rows)
    seconds = time.process_time() - begin
    Path(f"{path}.{work}").write_text(json.dumps([seconds, scores]))


@dataclass(frozen=True)
class Run:
    """Clock and processor seconds of a whole process, processor seconds of its scoring (with loading), its scores."""

    clock: float
    processor: float
    scoring: float
    scores: list[float]

    def __str__(self) -> str:
        return f"{self.processor:.1f} s of processor, {self.clock:.1f} s of clock"


def process(work: str, rows: list[Row], threads: int) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        path.write_text(json.dumps(rows))
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
        code = f"import runpy; runpy.run_path({__file__!r})['child']({work!r}, {str(path)!r})"
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=environment, capture_output=True)
        clock, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        scoring, scores = json.loads(Path(f"{path}.{work}").read_text())
    return Run(clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, scoring, scores)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("captions")
    options.add_argument("--rows", type=int, default=5664)
    options.add_argument("--plain", type=int, default=200, help="rows for the plain TBR")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--only", default="bertscore,tbr,wmd")
    selection = options.parse_args()
    only = selection.only.split(",")
    rows = read(selection.captions)[: selection.rows]
    pairs = sum(len(references) for _, references in rows)
    print(
        f"{len(rows)} rows, {pairs} pairs, {len({s for c, r in rows for s in (c, *r)})} distinct sentences", flush=True
    )
    for metric, peer, number in (("bertscore", "package", len(rows)), ("tbr", "plain", selection.plain)):
        if metric in only:
            mine = process(metric, rows, selection.threads)
            print(f"{metric}, {len(rows)} rows: {mine}", flush=True)
            theirs = process(peer, rows[:number], selection.threads)
            share = len(rows) / number
            clock, processor = share * theirs.clock / mine.clock, share * theirs.processor / mine.processor
            print(f"{peer}, {number} rows: {theirs}", flush=True)
            print(f"{clock:.1f} times {metric}'s clock a row, {processor:.1f} times its processor", flush=True)
            if peer == "plain":  # idf is of the rows at hand
                again = process(metric, rows[:number], selection.threads)
                worst = max(abs(a - b) for a, b in zip(again.scores, theirs.scores, strict=True))
                print(f"largest difference of a score: {worst:.1e}", flush=True)
    if "wmd" in only:
        process("wmd", rows[:10], selection.threads)  # distils the word vectors, once
        empty = process("wmd", rows[:10], selection.threads)
        seconds = process("wmd", rows, selection.threads).scoring - empty.scoring
        print(f"wmd: {pairs / seconds:,.0f} pairs a second of processor ({seconds:.1f} s)")


if __name__ == "__main__":
    main()
