"""The bundled detector of fluency errors: a linear classifier of tags, function words and repetitions.

    P(error) = sigmoid( Σ w(f) + b )        over the features f of a caption

Features are read off the words in lower case and the bundled parser's tags: n-grams of tags up to four, the same with
function words in place of their tags, the last words, numbers of verbs, nouns and conjunctions, and repeated words.
Their names are hashed into a table of weights. It was trained on captions of photos and on captions of sounds that a
small grammar wrote, with errors made in them; `capmeter/data/weights/fluency/README.md` is its model card.

>>> "end1 and >" in features([("a", "DT"), ("dog", "NN"), ("barks", "VBZ"), ("and", "CC")])
True
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from capmeter.core.checkpoints import Checkpoint, load_checkpoint
from capmeter.core.errors import AssetError
from capmeter.core.settings import Settings
from capmeter.text.parsing.parsers import find_parser, parse_captions

KIND = "fluency"
Floats = npt.NDArray[np.float64]
TaggedWords = Sequence[tuple[str, str]]
_CONTENT = ("NN", "VB", "JJ", "RB", "CD", "FW")
_LONGEST_GRAM, _LONGEST_REPEATED, _LONGEST_END = 4, 6, 5


def features(words: TaggedWords) -> set[str]:
    """The names of a caption's features.

    Args:
        words: each word in lower case with its tag, punctuation left out.
    """
    tags = ["<", *(tag for _, tag in words), ">"]
    mixed_tokens = ["<", *(tag if tag.startswith(_CONTENT) else word for word, tag in words), ">"]
    feature_names: set[str] = set()
    for n in range(1, _LONGEST_GRAM + 1):
        for kind, tokens in (("tags", tags), ("mixed", mixed_tokens)):
            feature_names.update(f"{kind} {' '.join(tokens[k : k + n])}" for k in range(len(tokens) - n + 1))
    feature_names.update(f"end{n} {' '.join(mixed_tokens[-n - 1 :])}" for n in range(1, _LONGEST_END + 1))
    for kind in ("VB", "NN", "CC", "RB"):
        feature_names.add(f"{kind} {min(sum(tag.startswith(kind) for tag in tags), 5)}")
    feature_names.add(f"finite {any(tag in ('VBZ', 'VBP', 'VBD') for tag in tags)} {'VBG' in tags}")
    feature_names.add(f"words {min(len(words), 20)}")
    return feature_names | _repetitions(words)


def _repetitions(words: TaggedWords) -> set[str]:
    """What a caption says twice: words next to each other, n-grams and content words anywhere."""
    feature_names = {f"twice {words[k][1]}" for k in range(1, len(words)) if words[k][0] == words[k - 1][0]}
    plain_words = [word for word, _ in words]
    for n in range(1, _LONGEST_REPEATED + 1):
        gram_counts = Counter(tuple(plain_words[k : k + n]) for k in range(len(plain_words) - n + 1))
        feature_names.add(
            f"repeated{n} {min(sum(count > 1 for count in gram_counts.values()), 3)} of {min(len(plain_words) // 5, 4)}"
        )
    word_counts = Counter(word for word, tag in words if tag.startswith(_CONTENT))
    return feature_names | {f"repeated {tag[:2]}" for word, tag in words if word_counts[word] > 1}


def feature_indices(words: TaggedWords, size: int) -> npt.NDArray[np.int64]:
    """The features' places in a table of this size, each once, ascending."""
    return np.unique(np.array([zlib.crc32(feature_name.encode()) % size for feature_name in features(words)], np.int64))


def tag_words(texts: Sequence[str], settings: Settings | None = None) -> list[list[tuple[str, str]]]:
    """The words of each text in lower case, with the bundled parser's tags; without punctuation."""
    parses = parse_captions(find_parser("caption"), [text.lower().strip(" .") for text in texts], settings)
    return [
        [
            (word.lower(), tag)
            for sentence in (() if parse is None else parse.sentences)
            for word, tag in zip(sentence.words, sentence.tags, strict=True)
            if tag[:1].isalpha()
        ]
        for parse in parses
    ]


@dataclass(frozen=True, eq=False)
class FluencyDetector:
    """A trained detector.

    weights: of the table of features, (size,).
    bias: of every caption.
    label: name and hash, for signatures.
    """

    weights: Floats
    bias: float
    label: str

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> FluencyDetector:
        """The detector of a checkpoint; an `AssetError` if its weights are not those of one."""
        try:
            weights, bias = checkpoint.weights["weights"].astype(np.float64), float(checkpoint.parameters["bias"])
        except (KeyError, TypeError, ValueError) as error:
            raise AssetError(f"{checkpoint.label}: not a detector of fluency errors ({error})") from error
        if weights.ndim != 1 or not len(weights) or not np.isfinite([*weights, bias]).all():
            raise AssetError(f"{checkpoint.label}: its weights are not one row of finite numbers")
        return cls(weights, bias, checkpoint.label)

    def probabilities(self, texts: Sequence[str], settings: Settings | None = None) -> Floats:
        """The probability of an error in each text; of a text without words 1."""
        text_probabilities = np.ones(len(texts))
        for text_index, tagged_words in enumerate(tag_words(texts, settings)):
            if tagged_words:
                logit = self.weights[feature_indices(tagged_words, len(self.weights))].sum() + self.bias
                text_probabilities[text_index] = 1 / (1 + np.exp(-np.clip(logit, -500, 500)))
        return text_probabilities


@lru_cache(maxsize=4)
def load_detector(name: str) -> FluencyDetector:
    """The detector of this name or in this folder."""
    return FluencyDetector.from_checkpoint(load_checkpoint(name, KIND))
