"""The study of the captioner: the paper's lengths on COCO, and its tables beside what is found."""

from __future__ import annotations

import pytest
from support.synthetic_scenes import made_pictures

pytest.importorskip("torch", reason="training needs the neural extra")
pytest.importorskip("sentencepiece", reason="the captioner needs the captioner extra")

from capmeter_research.common.corpus import read_corpus
from capmeter_research.common.published import paper_table
from capmeter_research.papers.subicap.experiments.report import (
    length_table,
    length_to_dict,
    segmentation_table,
    segmentation_to_dict,
)
from capmeter_research.papers.subicap.measures import described
from capmeter_research.papers.subicap.network import parameter_count
from capmeter_research.papers.subicap.shape import CaptionerShape
from capmeter_research.papers.subicap.study import Length, Segmented, token_lengths

from capmeter.core.errors import AssetError, InputError


def _paper_lengths() -> dict[tuple[str, int], int]:
    rows = length_to_dict([])["published"]
    return {(row["segmentation"], row["entries"]): row["longest"] for row in rows}


@pytest.mark.slow
def test_the_papers_lengths_on_coco() -> None:
    """Table A.1 within 1, on 20,000 photos of COCO 2014 (100,000 captions)."""
    try:
        corpus = read_corpus("coco", "pycocoevalcap", {"coco": frozenset()})
    except AssetError as error:
        pytest.skip(f"needs the captions of COCO: {error}")
    captions = [text for photo in corpus.sample(20_000) for text in photo.captions]
    result = {(row.segmentation, row.entries): row.longest for row in token_lengths(captions)}
    lengths = _paper_lengths()
    for key, paper in lengths.items():
        if key[0] in ("unigram", "bpe"):
            assert abs(result[key] - paper) <= 1, (key, result[key])
    assert abs(result["char", 95] - lengths["char", 95]) <= 2
    assert [longest for (kind, _), longest in result.items() if kind == "word"] == [16]


def test_published_sizes_are_the_networks() -> None:
    sizes, scores = paper_table("subicap/sizes"), paper_table("subicap/scores")
    for row in sizes.values():
        assert parameter_count(CaptionerShape(), int(row["entries"])) == pytest.approx(row["millions"] * 1e6, rel=0.01)
    assert scores["unigram"]["cider-d"] == 116.1 and scores["word"]["bleu-1"] == 75.2
    assert all(_paper_lengths()[kind, int(row["entries"])] == row["longest"] for kind, row in sizes.items())


def test_lengths_stand_beside_the_papers() -> None:
    rows = [Length("word", 8000, 16), Length("unigram", 1085, 25), Length("unigram", 90, 40)]
    assert [list(row) for row in length_table(rows).rows] == [
        ["word", "8,000 (9,486)", "16 (16)"],
        ["unigram", "1,085 (1,085)", "25 (24)"],
        ["unigram", "90", "40"],
    ]
    assert length_to_dict(rows)["published"][0] == {"segmentation": "word", "entries": 9486, "longest": 16}


def test_segmentations_stand_beside_the_papers() -> None:
    row = Segmented(230, 28, 750_000, 13.2, 0.95, {"bleu-1": 0.5, "cider-d": 0.7, "mima": 0.1})
    assert segmentation_table({"word": row}).rows[0] == [
        *("word", "230 (9,486)", "28 (16)", "0.75 (54.9)", "95.0 (69.0)", "13.2"),
        *("50.0 (75.2)", "70.0 (111.0)", "10.0"),
    ]
    assert segmentation_to_dict({"word": row})["rows"]["word"]["scores"]["cider-d"] == 0.7


def test_too_few_captions() -> None:
    with pytest.raises(InputError, match="no caption"):
        list(token_lengths([]))
    few = [(row.segmentation, row.longest) for row in token_lengths(["A cat.", "?"])]
    assert few[0] == ("word", 2) and few[-1] == ("char", 6)


def test_what_captions_are_like() -> None:
    assert described(["a", "a b"]) == {"words": 1.5, "distinct": 1.0}
    assert len(made_pictures(3).references) == 3
