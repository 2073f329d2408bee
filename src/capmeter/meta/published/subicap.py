"""Tables A.1 to A.3 of Sharif 2019, by segmentation: SubICap on COCO, Karpathy's test split."""

from __future__ import annotations

SOURCE = "Sharif 2019, appendix A"
# vocabulary: most tokens of a caption (Table A.1; the last two rows are Table A.2's)
LENGTHS = {
    ("word", 9486): 16,
    ("unigram", 3078): 19,
    ("unigram", 2079): 21,
    ("unigram", 1085): 24,
    ("unigram", 579): 31,
    ("unigram", 335): 38,
    ("bpe", 1076): 25,
    ("char", 95): 82,
}
_METRICS = ("bleu-1", "bleu-2", "bleu-3", "bleu-4", "meteor", "rouge-l", "cider-d", "spice")
# segmentation: entries, most tokens, millions of parameters, % of distinct captions (Table A.2)
SIZES = {
    "word": (9486, 16, 54.9, 69.0),
    "char": (95, 82, 45.3, 75.3),
    "bpe": (1076, 25, 46.3, 74.0),
    "unigram": (1085, 24, 46.3, 74.8),
}
# segmentation: scores x 100 by metric (Table A.3; its C is the CIDEr-D of coco-caption)
SCORES = {
    name: dict(zip(_METRICS, values, strict=True))
    for name, values in {
        "word": (75.2, 58.8, 44.6, 33.7, 27.5, 55.5, 111.0, 21.0),
        "char": (75.4, 59.2, 45.5, 34.8, 29.2, 55.7, 113.0, 21.0),
        "bpe": (75.8, 59.7, 46.1, 35.5, 29.7, 56.6, 114.4, 21.1),
        "unigram": (76.7, 60.8, 47.1, 36.2, 29.7, 56.9, 116.1, 21.2),
    }.items()
}
