"""Metrics as papers print them: CIDEr-D for `cider-d`.

Everywhere else a metric has its parsable name; a LaTeX table goes into a paper.

>>> MetricName("cider-d").printed, MetricName("bleu-4").printed, MetricName("rouge-l(beta=1.0)").printed
('CIDEr-D', 'BLEU-4', 'ROUGE-L (beta=1.0)')
"""

from __future__ import annotations

_SPELLINGS = """
    ROUGE-L METEOR CIDEr-D CIDEr-R SPICE SPIDEr Soft-SPICE WMD MOWE WEmbSim HWCM BERTScore TBR TBR-unigram SPARCS
    SPURTS MIMA SMURF NNEval LCEval LEIC UMIC CLIPScore RefCLIPScore PAC-S RefPAC-S SigLIP-Score BLIP-ITM CLAIR FLEUR
    G-VEval SBERT
"""
_PRINTED = {name.lower(): name for name in _SPELLINGS.split()} | {"cider": "CIDEr (original)"}


class MetricName(str):
    """A metric's name in a table's cell."""

    __slots__ = ()

    @property
    def printed(self) -> str:
        """The field's spelling of the name, then its parameters; an unknown name is unchanged."""
        name, bracket, parameters = self.partition("(")
        printed = name.upper() if name.startswith("bleu-") else _PRINTED.get(name, name)
        return f"{printed} ({parameters}" if bracket else printed
