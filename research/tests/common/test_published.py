"""Published tables of the reproduced papers: values of SMURF's studies, and sources."""

from __future__ import annotations

import pytest
from capmeter_research.common.published import paper_source, paper_table, study_tables

from capmeter.meta.published import published


@pytest.mark.parametrize(
    ("study", "reference", "metric", "value", "encoder"),
    [
        ("study failures", "smurf", "cider-d", 23.7, ""),
        ("study failures", "spice", "smurf", 3.8, "distilbert+distilroberta"),
        ("study ties", "tie-free", "inter-human", 65.5, ""),
        ("study ties", "all", "sparcs", 48.1, ""),
        ("study ties", "all", "bertscore", 36.2, "not stated"),
    ],
)
def test_values_of_smurfs_studies(study: str, reference: str, metric: str, value: float, encoder: str) -> None:
    result = published(study, reference, metric, study_tables())
    assert (result.value, result.made_with) == (value, encoder)


def test_sources() -> None:
    assert paper_source("lceval/main") == "Sharif et al. 2019"
    assert paper_source("subicap/scores") == "Sharif 2019, appendix A"
    assert paper_table("subicap/lengths")["unigram 3078"] == {"longest": 19}
