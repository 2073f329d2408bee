"""Values of the studies in Feinglass and Yang 2021 (SMURF): P(F) of Table 5, and the Flickr8k columns of Table 4.

They stand in the place of a benchmark's protocol: `study failures` under its reference metric, `study ties` under
`tie-free` and `all`. Which pairs the tie-free subset has, and which τ all of Flickr8k was given, the paper does not say
(see docs/benchmarks.md).
"""

from __future__ import annotations

from capmeter.meta.published.table import Value

FY = "Feinglass and Yang 2021"
FAILURES, TIES, PEOPLE = "study failures", "study ties", "inter-human"

TABLES: dict[tuple[str, str], dict[str, dict[str, Value]]] = {
    # Table 5, last column: the reference of SMURF is SPICE
    (FAILURES, "smurf"): {FY: {"cider-d": 23.7, "meteor": 20.5, "spice": 10.8}},
    (FAILURES, "spice"): {FY: {"smurf@distilbert+distilroberta": 3.8}},
    (TIES, "tie-free"): {
        FY: {
            "bertscore@": 53.0,
            "bleu-1": 52.7,
            "bleu-2": 57.7,
            "rouge-l": 51.1,
            "meteor": 61.1,
            "cider-d": 65.0,
            "spice": 64.9,
            "sparcs": 71.6,
            PEOPLE: 65.5,
        }
    },
    (TIES, "all"): {
        FY: {
            "bertscore@": 36.2,
            "bleu-1": 30.5,
            "bleu-2": 31.6,
            "rouge-l": 27.7,
            "meteor": 41.1,
            "cider-d": 41.8,
            "spice": 47.5,
            "sparcs": 48.1,
        }
    },
}
