"""Which metric tells an image's captions from those of a similar image, by language: the table of docs/languages.md.

    python benchmarks/languages.py multilingual_coco.jsonl.gz [--languages ar,ja,th] [--metrics ...]

The file has rows with `language`, `image_id` and `references`, English among the languages. Each reference
of an image and one of the most similar image are scored against the image's other references
(`capmeter meta -b reference-swap`); a metric is right where its own is higher, and half right where both are equal.
Intervals are 1,000 resamples of images; p is that of the difference to `sbert` with the English encoder, by 10,000
random exchanges of both metrics on an image.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.runner import evaluate
from capmeter.judgments.builders import find_other_images
from capmeter.judgments.layouts import JudgmentRow, read_records

METRICS = (
    "sbert(encoder=use-multilingual),sbert,bleu-1(tokenizer=pieces),cider-d(tokenizer=pieces),cider-d(tokenizer=char)"
)


def is_right(rows: list[JudgmentRow], others: list[JudgmentRow], metrics: str) -> dict[str, NDArray[np.float64]]:
    """For each metric and image how often its own caption scores higher; .5 counts where both are equal."""
    captions, images = [], []
    for image, (row, other) in enumerate(zip(rows, others, strict=True)):
        references = row.texts("references")
        for k, pair in enumerate(zip(references, other.texts("references"), strict=False)):
            if pair[1] not in references:
                images.append(image)
                captions += [
                    Caption(f"{image}/{k}/{side}", row.text("image_id"), text, references[:k] + references[k + 1 :])
                    for side, text in enumerate(pair)
                ]
    results = evaluate(CaptionSet.from_captions(captions), parse_list(metrics))
    right = {}
    for name, scores in results.items():
        of_pair = (1 + np.sign(-np.diff(scores.items.array.reshape(-1, 2), axis=1)[:, 0])) / 2
        right[name] = (np.bincount(images, of_pair) / np.maximum(np.bincount(images), 1))[np.bincount(images) > 0]
    return right


def interval(right: NDArray[np.float64], resamples: int = 1000) -> tuple[float, float]:
    """The 95 % interval of the mean."""
    generator = np.random.default_rng(0)
    means = [right[generator.integers(len(right), size=len(right))].mean() for _ in range(resamples)]
    low, high = np.quantile(means, [0.025, 0.975]).tolist()
    return low, high


def p_value(first: NDArray[np.float64], second: NDArray[np.float64], exchanges: int = 10_000) -> float:
    """The two-sided p-value of the difference of two means over the same images."""
    difference = first - second
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(exchanges, len(difference)))
    extreme = np.abs(signs @ difference) >= abs(difference.sum()) - 1e-9
    return float((extreme.sum() + 1) / (exchanges + 1))


def main() -> None:
    """Prints a line for each language and metric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--languages", default="ar,el,en,fr,ja,ko,th,zh")
    parser.add_argument("--metrics", default=METRICS)
    parser.add_argument("--images", choices=("similar", "random"), default="similar")
    options = parser.parse_args()
    rows = read_records(Path(options.file))
    others = find_other_images(rows, options.images, 0)
    for language in options.languages.split(","):
        chosen = [pair for pair in zip(rows, others, strict=True) if pair[0].text("language") == language]
        right = is_right([row for row, _ in chosen], [other for _, other in chosen], options.metrics)
        for name, values in right.items():
            low, high = interval(values)
            mean, count = 100 * values.mean(), len(values)
            line = f"{language} {name}: {mean:.1f} [{100 * low:.1f}, {100 * high:.1f}] of {count} images"
            if name != "sbert" and "sbert" in right:
                line += f", p {p_value(values, right['sbert']):.4f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
