"""The experiments of the LCEval paper (Sharif et al. 2019, chapter 7 and appendix B), each beside its values.

A part names metrics, runs them on a benchmark, and lists for each what was found and what the paper printed. Networks
are those that ship, or those that `capmeter train lceval --network study` wrote to a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

import numpy as np

from capmeter.core.assets import find_checkpoint
from capmeter.core.errors import InputError
from capmeter.core.progress import report_progress
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import Evaluation
from capmeter.judgments.benchmarks import find_benchmark as named_benchmark
from capmeter.judgments.prepared import Floats, JudgedPairs, Points
from capmeter.judgments.protocol import change_protocol
from capmeter.meta.agreement import measure_agreement
from capmeter.meta.metric_scores import score_judgments
from capmeter.meta.published import Tables, read_tables
from capmeter.stats.correlation import Pearson, Spearman
from capmeter.stats.kendall import TauB
from capmeter_research.common.study_table import Part, StudyRow
from capmeter_research.papers.lceval.checkpoint import load_network
from capmeter_research.papers.lceval.features import FEATURES, GROUPS, NNEVAL
from capmeter_research.papers.lceval.lceval import LcEval, NnEval


@cache
def _tables() -> Tables:
    return read_tables(files("capmeter_research.papers.lceval") / "study_values")


def paper_table(name: str) -> Mapping[str, Mapping[str, float]]:
    """The rows of one of the paper's tables: row → column → number."""
    (table,) = _tables()[name]
    rows: Mapping[str, Mapping[str, float]] = table["rows"]
    return rows


def run_part(name: str, study: Study) -> Part:
    """A part of the study, an `InputError` where there is none of this name."""
    if name not in PARTS:
        raise InputError(f"unknown part {name!r} of this study; expected one of {', '.join(PARTS)}")
    (table,) = _tables()["lceval/main"]
    return replace(PARTS[name](study), source=str(table["source"]))


COEFFICIENTS = ("pearson", "spearman", "kendall")
HANDCRAFTED = ("bleu-1", "bleu-4", "rouge-l", "meteor", "cider-d", "spice", "spider", "wmd")
_GROUPS = tuple(f"lceval-{name}" for name in GROUPS)
_AGAINST = "lceval-against-"


@dataclass(frozen=True)
class Networks:
    """Trained networks by name: in a folder, else those that ship."""

    folder: Path | None = None

    def metric(self, name: str) -> Metric | None:
        """The metric of a network; None where there is no such network."""
        checkpoint_name = str(self.folder / name) if self.folder is not None and (self.folder / name).is_dir() else name
        if find_checkpoint(checkpoint_name) is None:
            return None
        network = load_network(checkpoint_name)
        vectors = network.vectors or "minilm"
        if network.features == NNEVAL:
            return NnEval(checkpoint=checkpoint_name, vectors=vectors)
        pool = network.pool or "max"
        return LcEval(features=network.features, pool=pool, checkpoint=checkpoint_name, vectors=vectors)  # type: ignore[arg-type]

    def metrics(self, names: Sequence[str]) -> tuple[dict[str, Metric], tuple[str, ...]]:
        """Metrics and networks by name, and a note of those that are not there."""
        metrics_by_name: dict[str, Metric] = {}
        missing_names = []
        for name in names:
            is_learned = name.startswith(("lceval", "nneval", "spider-")) or name == "spider-network"
            metric = self.metric(name.replace("spider-network", "spider")) if is_learned else parse(name)
            if metric is None:
                missing_names.append(name)
            else:
                metrics_by_name[name] = metric
        note = f"not trained: {', '.join(missing_names)} (capmeter train lceval --network study)"
        return metrics_by_name, ((note,) if missing_names else ())

    def against(self) -> list[str]:
        """The networks that were trained against one system alone."""
        network_folders = [] if self.folder is None else sorted(self.folder.glob(f"{_AGAINST}*"))
        return [folder.name for folder in network_folders]


@dataclass(frozen=True)
class Study:
    """What a part is given: the benchmark's file, networks, a protocol (None: the part's own), settings."""

    data: Path
    networks: Networks = field(default_factory=Networks)
    protocol: str | None = None
    sample: bool = False
    settings: Settings | None = None

    def points(self, benchmark: str, protocol: str) -> Points:
        """The rated captions of the benchmark."""
        judgments = named_benchmark(benchmark).load(self.data, self.protocol or protocol, sample=self.sample)
        if not isinstance(judgments, Points):
            raise InputError(f"{benchmark} has no ratings of captions under {judgments.protocol.name}")
        return judgments

    def pairs(self, benchmark: str, protocol: str, references: str | None = None) -> JudgedPairs:
        """The judged pairs of a benchmark.

        Args:
            benchmark: its name.
            protocol: of the study; the study's own option comes first.
            references: number of references, as protocols have it; None: the protocol's.

        Raises:
            InputError: under this protocol the benchmark has no pairs.
        """
        layout = named_benchmark(benchmark)
        chosen_protocol = layout.protocol(self.protocol or protocol)
        if references is not None:
            chosen_protocol = change_protocol(chosen_protocol, f"references={references}")
        judgments = layout.load(self.data, chosen_protocol, sample=self.sample)
        if not isinstance(judgments, JudgedPairs):
            raise InputError(f"{benchmark} has no pairs under {judgments.protocol.name}")
        return judgments

    def scores(self, judgments: Points | JudgedPairs, metrics: Mapping[str, Metric]) -> dict[str, Floats]:
        """Each metric's scores of the judged captions, by the given names."""
        metric_scores, *_ = score_judgments(judgments, list(dict.fromkeys(metrics.values())), self.settings)
        return {name: metric_scores[str(metric)] for name, metric in metrics.items()}


def coefficients(points: Points, scores: Floats) -> dict[str, float]:
    """Pearson's r, Spearman's ρ and Kendall's τb with the ratings."""
    judged_scores = scores[points.rows]
    if not np.ptp(judged_scores):
        return dict.fromkeys(COEFFICIENTS, 0.0)
    values = (float(measure(judged_scores, points.human)()) for measure in (Pearson, Spearman, TauB))
    return dict(zip(COEFFICIENTS, values, strict=True))


def _correlated(study: Study, title: str, names: Sequence[str], printed: Mapping[str, Mapping[str, float]]) -> Part:
    points = study.points("composite", "machines")
    metrics, notes = study.networks.metrics(names)
    study_rows = []
    for name, metric in metrics.items():
        found = coefficients(points, study.scores(points, {name: metric})[name])
        study_rows.append(StudyRow(name, found, printed.get(name, {})))
        report_progress(f"{name}: {', '.join(f'{column} {value:.3f}' for column, value in found.items())}")
    return Part(_on(title, points), COEFFICIENTS, tuple(study_rows), notes)


def _on(title: str, judgments: Points | JudgedPairs) -> str:
    return f"{title}; {judgments.benchmark}, {len(judgments):,} {judgments.unit}, {judgments.protocol.name}"


def architectures(study: Study) -> Part:
    """Table 7.2: Kendall's τ without learning, and of networks with 1, 2 and 3 layers of weights."""
    points = study.points("composite", "machines")
    shapes = {
        "lceval": ("lceval-linear", "lceval", "lceval-two-layers"),
        "spider": ("spider-linear", "spider-network", "spider-two-layers"),
    }
    metrics, notes = study.networks.metrics([network_name for names in shapes.values() for network_name in names])
    metrics |= {"no learning": LcEval(learned=False), "spider": parse("spider")}
    scores = study.scores(points, metrics)
    study_rows, columns = [], ("none", "1", "2", "3")
    for network_name, layer_networks in shapes.items():
        row_names = ("spider" if network_name == "spider" else "no learning", *layer_networks)
        layers = zip(columns, row_names, strict=True)
        taus = {
            column: coefficients(points, scores[metric])["kendall"] for column, metric in layers if metric in scores
        }
        study_rows.append(StudyRow(network_name, taus, paper_table("lceval/architectures")[network_name]))
    return Part(_on("layers of weights (Table 7.2)", points), columns, tuple(study_rows), notes)


def main(study: Study) -> Part:
    """Table 7.4: the three coefficients of handcrafted and learned metrics; Kendall's τ of all rows, people's too."""
    names = [*HANDCRAFTED, "nneval", "lceval"]
    part = _correlated(study, "agreement with people (Table 7.4)", names, paper_table("lceval/main"))
    if study.protocol is not None:
        return part
    all_points = study.points("composite", "clipscore2021")
    scores = study.scores(all_points, study.networks.metrics(names)[0])
    study_rows = tuple(
        replace(row, found={**row.found, "all": coefficients(all_points, scores[row.name])["kendall"]})
        for row in part.rows
    )
    note = f"all: Kendall's τb of all {len(all_points):,} rows, human captions included ({all_points.protocol.name})"
    return replace(part, columns=(*part.columns, "all"), rows=study_rows, notes=(*part.notes, note))


def embeddings(study: Study) -> Part:
    """Table 7.3: networks `lceval-VECTORS` of a folder, each trained with the word vectors of that name."""
    names = [f"lceval-{name}" for name in paper_table("lceval/embeddings")] + ["lceval"]
    printed = {f"lceval-{name}": row for name, row in paper_table("lceval/embeddings").items()}
    return _correlated(study, "word vectors of WMD and MOWE (Table 7.3)", names, printed)


def groups(study: Study) -> Part:
    """Tables 7.5 and B.2: networks of feature groups."""
    printed = paper_table("lceval/groups")
    return _correlated(study, "groups of features (Tables 7.5, B.2)", ["lceval", *_GROUPS], printed)


def hwcm(study: Study) -> Part:
    """Table 7.6: Kendall's τ of head-word chains of each kind and length."""
    points = study.points("composite", "machines")
    kinds = ("word", "lemma", "tag", "dep")
    metrics_by_length = {n: {kind: parse(f"hwcm(kind={kind},n={n})") for kind in kinds} for n in range(1, 5)}
    metrics = {str(metric): metric for row in metrics_by_length.values() for metric in row.values()}
    scores = study.scores(points, metrics)
    printed = paper_table("lceval/hwcm")
    study_rows = []
    for n, length_metrics in metrics_by_length.items():
        taus = {kind: coefficients(points, scores[str(metric)])["kendall"] for kind, metric in length_metrics.items()}
        study_rows.append(StudyRow(str(n), taus, printed[str(n)]))
    note = "the paper does not say which kind it printed; it calls them dependency relationships"
    return Part(_on("length of chains (Table 7.6)", points), kinds, tuple(study_rows), (note,))


def features(study: Study) -> Part:
    """LCEval, its features and their plain mean: τ, and the p of the paired difference (images resampled)."""
    points = study.points("composite", "machines")
    metrics, notes = study.networks.metrics(["lceval"])
    if not metrics:
        raise InputError(notes[0])
    results = Evaluation((metrics["lceval"],), study.settings or Settings()).with_collected_states(points.captions)
    result = results.run(points.captions)[metrics["lceval"]]
    scores = {"lceval": result.items.array, **{name: result.part_items[name].array for name in FEATURES}}
    scores["no learning"] = np.mean([scores[name] for name in FEATURES], axis=0)
    report = measure_agreement(points, {name: points.per_caption(values) for name, values in scores.items()})
    study_rows = []
    p_values = {frozenset((row.metric, row.other)): row.p or 0.0 for row in report.of("differences")}
    for agreement in report.results:
        pair = frozenset(("lceval", agreement.metric))
        difference = {"p": p_values[pair]} if pair in p_values else {}
        study_rows.append(StudyRow(agreement.metric, {"kendall": (agreement.value or 0.0) / 100, **difference}))
    return Part(_on("LCEval and its features", points), ("kendall", "p"), tuple(study_rows))


def accuracy(study: Study) -> Part:
    """Figure 7.8: accuracy in telling people's captions from machines', beside Kendall's τ."""
    points = study.points("composite", "clipscore2021")
    is_human = np.array([id.endswith("#0") for id in points.ids])
    names = ("lceval", "nneval", *_GROUPS)
    metrics, notes = study.networks.metrics(names)
    scores = study.scores(points, metrics)
    balanced = {
        name: np.mean([(values[is_human] > 0.5).mean(), (values[~is_human] <= 0.5).mean()])
        for name, values in scores.items()
    }
    rows = tuple(
        StudyRow(name, {"accuracy": float(balanced[name]), "kendall": coefficients(points, scores[name])["kendall"]})
        for name in metrics
    )
    return Part(
        _on("accuracy and agreement (Figure 7.8; accuracy: mean of both classes)", points),
        ("accuracy", "kendall"),
        rows,
        notes,
    )


def _paired(
    study: Study,
    title: str,
    of: JudgedPairs,
    printed: Mapping[str, Mapping[str, float]],
    names: Sequence[str] = (*HANDCRAFTED, *_GROUPS, "nneval", "lceval"),
) -> Part:
    metrics, notes = study.networks.metrics(names)
    report = measure_agreement(of, study.scores(of, metrics), resamples=10)
    values_by_metric = {name: _by_group(report.categories(name), report[name].value) for name in metrics}
    study_rows = tuple(StudyRow(name, row, printed.get(name, {})) for name, row in values_by_metric.items())
    return Part(_on(title, of), tuple(printed["lceval"]), study_rows, notes)


def _by_group(by_group: Mapping[str, float], mean: float | None) -> dict[str, float]:
    return {**by_group, "mean": float(np.mean(list(by_group.values()))) if by_group else mean or 0.0}


def _paired_table(study: Study, benchmark: str, protocol: str, number: str) -> Part:
    """A table of accuracy on pairs, by category."""
    printed = paper_table(f"lceval/{benchmark}")
    return _paired(study, f"accuracy, % (Table {number})", study.pairs(benchmark, protocol), printed)


def _references(study: Study, benchmark: str, protocol: str) -> Part:
    """Figures 7.10 and B.1: accuracy with 1, 3, 5 … references, over all pairs and over HC."""
    all_pairs = study.pairs(benchmark, protocol, "all")
    limit = int(all_pairs.captions.references.lengths.max())
    names = ("bleu-4", "meteor", "cider-d", "spice", "spider", "wmd", "nneval", "lceval", "lceval-mean", "lceval-min")
    metrics, notes = study.networks.metrics(names)
    columns = tuple(f"{reference_count}{group}" for reference_count in range(1, limit + 1, 2) for group in ("", " HC"))
    accuracies: dict[str, dict[str, float]] = {name: {} for name in metrics}
    for reference_count in range(1, limit + 1, 2):
        pairs = study.pairs(benchmark, protocol, f"draw-{reference_count}")
        report = measure_agreement(pairs, study.scores(pairs, metrics), resamples=10)
        for name in metrics:
            agreement = report[name]
            accuracies[name] |= {
                f"{reference_count}": _by_group(report.categories(name), agreement.value)["mean"],
                f"{reference_count} HC": report.categories(name).get("HC", 0.0),
            }
    title = _on("accuracy, %, by number of references (Figures 7.10, B.1)", all_pairs)
    return Part(title, columns, tuple(StudyRow(name, values) for name, values in accuracies.items()), notes)


def machines(study: Study) -> Part:
    """Table 7.10: networks trained against one system alone, beside that trained against all."""
    names = [*study.networks.against(), "lceval"]
    printed = {"lceval": {"kendall": paper_table("lceval/machines")["lceval"]["kendall"]}}
    part = _correlated(study, "machine captions trained against (Table 7.10)", names, printed)
    return replace(part, notes=(*part.notes, f"the paper's systems: {_paper_systems('kendall', 3)}"))


def _paper_systems(column: str, digits: int) -> str:
    systems = paper_table("lceval/machines").items()
    return ", ".join(f"{name} {row[column]:.{digits}f}" for name, row in systems if name != "lceval")


def machines_pairs(study: Study) -> Part:
    """Table 7.11: the same networks on the pairs of PASCAL-50S."""
    pairs = study.pairs("pascal50s", "pascal-direct")
    printed = {"lceval": paper_table("lceval/pascal50s")["lceval"]}
    names = (*study.networks.against(), "lceval")
    part = _paired(study, "machine captions trained against (Table 7.11)", pairs, printed, names)
    return replace(part, notes=(*part.notes, f"the paper's systems, mean: {_paper_systems('mean', 1)}"))


def wmt16(study: Study) -> Part:
    """Table B.1: Kendall's τ with human judgments of translations, by language pair."""
    points = study.points("wmt16", "lceval")
    metrics, notes = study.networks.metrics([*HANDCRAFTED, *_GROUPS, "lceval"])
    report = measure_agreement(points, study.scores(points, metrics), resamples=10)
    rows = []
    for name in metrics:
        by_group = {group: value / 100 for group, value in report.categories(name).items()}
        rows.append(StudyRow(name, _by_group(by_group, report[name].value), paper_table("lceval/wmt16").get(name, {})))
    columns = tuple(dict.fromkeys([*(key for row in rows for key in row.found if key != "mean"), "mean"]))
    return Part(_on("agreement on translations (Table B.1)", points), columns, tuple(rows), notes)


PARTS: dict[str, Callable[[Study], Part]] = {
    "architectures": architectures,
    "embeddings": embeddings,
    "main": main,
    "features": features,
    "groups": groups,
    "hwcm": hwcm,
    "accuracy": accuracy,
    "machines": machines,
    "machines-pairs": machines_pairs,
    "pascal": partial(_paired_table, benchmark="pascal50s", protocol="pascal-direct", number="7.7"),
    "abstract": partial(_paired_table, benchmark="abstract50s", protocol="lceval", number="7.8"),
    "distractions": partial(_paired_table, benchmark="distractions", protocol="lceval", number="7.9"),
    "references": partial(_references, benchmark="pascal50s", protocol="pascal-direct"),
    "references-abstract": partial(_references, benchmark="abstract50s", protocol="lceval"),
    "wmt16": wmt16,
}
"""What each part does."""
