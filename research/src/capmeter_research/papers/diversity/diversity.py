"""How much several captions of one image differ from each other: mBLEU, Div-n and Self-CIDEr.

With captions c₁ … c_m of an image:

    Div-n       |distinct n-grams of c₁ … c_m| / (words of c₁ … c_m + 10⁻⁶)               higher: more diverse
    mBLEU-n     mean over i of BLEU-n of the i-th captions against the other captions      lower: more diverse
    Self-CIDEr  −ln(√λ₁ / Σⱼ √λⱼ) / ln m,  λ₁ ≥ … ≥ λ_m the eigenvalues of K              higher: more diverse
                K_ij = CIDEr(c_i, c_j) / 10

Div-n and Self-CIDEr are means over images. mBLEU is corpus BLEU over all images; an image's own is the mean BLEU-2 of
its captions, as in the released program, since captions alone often have no common four words. Range 0 to 1 each: equal
captions have mBLEU 1 and Self-CIDEr 0, captions without a common n-gram mBLEU 0 and Self-CIDEr 1. Random words are the
most diverse, so report them beside a metric of agreement with references.

CIDEr weighs n-grams by how many images have them, among references if given, else among the captions. The kernel K is
not normalised: captions of fewer than four words have less than 1 on its diagonal. Its negative eigenvalues (of
`cider-d`, whose lower triangle counts) are taken as 0. What released programs do otherwise: research/docs/diversity.md.

>>> captions = {"1": ["a dog runs on grass", "a dog runs on grass"], "2": ["two cats sleep here", "a red car stops"]}
>>> report = measure_diversity(captions)
>>> [(name, round(value, 3)) for name, value in report.values.items() if name in ("div-1", "mbleu-1", "self-cider")]
[('div-1', 0.75), ('self-cider', 0.5), ('mbleu-1', 0.556)]

Vijayakumar et al.: Diverse Beam Search. AAAI 2018 (Div-n). Shetty, Rohrbach, Hendricks, Fritz, Schiele: Speaking the
Same Language. ICCV 2017 (mBLEU). Wang, Chan: Describing like Humans: On Diversity in Image Captioning. CVPR 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Floats, Metric
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import Evaluation, evaluate
from capmeter.text.tokenization.token_tables import tokenise_sentences

Groups = Mapping[str, Sequence[str]]
"""The captions of each image."""
_EPSILON = 1e-6


@dataclass(frozen=True, eq=False)
class DiversityReport:
    """The measures of all images, and of each image (in the order of `images`)."""

    images: tuple[str, ...]
    values: Mapping[str, float]
    by_image: Mapping[str, Floats]

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        by_measure = {name: values.tolist() for name, values in self.by_image.items()}
        return {"values": dict(self.values), "images": list(self.images), "by_image": by_measure}


def measure_diversity(
    captions: Groups, references: Groups | None = None, *, kernel: str | Metric = "cider"
) -> DiversityReport:
    """Div-1, Div-2, Self-CIDEr and mBLEU-1 to 4 of captions.

    Args:
        captions: of each image, the same number of each.
        references: of images, whose document frequencies Self-CIDEr takes.
        kernel: of Self-CIDEr: `cider` or `cider-d`.

    Raises:
        InputError: no images, fewer than two captions of one, or different numbers.
    """
    counts = {len(texts) for texts in captions.values()}
    if len(counts) != 1 or min(counts) < 2:
        raise InputError(
            "diversity needs the same number of captions of every image, two at least, but there are images with "
            f"{', '.join(map(str, sorted(counts))) or 'none'}; leave out captions, or images that have fewer"
        )
    by_image = {f"div-{n}": distinct_shares(captions, n) for n in (1, 2)}
    by_image["self-cider"] = self_cider(captions, references, kernel)
    means = {name: float(values.mean()) for name, values in by_image.items()}
    mutual_bleu, by_image["mbleu-2"] = _mutual_bleu(captions)
    return DiversityReport(tuple(captions), means | mutual_bleu, by_image)


def distinct_shares(captions: Groups, n: int) -> Floats:
    """Div-n of each image: distinct n-grams of all its captions, per word.

    Args:
        captions: of each image.
        n: words of an n-gram.
    """
    shares = []
    for texts in captions.values():
        token_rows = tokenise_sentences("ptb", texts)
        ngrams = {tuple(tokens[k : k + n]) for tokens in token_rows for k in range(len(tokens) - n + 1)}
        shares.append(len(ngrams) / (_EPSILON + sum(map(len, token_rows))))
    return np.array(shares)


def _mutual_bleu(captions: Groups) -> tuple[dict[str, float], Floats]:
    """mBLEU-1 to 4, and the mean BLEU-2 of each image's captions."""
    bleus = [parse(f"bleu-{n}") for n in (1, 2, 3, 4)]
    corpus_scores, caption_scores = [], []
    for index in range(len(next(iter(captions.values())))):
        others = CaptionSet.from_captions(
            Caption(image_id, image_id, texts[index], (*texts[:index], *texts[index + 1 :]))
            for image_id, texts in captions.items()
        )
        results = evaluate(others, bleus)
        corpus_scores.append([results[bleu].score for bleu in bleus])
        caption_scores.append(results[bleus[1]].items.array)
    means = np.mean(corpus_scores, axis=0)
    return {f"m{bleu}": float(mean) for bleu, mean in zip(bleus, means, strict=True)}, np.mean(caption_scores, axis=0)


def self_cider(captions: Groups, references: Groups | None = None, kernel: str | Metric = "cider") -> Floats:
    """Self-CIDEr of each image.

    Args:
        captions, references, kernel: as in `measure_diversity`.
    """
    metric = parse(kernel) if isinstance(kernel, str) else kernel
    documents = CaptionSet.from_captions(
        Caption(image, image, "", tuple(texts)) for image, texts in (references or captions).items()
    )
    pairs = CaptionSet.from_captions(
        Caption(f"{image}#{i}#{j}", image, texts[i], (texts[j],))
        for image, texts in captions.items()
        for i in range(len(texts))
        for j in range(len(texts))
    )
    evaluation = Evaluation((metric,), Settings()).with_collected_states(documents)
    size = len(next(iter(captions.values())))
    kernels = evaluation.run(pairs)[metric].items.array.reshape(-1, size, size) / 10
    return np.array([spectral_diversity(each) for each in kernels])


def spectral_diversity(kernel: Floats) -> float:
    """−ln(√λ₁ / Σⱼ √λⱼ) / ln m of a kernel (m, m), whose lower triangle counts; 0 of one without positive eigenvalues.

    >>> spectral_diversity(np.eye(3)), abs(spectral_diversity(np.ones((3, 3)))) < 1e-6
    (1.0, True)
    """
    roots = np.sqrt(np.clip(np.linalg.eigvalsh(kernel), 0, None))
    return float(-np.log(roots[-1] / roots.sum()) / np.log(len(kernel))) if roots[-1] > 0 else 0.0
