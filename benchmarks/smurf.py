"""capmeter beside the procedure that SMURF's authors released, on the same captions: SPARCS, MIMA and SPURTS.

    python benchmarks/smurf.py sparcs [--data FILE] [--images 5000] [--peer-images 1000]
    python benchmarks/smurf.py flow   [--data FILE] [--captions 5000] [--peer-captions 500]

The peer is a plain rewriting of the released procedure (github.com/JoshuaFeinglass/SMURF), caption by caption, with
NLTK's tokenizer and stemmer (without its sentence splitter, which needs a download: the released code is slower still)
and, for MIMA and SPURTS, batches of 64 padded captions with all maps kept until their batch is done. The authors' own
code took 47 s for the 20,000 captions of `sparcs` and 2.6 s and 2.5 s for 500 captions of `flow` on one core of one
machine; another machine gives other seconds, so the ratio is what counts. Both sides run in one process on one thread;
processor seconds are compared, as other processes do not count there. It stops if any two scores differ.

FILE has one JSON row per image: {"references": [...], "captions": {system: caption}}. One human caption of each image
is scored as a system of its own and left out of the references.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import string
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from capmeter_research.papers.smurf.mima import Mima, Spurts
from capmeter_research.papers.smurf.sparcs import Sparcs

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.encoders import find_encoder, load_encoder
from capmeter.evaluation.base import RunContext
from capmeter.text.concepts import STOP_WORDS

DATA = Path(os.environ.get("CAPMETER_SHARED", "../shared")) / "data" / "coco_karpathy_test_captions.jsonl.gz"
SYSTEMS = ("smurf_human", "m2_transformer", "smurf_system_3", "smurf_system_4")
STOP = sorted(STOP_WORDS)  # a list, as released
Rows = list[tuple[str, list[str]]]


def read(path: Path, images: int) -> Rows:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for _, line in zip(range(images), lines, strict=False)]
    outcome = []
    for row in rows:
        references = list(row["references"])
        if row["captions"][SYSTEMS[0]] in references:
            references.remove(row["captions"][SYSTEMS[0]])
        outcome += [(row["captions"][system], references) for system in SYSTEMS]
    return outcome


def timed(run: Callable[[], Any]) -> tuple[Any, float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    result = run()
    return result, time.process_time() - processor, time.perf_counter() - wall


def plain(text: str) -> str:
    return " ".join(text.lower().rstrip().replace(" .", "").replace(".", "").split(" "))


# the released procedure


class PlainSparcs:
    def __init__(self) -> None:
        from nltk.stem.porter import PorterStemmer
        from nltk.tokenize.destructive import NLTKWordTokenizer

        self.tokenizer, self.stemmer = NLTKWordTokenizer(), PorterStemmer()

    def concepts(self, text: str) -> list[str]:
        tokens = self.tokenizer.tokenize(text)
        remaining = [each for each in tokens if each not in STOP and not set(string.punctuation) & set(each)]
        return [self.stemmer.stem(each) for each in remaining]

    def score(self, candidate: str, references: list[str]) -> float:
        sentences = [self.concepts(each) for each in references]
        every = set().union(*sentences)
        typicality = {each: sum(each in sentence for sentence in sentences) / len(sentences) for each in every}
        for each in references:  # the released code analyses every reference a second time
            dict.fromkeys(self.concepts(each))
        weights = {each: typicality.get(each, 1) for each in self.concepts(candidate)}
        matched = sum(weight for each, weight in weights.items() if each in every)
        if not matched:
            return 0.0
        precision, recall = matched / sum(weights.values()), matched / sum(typicality.values())
        return 2 * precision * recall / (precision + recall)


def plain_flow(texts: list[str], content_only: bool) -> list[float]:
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = str(find_encoder("minilm").folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    begin, end, pad = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
    tokens = []
    for text in texts:
        pieces = tokenizer.tokenize(text)
        if content_only:
            remaining = [each for each in pieces if each not in string.punctuation]
            pieces = [tokenizer.pad_token if each in STOP else each for each in remaining]
        tokens.append(pieces)
    order = sorted(range(len(texts)), key=lambda k: len(tokens[k]), reverse=True)
    scores: dict[int, float] = {}
    for start in range(0, len(order), 64):
        batch = order[start : start + 64]
        rows = [[begin, *tokenizer.convert_tokens_to_ids(tokens[k]), end] for k in batch]
        longest = max(len(row) for row in rows)
        ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
        with torch.no_grad():
            maps = torch.stack(model(ids, attention_mask=(ids != pad).long(), output_attentions=True).attentions)
        for k, row, number in zip(batch, rows, range(len(rows)), strict=True):
            joint = maps[:, number, :, : len(row), : len(row)]
            joint = joint / joint.sum(dim=(-2, -1), keepdim=True)
            x, y, xy = (_entropy(each) for each in (joint.sum(-1), joint.sum(-2), joint.flatten(-2)))
            flow = 2 * (x + y - xy) / (x + y)
            scores[k] = float(torch.quantile(flow.max(dim=-1).values, 0.5))
    return [scores[k] for k in range(len(texts))]


def _entropy(masses: Any) -> Any:
    logs = masses.log2()
    logs[logs.isinf()] = 0
    return -(masses * logs).sum(-1)


# the two benchmarks


def sparcs(data: Path, images: int, peer_images: int) -> None:
    rows = read(data, images)
    captions = CaptionSet.from_captions(Caption(str(k), str(k), one, tuple(many)) for k, (one, many) in enumerate(rows))
    ours, processor, wall = timed(lambda: Sparcs().measure(captions, RunContext()).values[:, 0])
    peer = PlainSparcs()
    few = rows[: peer_images * len(SYSTEMS)]
    theirs, peer_processor, peer_wall = timed(
        lambda: [peer.score(plain(one), [plain(each) for each in many]) for one, many in few]
    )
    separate = np.abs(ours[: len(few)] - theirs)
    different = int((separate > 1e-9).sum())
    report("SPARCS", len(rows), processor, wall, len(few), peer_processor, peer_wall)
    print(f"{different} of {len(few):,} scores differ (NLTK after 3.5 splits opening single quotes)")
    if different > len(few) / 500:
        sys.exit("the scores differ")


def flow(data: Path, captions: int, peer_captions: int) -> None:
    texts = [row[0] for row in read(data, captions)[:: len(SYSTEMS)]]
    load_encoder(find_encoder("minilm"))
    output = CaptionSet.from_captions(Caption(str(k), str(k), text) for k, text in enumerate(texts))
    few = [plain(text) for text in texts[:peer_captions]]
    whole_processor = whole_wall = 0.0
    for name, metric, content_only in (
        ("MIMA", Mima(encoder="minilm"), False),
        ("SPURTS", Spurts(encoder="minilm"), True),
    ):
        ours, processor, wall = timed(lambda metric=metric: metric.measure(output, RunContext()).values[:, 0])
        theirs, peer_processor, peer_wall = timed(lambda content_only=content_only: plain_flow(few, content_only))
        theirs = np.array(theirs) if content_only else 1 - np.array(theirs)
        separate = float(np.abs(ours[: len(few)] - theirs).max())
        report(name, len(texts), processor, wall, len(few), peer_processor, peer_wall)
        print(f"largest difference: {separate:.1e}")
        if separate > 1e-5:
            sys.exit("the scores differ")
        whole_processor, whole_wall = whole_processor + processor, whole_wall + wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"MIMA and SPURTS of {len(texts):,} captions: {whole_processor:.1f} s processor, {whole_wall:.1f} s wall")
    print(f"peak memory of the process, peer included: {peak:,.0f} MiB")


def report(
    name: str, captions: int, processor: float, wall: float, peer_captions: int, peer_processor: float, peer_wall: float
) -> None:
    ratio = peer_processor / peer_captions * captions / processor
    print(f"{name:7} capmeter {captions:6,} captions: {processor:7.2f} s processor ({wall:.2f} s wall)")
    print(f"{name:7} peer     {peer_captions:6,} captions: {peer_processor:7.2f} s processor ({peer_wall:.2f} s wall)")
    print(f"{name:7} the peer takes {ratio:.1f} times as long per caption")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    for name, sizes in (("sparcs", ("images", 5000, 1000)), ("flow", ("captions", 5000, 500))):
        command = commands.add_parser(name)
        command.add_argument("--data", type=Path, default=DATA)
        command.add_argument(f"--{sizes[0]}", type=int, default=sizes[1])
        command.add_argument(f"--peer-{sizes[0]}", type=int, default=sizes[2])
    arguments = parser.parse_args()
    if arguments.command == "sparcs":
        sparcs(arguments.data, arguments.images, arguments.peer_images)
    else:
        flow(arguments.data, arguments.captions, arguments.peer_captions)


if __name__ == "__main__":
    main()
