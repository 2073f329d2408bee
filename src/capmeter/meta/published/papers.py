"""Values of the papers whose metrics are here: LEIC, LCEval and WEmbSim, TBR, SMURF, UMIC.

Cui et al. 2018 (LEIC): Tables 1 and 3. Sharif et al. 2019: Tables 7.9, 7.13, 8.2 to 8.5. Yi et al. 2020 (TBR): Tables 1
to 4. Feinglass and Yang 2021 (SMURF): Tables 1 to 4 (its studies: `studies`). Lee et al. 2021 (UMIC): Table 1.
"""

from __future__ import annotations

from capmeter.meta.published.table import Value, columns, sum_of

CU = "Cui et al. 2018"
LC = "Sharif et al. 2019"
YI = "Yi et al. 2020"
FY = "Feinglass and Yang 2021"
UM = "Lee et al. 2021"

_PAIRS = "HC HI HM MM"
_HUMAN_PAIRS = "HC HI"
_FOUR_TASKS = "share-person share-scene just-person just-scene"
_TASKS = f"replace-person replace-scene {_FOUR_TASKS}"

TABLES: dict[tuple[str, str], dict[str, dict[str, Value]]] = {
    # its n-gram metrics (bleu-1 19.1, rouge-l 21.8, cider-d 28.9 …) do not come out: see docs/benchmarks.md
    ("flickr8k-expert", "cui2018"): {CU: {"leic": 46.6, "spice": 45.6}},
    ("flickr8k-expert", "yi2020"): {
        YI: {
            "bleu-1": 31.8,
            "bleu-4": 14.0,
            "rouge-l": 32.3,
            "bertscore@roberta": 36.7,
            "bertscore@bert": 39.3,
            "meteor": 43.6,
            "cider": 44.7,
            "spice": 45.8,
            "tbr@roberta": 45.1,
            "tbr-unigram": 47.1,
            "tbr@bert": 48.1,
        }
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
    ("composite", "yi2020"): {
        YI: {
            "bleu-1": 28.2,
            "bleu-4": 19.9,
            "rouge-l": 31.3,
            "bertscore@roberta": 39.2,
            "bertscore@bert": 39.9,
            "meteor": 38.1,
            "cider": 38.7,
            "spice": 41.8,
            "tbr@roberta": 44.9,
            "tbr-unigram": 42.0,
            "tbr@bert": 42.3,
        }
    },
    ("composite", "smurf2021"): {
        FY: {
            "bertscore@": 38.8,
            "bleu-1": 38.6,
            "bleu-2": 39.4,
            "rouge-l": 39.3,
            "meteor": 40.4,
            "cider-d": 40.7,
            "spice": 44.5,
            "sparcs": 43.1,
        }
    },
    ("pascal50s", "yi2020"): {
        YI: {
            "bleu-1": columns(_PAIRS, 53.1, 94.7, 90.9, 56.9, 73.9),
            "bleu-4": columns(_PAIRS, 53.3, 92.8, 85.2, 60.5, 73.0),
            "rouge-l": columns(_PAIRS, 55.6, 95.1, 93.3, 57.7, 75.4),
            "meteor": columns(_PAIRS, 61.4, 97.2, 94.9, 64.5, 79.5),
            "cider": columns(_PAIRS, 55.0, 98.0, 91.0, 64.6, 77.2),
            "spice": columns(_PAIRS, 57.7, 96.1, 88.3, 65.3, 76.9),
            "tbr@roberta": columns(_PAIRS, 62.5, 97.7, 95.0, 59.4, 78.7),
            "bertscore@bert": columns(_PAIRS, 64.4, 97.9, 96.6, 59.0, 79.5),
            "tbr@bert": columns(_PAIRS, 65.4, 98.1, 96.4, 60.3, 80.1),
        }
    },
    ("pascal50s", "smurf2021"): {
        FY: {
            "bertscore@": columns(_PAIRS, 64.0, 93.8, 92.5, 53.4, 75.9),
            "bleu-1": columns(_PAIRS, 61.9, 90.3, 88.3, 55.5, 74.0),
            "bleu-2": columns(_PAIRS, 61.6, 90.3, 86.1, 53.2, 72.8),
            "rouge-l": columns(_PAIRS, 60.3, 90.6, 89.7, 58.9, 74.9),
            "meteor": columns(_PAIRS, 64.3, 94.8, 90.8, 61.7, 77.9),
            "cider-d": columns(_PAIRS, 63.3, 94.9, 86.6, 63.9, 77.2),
            "spice": columns(_PAIRS, 62.8, 93.8, 86.6, 63.7, 76.7),
            "sparcs": columns(_PAIRS, 65.1, 95.8, 89.6, 64.4, 78.7),
            "spurts@distilroberta": columns(_PAIRS, 49.6, 50.3, 60.4, 48.5, 52.2),
            "smurf@distilbert+distilroberta": columns(_PAIRS, 62.1, 93.9, 91.2, 61.0, 77.1),
        }
    },
    ("capeval1k", "umic"): {
        UM: {
            "bleu-1": 23.3,
            "bleu-4": 23.8,
            "rouge-l": 22.0,
            "meteor": 28.8,
            "cider-d": 30.7,
            "spice": 27.9,
            "bertscore@": 27.3,
            "tbr@bert": 25.7,
            "vbtscore": 35.2,
            "vifidel": 14.3,
            "umic": 32.8,
            "umic-c": 29.9,
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
            "bertscore@": 39.6,
            "tbr@bert": 46.7,
            "vbtscore": 52.5,
            "vifidel": 33.6,
            "umic": 46.8,
            "umic-c": 43.1,
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
            "bertscore@": 45.6,
            "tbr@bert": 43.9,
            "vbtscore": 51.4,
            "vifidel": 19.1,
            "umic": 56.1,
            "umic-c": 55.4,
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
            "bertscore@": 79.5,
            "tbr@bert": 80.1,
            "vbtscore": 79.6,
            "vifidel": 70.0,
            "umic": 85.1,
            "umic-c": 84.7,
        }
    },
    ("distractions", "lceval"): {
        LC: {
            "bleu-1": columns(_TASKS, 84.9, 78.1, 87.5, 88.2, 87.5, 98.4, 87.4),
            "bleu-4": columns(_TASKS, 85.9, 75.2, 83.5, 82.4, 54.9, 67.7, 72.1),
            "rouge-l": columns(_TASKS, 83.3, 71.1, 86.8, 86.8, 83.4, 94.1, 84.1),
            "meteor": columns(_TASKS, 83.7, 75.1, 92.4, 91.4, 91.9, 98.4, 89.3),
            "cider-d": columns(_TASKS, 89.9, 95.0, 94.1, 93.1, 73.3, 81.5, 85.7),
            "spice": columns(_TASKS, 84.0, 76.0, 88.5, 88.8, 78.1, 92.0, 83.6),
            "spider": columns(_TASKS, 89.7, 95.0, 94.7, 93.6, 76.6, 86.1, 89.3),
            "wmd@": columns(_TASKS, 87.6, 87.8, 94.3, 92.5, 86.3, 96.9, 90.9),
            "sem-lex": columns(_TASKS, 80.7, 85.6, 93.0, 91.1, 94.3, 98.6, 90.7),
            "nneval": columns(_TASKS, 90.2, 91.8, 95.1, 94.0, 85.8, 94.7, 91.9),
            "lceval": columns(_TASKS, 81.2, 85.9, 92.7, 91.4, 92.1, 97.8, 90.2),
            "wembsim@elmo": columns(_FOUR_TASKS, 92.5, 91.4, 89.4, 96.6, 92.5),
            "wembsim@glove": columns(_FOUR_TASKS, 91.8, 90.2, 95.1, 99.6, 94.2),
            "wembsim@word2vec": columns(_FOUR_TASKS, 93.9, 92.2, 93.6, 98.8, 94.6),
            "wembsim@fasttext": columns(_FOUR_TASKS, 92.5, 91.2, 95.7, 99.6, 94.8),
        }
    },
    # Sharif et al. 2019, Table 8.3: its columns of ABSTRACT-50S do not come out and are not printed
    ("pascal50s", "wembsim"): {
        LC: {
            "bleu-4": columns(_HUMAN_PAIRS, 53.7, 93.2, 73.45),
            "rouge-l": columns(_HUMAN_PAIRS, 56.5, 95.3, 75.9),
            "meteor": columns(_HUMAN_PAIRS, 61.1, 97.6, 79.35),
            "cider-d": columns(_HUMAN_PAIRS, 57.8, 98.0, 77.9),
            "spice": columns(_HUMAN_PAIRS, 58.0, 96.7, 77.35),
            "wmd@": columns(_HUMAN_PAIRS, 56.2, 98.4, 77.3),
            "wembsim@elmo": columns(_HUMAN_PAIRS, 56.5, 98.3, 77.4),
            "wembsim@glove": columns(_HUMAN_PAIRS, 58.0, 97.6, 77.8),
            "wembsim@word2vec": columns(_HUMAN_PAIRS, 59.3, 98.9, 79.1),
            "wembsim@fasttext": columns(_HUMAN_PAIRS, 60.9, 98.1, 79.5),
        }
    },
    ("wmt16", "lceval"): {
        LC: {
            "bleu-1": 33.8,
            "bleu-4": 27.7,
            "rouge-l": 37.4,
            "meteor": 40.8,
            "cider-d": 32.7,
            "spice": 26.3,
            "wmd@": 31.3,
            "spider": 33.6,
            "lceval": 35.6,
        }
    },
    ("conll14", "napoles2016"): {
        FY: {
            "gleu": 85.2,
            "er": 85.2,
            "lt": 80.8,
            "i-measure": 76.9,
            "lfm": 78.0,
            "m2": 64.8,
            "mima@distilbert": 85.2,
            "mima@distilroberta": 88.5,
        }
    },
    ("conll14", "napoles2016-pearson"): {
        FY: {
            "gleu": 83.8,
            "er": 82.9,
            "lt": 81.1,
            "i-measure": 75.3,
            "lfm": 74.2,
            "m2": 64.1,
            "mima@distilbert": 91.3,
            "mima@distilroberta": 87.8,
        }
    },
}

# Cui et al. 2018, Table 3: M1 to M5 of twelve teams' captions of COCO's validation set
_CHALLENGE = {
    "bleu-1": (12.4, 13.5, 54.9, -51.7, 24.1),
    "bleu-2": (3.7, 4.8, 48.3, -57.2, 16.2),
    "bleu-3": (0.4, 1.6, 47.1, -58.8, 14.3),
    "bleu-4": (-1.9, -0.5, 45.9, -57.7, 13.9),
    "meteor": (60.6, 59.4, 80.8, 8.5, 68.5),
    "rouge-l": (9.0, 9.6, 52.9, -52.6, 20.8),
    "cider-d": (43.8, 44.0, 76.3, -14.9, 55.9),
    "spice": (75.9, 75.0, 87.1, 25.0, 80.9),
    "leic-no-da": (82.1, 80.7, 43.0, 84.4, 70.4),
    "leic": (93.9, 94.9, 72.0, 62.6, 86.7),
}
# Sharif et al. 2019: Table 7.13, M1 to M5, and Table 8.2, M1 and M2
_CHALLENGE_SHARIF = {
    "wmd@": (68, 71, 89, -28, 72),
    "nneval": (69, 69, 84, -22, 69),
    "lceval": (86, 82, 70, 18, 78),
    "wembsim@elmo": (47, 48),
    "wembsim@glove": (80, 76),
    "wembsim@word2vec": (71, 64),
    "wembsim@fasttext": (83.4, 75.5),
}
# Sharif et al. 2019, Table 8.5: sums of a metric and WEmbSim by ELMo, word2vec, GloVe and fastText, under M1
_SUMS_SHARIF = {
    "bleu-4": (52.0, 60.9, 61.3, 65.2),
    "rouge-l": (41.1, 51.9, 52.2, 56.7),
    "meteor": (65.8, 74.8, 77.8, 81.1),
    "wmd": (61.8, 71.2, 73.6, 77.3),
    "cider-d": (46.6, 50.0, 50.0, 51.5),
    "spice": (65.6, 74.5, 78.5, 81.3),
}
# value and p under M1, then under M2. Yi et al. 2020, Tables 1 and 2 (which gives no p), images of the Karpathy split
_CHALLENGE_YI = {
    "rouge-l": (6.2, 0.846, 21.5, 0.503),
    "bleu-1": (2.9, 0.927, 16.5, 0.607),
    "bleu-4": (23.6, 0.459, 38.0, 0.222),
    "cider": (44.0, 0.151, 53.9, 0.071),
    "meteor": (70.3, 0.011, 70.1, 0.011),
    "bertscore@bert": (80.7, 0.001, 73.5, 0.006),
    "bertscore@roberta": (87.3, 0.000, 84.1, 0.000),
    "tbr@bert": (87.5, 0.000, 79.7, 0.002),
    "tbr@roberta": (93.2, 0.000, 86.9, 0.000),
    "spice": (71.5, 0.009, 68.8, 0.013),
    "bleu-1(references=cat)": (35.1, None, 17.5, None),
    "rouge-l(references=cat)": (9.6, None, 18.0, None),
    "meteor(references=cat)": (66.2, None, 57.1, None),
    "tbr-unigram": (80.9, None, 71.4, None),
    "tbr(combine=false,remove=false)@bert": (82.2, None, 74.1, None),
    "tbr(references=cat)@bert": (85.7, None, 78.3, None),
    "tbr(remove=false)@bert": (86.7, None, 75.5, None),
}
# Feinglass and Yang 2021, Table 2: three teams' captions and a person's
_CHALLENGE_SMURF = {
    "bertscore(idf=true)@": (98.6, 0.014, 98.5, 0.015),
    "bertscore@": (37.4, 0.626, 41.9, 0.581),
    "bleu-1": (-27.9, 0.721, -26.3, 0.737),
    "bleu-2": (-70.9, 0.291, -69.6, 0.304),
    "rouge-l": (-81.2, 0.188, -80.2, 0.198),
    "meteor": (47.9, 0.521, 53.4, 0.466),
    "cider-d": (2.3, 0.977, 8.2, 0.918),
    "spice": (95.6, 0.044, 97.3, 0.027),
    "sparcs": (87.4, 0.126, 89.4, 0.106),
    "spurts@distilroberta": (95.6, 0.044, 95.5, 0.045),
    "smurf@distilbert+distilroberta": (98.4, 0.016, 99.3, 0.007),
}
for _k, _suffix in enumerate(("", "-m2", "-m3", "-m4", "-m5")):
    TABLES["coco2015", f"cui2018{_suffix}"] = {
        CU: {name: values[_k] for name, values in _CHALLENGE.items()},
        LC: {name: values[_k] for name, values in _CHALLENGE_SHARIF.items() if _k < len(values)},
    }
TABLES["coco2015", "cui2018"][LC] |= {
    f"{sum_of(name, 'wembsim')}@{vectors}": value
    for name, values in _SUMS_SHARIF.items()
    for vectors, value in zip(("elmo", "word2vec", "glove", "fasttext"), values, strict=True)
}

# what else must be known of a value: (benchmark, protocol, metric as above)
NOTES: dict[tuple[str, str, str], str] = {
    ("distractions", "lceval", "bleu-4"): "72.1 is the mean of the four tasks of the source's Table 8.4",
    **{
        ("distractions", "lceval", f"wembsim@{vectors}"): "the mean of the four tasks of the source's Table 8.4 alone"
        for vectors in ("elmo", "glove", "word2vec", "fasttext")
    },
    **{
        ("pascal50s", "wembsim", metric): "the source gives the columns; the value is their mean"
        for metric in TABLES["pascal50s", "wembsim"][LC]
    },
}
for _name, _source, _table in (("yi2020", YI, _CHALLENGE_YI), ("smurf2021", FY, _CHALLENGE_SMURF)):
    for _suffix, _column in (("", 0), ("-m2", 2)):
        TABLES["coco2015", _name + _suffix] = {
            _source: {key: float(row[_column] or 0) for key, row in _table.items()},
        }
        for _key, _row in _table.items():
            if _row[_column + 1] is not None:
                NOTES["coco2015", _name + _suffix, _key] = f"p {_row[_column + 1]:.3f}"
