"""Values of chapter 7 and appendix B of Sharif et al. 2019 (LCEval), table by table: row → column → value.

They stand beside ours in `capmeter study lceval`. Correlations are fractions, accuracies per cent, as printed there.
"""

from __future__ import annotations

from collections.abc import Mapping

SOURCE = "Sharif et al. 2019"
COEFFICIENTS = ("pearson", "spearman", "kendall")
PASCAL = ("HC", "HI", "HM", "MM", "mean")
ABSTRACT = ("HC", "HI", "mean")
TASKS = ("replace-person", "replace-scene", "share-person", "share-scene", "just-person", "just-scene", "mean")
LANGUAGES = ("cs-en", "de-en", "fi-en", "ro-en", "ru-en", "tr-en", "mean")

Table = Mapping[str, Mapping[str, float]]


def _rows(columns: tuple[str, ...], text: str) -> dict[str, dict[str, float]]:
    """The rows of a table written as lines of a name and its numbers."""
    found = {}
    for line in text.strip().splitlines():
        name, *numbers = line.split()
        found[name] = dict(zip(columns, map(float, numbers), strict=True))
    return found


ARCHITECTURES: Table = _rows(  # Table 7.2; columns: layers of weights
    ("none", "1", "2", "3"),
    """
    spider .357 .362 .367 .365
    lceval .273 .375 .418 .417
    """,
)
EMBEDDINGS: Table = _rows(  # Table 7.3
    COEFFICIENTS,
    """
    glove .553 .530 .414
    word2vec .558 .537 .417
    fasttext .562 .543 .418
    """,
)
MAIN: Table = _rows(  # Table 7.4
    COEFFICIENTS,
    """
    bleu-1 .170 .251 .191
    bleu-4 .290 .281 .213
    rouge-l .381 .376 .279
    meteor .411 .447 .341
    cider-d .391 .450 .342
    spice .440 .453 .349
    spider .415 .468 .357
    wmd .405 .431 .328
    nneval .528 .513 .396
    lceval .562 .543 .418
    """,
)
GROUPS: Table = _rows(  # Tables 7.5 and B.2; "without" a group is the network of the other two
    COEFFICIENTS,
    """
    lceval .562 .543 .418
    lceval-syn-lex .528 .512 .387
    lceval-sem-syn .499 .482 .366
    lceval-sem-lex .551 .529 .413
    lceval-semantic .502 .483 .372
    lceval-lexical .524 .508 .409
    lceval-syntactic .396 .392 .298
    """,
)
HWCM: Table = {str(n): {"dep": tau} for n, tau in enumerate((0.292, 0.297, 0.293, 0.291), 1)}  # Table 7.6
PASCAL_PAIRS: Table = _rows(  # Table 7.7
    PASCAL,
    """
    bleu-1 53.5 95.6 91.1 57.3 74.4
    bleu-4 53.7 93.2 85.6 61.0 73.4
    rouge-l 56.5 95.3 93.4 58.5 75.9
    meteor 61.1 97.6 94.6 62.0 78.8
    cider-d 57.8 98.0 88.8 68.2 78.2
    spice 58.0 96.7 88.4 71.6 78.7
    spider 56.7 99.0 91.0 69.1 78.8
    wmd 56.2 98.4 91.7 71.5 79.5
    lceval-semantic 59.7 98.7 91.6 72.4 80.6
    lceval-syntactic 58.6 95.5 91.1 60.6 76.4
    lceval-lexical 62.8 96.1 82.4 60.1 75.3
    lceval-sem-syn 57.1 99.2 91.2 68.4 79.0
    lceval-sem-lex 62.7 97.8 90.1 63.8 78.6
    lceval-syn-lex 63.4 97.5 92.4 62.2 78.9
    nneval 60.4 99.0 92.1 70.4 80.5
    lceval 64.0 97.6 90.1 65.4 79.3
    """,
)
ABSTRACT_PAIRS: Table = _rows(  # Table 7.8
    ABSTRACT,
    """
    bleu-1 49.0 88.5 68.8
    bleu-4 51.5 81.0 66.3
    rouge-l 52.0 82.0 67.0
    meteor 48.5 46.5 47.5
    cider-d 50.5 78.5 64.5
    spice 56.0 86.5 71.3
    spider 58.0 91.5 74.8
    wmd 50.0 93.5 71.8
    lceval-semantic 53.0 94.0 73.5
    lceval-syntactic 64.5 88.5 76.5
    lceval-lexical 55.5 86.5 71.0
    lceval-sem-syn 52.5 93.5 73.0
    lceval-sem-lex 57.5 91.0 74.3
    lceval-syn-lex 57.5 86.0 71.8
    nneval 55.0 86.0 70.4
    lceval 58.3 94.0 76.1
    """,
)
DISTRACTIONS: Table = _rows(  # Table 7.9
    TASKS,
    """
    bleu-1 84.9 78.1 87.5 88.2 87.5 98.4 87.4
    bleu-4 85.9 75.2 83.5 82.4 54.9 67.7 72.1
    rouge-l 83.3 71.1 86.8 86.8 83.4 94.1 84.1
    meteor 83.7 75.1 92.4 91.4 91.9 98.4 89.3
    cider-d 89.9 95.0 94.1 93.1 73.3 81.5 85.7
    spice 84.0 76.0 88.5 88.8 78.1 92.0 83.6
    spider 89.7 95.0 94.7 93.6 76.6 86.1 89.3
    wmd 87.6 87.8 94.3 92.5 86.3 96.9 90.9
    lceval-semantic 86.3 78.5 95.1 92.9 84.8 97.3 89.2
    lceval-syntactic 61.2 48.2 87.1 84.8 79.1 88.8 74.9
    lceval-lexical 60.1 80.1 88.2 86.3 94.8 98.7 84.7
    lceval-sem-syn 89.2 88.5 95.4 93.3 83.2 93.0 90.4
    lceval-sem-lex 80.7 85.6 93.0 91.1 94.3 98.6 90.7
    lceval-syn-lex 76.0 82.4 90.9 89.3 90.4 94.8 87.3
    nneval 90.2 91.8 95.1 94.0 85.8 94.7 91.9
    lceval 81.2 85.9 92.7 91.4 92.1 97.8 90.2
    """,
)
MACHINES: Table = {  # Tables 7.10 and 7.11
    "adaptive attention": {"kendall": 0.403, "HC": 60.1, "HM": 89.7, "MM": 67.7, "mean": 78.9},
    "show, attend and tell": {"kendall": 0.417, "HC": 58.7, "HM": 85.2, "MM": 69.7, "mean": 77.8},
    "show and tell": {"kendall": 0.421, "HC": 61.6, "HM": 86.7, "MM": 69.7, "mean": 79.0},
    "lceval": {"kendall": 0.418, "HC": 64.0, "HM": 90.1, "MM": 65.4, "mean": 79.3},
}
TIMING: Table = {  # Table 7.12
    name: {"seconds": seconds}
    for name, seconds in {
        "meteor": 7.92,
        "spice": 95.60,
        "bleu-4": 0.32,
        "rouge-l": 0.16,
        "cider-d": 15.73,
        "wmd": 3.23,
        "mowe": 45.50,
        "hwcm": 60.30,
        "nneval": 123.36,
        "lceval": 229.20,
    }.items()
}
WMT16: Table = _rows(  # Table B.1
    LANGUAGES,
    """
    bleu-1 .418 .299 .295 .328 .329 .358 .338
    bleu-4 .354 .238 .238 .290 .268 .276 .277
    rouge-l .471 .354 .340 .354 .357 .368 .374
    meteor .479 .340 .378 .417 .406 .424 .408
    cider-d .398 .266 .293 .330 .316 .360 .327
    spice .312 .219 .222 .268 .263 .293 .263
    wmd .375 .270 .286 .312 .310 .324 .313
    spider .403 .283 .287 .338 .338 .363 .336
    lceval-semantic .371 .272 .281 .310 .327 .353 .320
    lceval-syntactic .411 .315 .330 .370 .309 .315 .340
    lceval-lexical .437 .288 .339 .383 .368 .385 .370
    lceval-sem-syn .356 .258 .265 .294 .312 .341 .300
    lceval-sem-lex .412 .285 .311 .361 .363 .374 .350
    lceval-syn-lex .432 .288 .339 .395 .361 .368 .360
    lceval .419 .294 .318 .364 .363 .377 .356
    """,
)
SYSTEMS: Table = _rows(  # Table 7.13, Pearson's r with M1 to M5
    ("M1", "M2", "M3", "M4", "M5"),
    """
    bleu-1 .12 .14 .55 -.52 .24
    bleu-4 -.02 -.01 .46 -.58 .14
    rouge-l .09 .10 .53 -.53 .21
    meteor .61 .59 .81 .09 .69
    cider-d .47 .50 .86 -.15 .53
    spice .76 .75 .79 .16 .74
    wmd .68 .71 .89 -.28 .72
    nneval .69 .69 .84 -.22 .69
    lceval .86 .82 .70 .18 .78
    """,
)
