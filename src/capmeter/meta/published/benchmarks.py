"""Values from papers that judge many metrics on the benchmarks of captions."""

from __future__ import annotations

from capmeter.meta.published.table import Tables

CS = "Hessel et al. 2021"
PS = "Sarto et al. 2023"
IM = "Hu et al. 2023"
FL = "Lee et al. 2024"
PO = "Wada et al. 2024"
EX = "Kim et al. 2025"
DN = "Zhou et al. 2023"

TABLES: Tables = {
    ("flickr8k-expert", "clipscore2021"): {
        CS: {
            "bleu-1": 32.3,
            "bleu-4": 30.8,
            "rouge-l": 32.3,
            "meteor": 41.8,
            "cider-d": 43.9,
            "spice": 44.9,
            "bertscore@roberta": 39.2,
            "tbr@bert": 46.7,
            "clipscore": 51.2,
            "refclipscore": 53.0,
        },
        IM: {"umic": 46.8},
        PS: {"pac-s": 54.3, "refpac-s": 55.9},
        PO: {"polos": 56.4},
        FL: {"fleur": 53.0},
        EX: {"expert": 56.7},
    },
    ("flickr8k-cf", "clipscore2021"): {
        CS: {
            "bleu-1": 17.9,
            "bleu-4": 16.9,
            "rouge-l": 19.9,
            "meteor": 22.2,
            "cider-d": 24.6,
            "spice": 24.4,
            "bertscore@roberta": 22.8,
            "clipscore": 34.4,
            "refclipscore": 36.4,
        },
        IM: {"umic": 30.1},
        PS: {"pac-s": 36.0, "refpac-s": 37.6},
        PO: {"polos": 37.8},
        FL: {"fleur": 38.6},
        EX: {"expert": 39.3},
    },
    ("composite", "clipscore2021"): {
        CS: {
            "bleu-1": 31.3,
            "bleu-4": 30.6,
            "rouge-l": 32.4,
            "meteor": 38.9,
            "cider-d": 37.7,
            "spice": 40.3,
            "bertscore@roberta": 30.1,
            "tbr@bert": 44.9,
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
            "bertscore@roberta": 79.1,
            "tbr@bert": 80.1,
            "clipscore": 80.7,
            "refclipscore": 83.1,
        },
        IM: {"umic": 85.1},
        PS: {"refpac-s": 84.7},
        FL: {"fleur": 83.2},
    },
    ("pascal50s", "pascal-direct"): {CS + ", v1": {"clipscore": 83.7, "refclipscore": 83.6}},
    ("thumb1", "machines"): {
        IM: {"bleu-4": 25, "rouge-l": 31, "cider-d": 33, "spice": 30, "bertscore@": 33, "refclipscore": 44}
    },
    ("thumb1", "all"): {
        IM: {"bleu-4": 13, "rouge-l": 18, "cider-d": 23, "spice": 21, "bertscore@": 21, "refclipscore": 41}
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
            "smurf@": 50,
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
            "smurf@": 43.3,
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
            "bertscore@roberta": 88.6,
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
            "bertscore@roberta": 92.1,
            "clipscore": 87.2,
            "refclipscore": 92.6,
        },
        FL: {"fleur": 96.8},
    },
}
