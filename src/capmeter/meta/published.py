"""Published values of metrics on benchmarks, in hundredths, with their source: printed beside ours, never instead.

Only values of one known protocol stand here; a value whose protocol is another, or unknown, is worse than none.
"""

from __future__ import annotations

from dataclasses import dataclass

CS = "Hessel et al. 2021"
PS = "Sarto et al. 2023"
IM = "Hu et al. 2023"
FL = "Lee et al. 2024"
PO = "Wada et al. 2024"
EX = "Kim et al. 2025"
DN = "Zhou et al. 2023"
UM = "Lee et al. 2021"
LC = "Sharif et al. 2019"
CU = "Cui et al. 2018"
YI = "Yi et al. 2020"
NA = "Feinglass and Yang 2021"


@dataclass(frozen=True)
class Published:
    """A published value and who published it."""

    value: float
    source: str


# (benchmark, protocol): source → {metric: value}
_TABLES: dict[tuple[str, str], dict[str, dict[str, float]]] = {
    ("flickr8k-expert", "clipscore2021"): {
        CS: {
            "bleu-1": 32.3,
            "bleu-4": 30.8,
            "rouge-l": 32.3,
            "meteor": 41.8,
            "cider-d": 43.9,
            "spice": 44.9,
            "bertscore": 39.2,
            "tbr": 46.7,
            "clipscore": 51.2,
            "refclipscore": 53.0,
        },
        IM: {"umic": 46.8},
        PS: {"pac-s": 54.3, "refpac-s": 55.9},
        PO: {"polos": 56.4},
        FL: {"fleur": 53.0},
        EX: {"expert": 56.7},
    },
    ("flickr8k-expert", "cui2018"): {CU: {"leic": 46.6, "spice": 45.6}},
    ("flickr8k-cf", "clipscore2021"): {
        CS: {
            "bleu-1": 17.9,
            "bleu-4": 16.9,
            "rouge-l": 19.9,
            "meteor": 22.2,
            "cider-d": 24.6,
            "spice": 24.4,
            "bertscore": 22.8,
            "clipscore": 34.4,
            "refclipscore": 36.4,
        },
        IM: {"umic": 30.1},
        PS: {"pac-s": 36.0, "refpac-s": 37.6},
        PO: {"polos": 37.8},
        FL: {"fleur": 38.6},
        EX: {"expert": 39.3},
    },
    ("flickr8k-cf", "cui2018"): {
        CU: {
            "bleu-1": 20.6,
            "bleu-2": 21.2,
            "bleu-3": 20.4,
            "bleu-4": 20.2,
            "meteor": 24.2,
            "rouge-l": 21.7,
            "cider-d": 26.4,
            "spice": 25.2,
            "leic": 29.5,
        }
    },
    ("composite", "clipscore2021"): {
        CS: {
            "bleu-1": 31.3,
            "bleu-4": 30.6,
            "rouge-l": 32.4,
            "meteor": 38.9,
            "cider-d": 37.7,
            "spice": 40.3,
            "bertscore": 30.1,
            "tbr": 44.9,
            "clipscore": 53.8,
            "refclipscore": 55.4,
        },
        IM: {"umic": 56.1},
        PS: {"pac-s": 55.7, "refpac-s": 57.3},
        PO: {"polos": 57.6},
        FL: {"fleur": 63.5},
        EX: {"expert": 65.0},
    },
    ("composite", "with-references"): {
        CS: {"bleu-1": 49.0, "bleu-4": 50.0, "rouge-l": 49.0, "meteor": 50.0, "cider-d": 52.0, "spice": 53.0}
    },
    ("pascal50s", "pascal-consensus"): {
        CS: {
            "bleu-4": 72.6,
            "rouge-l": 78.1,
            "meteor": 80.1,
            "cider-d": 79.6,
            "spice": 78.7,
            "bertscore": 79.1,
            "tbr": 80.1,
            "clipscore": 80.7,
            "refclipscore": 83.1,
        },
        IM: {"umic": 85.1},
        PS: {"refpac-s": 84.7},
        FL: {"fleur": 83.2},
    },
    ("pascal50s", "pascal-direct"): {CS + ", v1": {"clipscore": 83.7, "refclipscore": 83.6}},
    ("capeval1k", "umic"): {
        UM: {
            "bleu-1": 23.3,
            "bleu-4": 23.8,
            "rouge-l": 22.0,
            "meteor": 28.8,
            "cider-d": 30.7,
            "spice": 27.9,
            "bertscore": 27.3,
            "tbr": 25.7,
            "umic": 32.8,
        }
    },
    ("flickr8k-expert", "umic"): {
        UM: {
            "bleu-1": 27.4,
            "bleu-4": 28.6,
            "rouge-l": 30.0,
            "meteor": 40.3,
            "cider-d": 41.9,
            "spice": 45.7,
            "bertscore": 39.6,
            "tbr": 46.7,
            "umic": 46.8,
        }
    },
    ("composite", "umic"): {
        UM: {
            "bleu-1": 40.6,
            "bleu-4": 43.9,
            "rouge-l": 41.7,
            "meteor": 46.6,
            "cider-d": 47.3,
            "spice": 48.6,
            "bertscore": 45.6,
            "tbr": 43.9,
            "umic": 56.1,
        }
    },
    ("pascal50s", "umic"): {
        UM: {
            "bleu-1": 74.3,
            "bleu-4": 73.4,
            "rouge-l": 74.9,
            "meteor": 78.5,
            "cider-d": 76.1,
            "spice": 73.6,
            "bertscore": 79.5,
            "tbr": 80.1,
            "umic": 85.1,
        }
    },
    ("thumb1", "machines"): {
        IM: {"bleu-4": 25, "rouge-l": 31, "cider-d": 33, "spice": 30, "bertscore": 33, "refclipscore": 44}
    },
    ("thumb1", "all"): {
        IM: {"bleu-4": 13, "rouge-l": 18, "cider-d": 23, "spice": 21, "bertscore": 21, "refclipscore": 41}
    },
    ("thumb1", "zhou2023"): {
        DN: {"bleu-1": 11.1, "bleu-4": 6.9, "cider-d": 13.8, "clipscore": 19.9, "refclipscore": 24.7}
    },
    ("nebula-test", "polos2024"): {
        EX: {
            "bleu-4": 44.1,
            "rouge-l": 43.4,
            "meteor": 47.6,
            "cider-d": 48.8,
            "spice": 47.4,
            "smurf": 50,
            "clipscore": 47.9,
            "pac-s": 48.3,
            "refpac-s": 50.6,
            "polos": 55.0,
            "expert": 54.9,
        }
    },
    ("polaris", "polos2024"): {
        PO: {
            "bleu-4": 46.3,
            "rouge-l": 46.3,
            "meteor": 51.2,
            "cider-d": 52.1,
            "spice": 51.0,
            "smurf": 43.3,
            "umic": 49.8,
            "clipscore": 52.3,
            "pac-s": 52.5,
            "refpac-s": 56.0,
            "polos": 57.8,
        },
        EX: {"expert": 61.1},
    },
    ("foil-coco", "one-reference"): {
        CS: {
            "bleu-4": 66.5,
            "rouge-l": 71.7,
            "meteor": 78.8,
            "cider-d": 82.5,
            "spice": 75.5,
            "bertscore": 88.6,
            "clipscore": 87.2,
            "refclipscore": 91.0,
        }
    },
    ("foil-coco", "four-references"): {
        CS: {
            "bleu-4": 82.6,
            "rouge-l": 79.3,
            "meteor": 85.4,
            "cider-d": 90.6,
            "spice": 86.1,
            "bertscore": 92.1,
            "clipscore": 87.2,
            "refclipscore": 92.6,
        },
        FL: {"fleur": 96.8},
    },
    ("distractions", "lceval"): {
        LC: {
            "bleu-1": 87.4,
            "bleu-4": 72.1,
            "rouge-l": 84.1,
            "meteor": 89.3,
            "cider-d": 85.7,
            "spice": 83.6,
            "spider": 89.3,
            "wmd": 90.9,
            "nneval": 91.9,
            "lceval": 90.2,
        }
    },
    ("coco2015", "cui2018"): {
        CU: {
            "bleu-1": 12.4,
            "bleu-2": 3.7,
            "bleu-3": 0.4,
            "bleu-4": -1.9,
            "meteor": 60.6,
            "rouge-l": 9.0,
            "cider-d": 43.8,
            "spice": 75.9,
            "leic": 93.9,
        },
        YI: {"bertscore": 80.7, "tbr-unigram": 80.9, "tbr": 87.5},
    },
    ("coco2015", "cui2018-m2"): {
        CU: {
            "bleu-1": 13.5,
            "bleu-2": 4.8,
            "bleu-3": 1.6,
            "bleu-4": -0.5,
            "meteor": 59.4,
            "rouge-l": 9.6,
            "cider-d": 44.0,
            "spice": 75.0,
            "leic": 94.9,
        },
        YI: {"bertscore": 73.5, "tbr-unigram": 71.4, "tbr": 79.7},
    },
    ("wmt16", "lceval"): {
        LC: {
            "bleu-1": 33.8,
            "bleu-4": 27.7,
            "rouge-l": 37.4,
            "meteor": 40.8,
            "cider-d": 32.7,
            "spice": 26.3,
            "wmd": 31.3,
            "spider": 33.6,
            "lceval": 35.6,
        }
    },
    ("conll14", "napoles2016"): {NA: {"m2": 64.8, "mima": 85.2}},
    ("conll14", "napoles2016-pearson"): {NA: {"m2": 64.1, "mima": 91.3}},
}


def published(benchmark: str, protocol: str, metric: str) -> Published | None:
    """The published value of a metric (its text form, at its defaults) on a benchmark under an unchanged protocol."""
    for source, values in _TABLES.get((benchmark, protocol), {}).items():
        if metric in values:
            return Published(float(values[metric]), source)
    return None
