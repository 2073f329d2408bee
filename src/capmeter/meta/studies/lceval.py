"""The experiments of the LCEval paper (Sharif et al. 2019, chapter 7 and appendix B), each beside its values.

A part names metrics, runs them on a benchmark, and lists for each what was found and what the paper printed. Networks
are those that ship, or those that `capmeter train lceval --network study` wrote to a folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from capmeter.assets import find_checkpoint
from capmeter.captions.model import Caption, CaptionSet
from capmeter.errors import InputError
from capmeter.judgments.benchmarks import benchmark as named_benchmark
from capmeter.judgments.judged import Floats, Pairs, Points
from capmeter.judgments.protocol import changed
from capmeter.meta.agreement import judge
from capmeter.meta.published import lceval as paper
from capmeter.meta.scored import measured
from capmeter.metrics.base import Metric
from capmeter.metrics.evaluation import Evaluation
from capmeter.metrics.lceval.checkpoint import trained
from capmeter.metrics.lceval.features import FEATURES, GROUPS, NNEVAL
from capmeter.metrics.lceval.lceval import LcEval, NnEval
from capmeter.metrics.registry import parse
from capmeter.settings import Settings
from capmeter.stats.correlation import pearson, spearman
from capmeter.stats.kendall import tau_b

HANDCRAFTED = ("bleu-1", "bleu-4", "rouge-l", "meteor", "cider-d", "spice", "spider", "wmd")
_GROUPS = tuple(f"lceval-{name}" for name in GROUPS)
_AGAINST = "lceval-against-"


@dataclass(frozen=True)
class Row:
    """One line: its name, what was found by column, and what the paper printed by column."""

    name: str
    found: Mapping[str, float]
    paper: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One table of the study. `notes`: remarks under it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Networks:
    """Trained networks by name: in a folder, else those that ship."""

    folder: Path | None = None

    def metric(self, name: str) -> Metric | None:
        """The metric of a network; None where there is no such network."""
        place = str(self.folder / name) if self.folder is not None and (self.folder / name).is_dir() else name
        if find_checkpoint(place) is None:
            return None
        known = trained(place)
        vectors = known.vectors or "minilm"
        if known.features == NNEVAL:
            return NnEval(checkpoint=place, vectors=vectors)
        pool = known.pool or "max"
        return LcEval(features=known.features, pool=pool, checkpoint=place, vectors=vectors)  # type: ignore[arg-type]

    def metrics(self, names: Sequence[str]) -> tuple[dict[str, Metric], tuple[str, ...]]:
        """Metrics and networks by name, and a note of those that are not there."""
        found: dict[str, Metric] = {}
        missing = []
        for name in names:
            learned = name.startswith(("lceval", "nneval", "spider-")) or name == "spider-network"
            metric = self.metric(name.replace("spider-network", "spider")) if learned else parse(name)
            if metric is None:
                missing.append(name)
            else:
                found[name] = metric
        note = f"not trained: {', '.join(missing)} (capmeter train lceval --network study)"
        return found, ((note,) if missing else ())

    def against(self) -> list[str]:
        """The networks that were trained against one system alone."""
        folders = [] if self.folder is None else sorted(self.folder.glob(f"{_AGAINST}*"))
        return [folder.name for folder in folders]


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
        found = named_benchmark(benchmark).load(self.data, self.protocol or protocol, sample=self.sample)
        if not isinstance(found, Points):
            raise InputError(f"{benchmark} has no ratings of captions under {found.protocol.name}")
        return found

    def pairs(self, benchmark: str, protocol: str, references: str | None = None) -> Pairs:
        """The pairs of the benchmark."""
        known = named_benchmark(benchmark)
        chosen = known.protocol(self.protocol or protocol)
        if references is not None:
            chosen = changed(chosen, f"references={references}")
        found = known.load(self.data, chosen, sample=self.sample)
        if not isinstance(found, Pairs):
            raise InputError(f"{benchmark} has no pairs under {found.protocol.name}")
        return found

    def scores(self, judgments: Points | Pairs, metrics: Mapping[str, Metric]) -> dict[str, Floats]:
        """Each metric's scores of the judged captions, by the given names."""
        values, _ = measured(judgments, list(dict.fromkeys(metrics.values())), self.settings)
        return {name: values[str(metric)] for name, metric in metrics.items()}


def coefficients(points: Points, scores: Floats) -> dict[str, float]:
    """Pearson's r, Spearman's ρ and Kendall's τb with the ratings."""
    of_rows = scores[points.rows]
    if not np.ptp(of_rows):
        return dict.fromkeys(paper.COEFFICIENTS, 0.0)
    return {
        "pearson": float(pearson(of_rows, points.human)),
        "spearman": float(spearman(of_rows, points.human)),
        "kendall": float(tau_b(of_rows, points.human)),
    }


def _correlated(study: Study, title: str, names: Sequence[str], printed: paper.Table) -> Part:
    points = study.points("composite", "machines")
    metrics, notes = study.networks.metrics(names)
    scores = study.scores(points, metrics)
    rows = tuple(Row(name, coefficients(points, scores[name]), printed.get(name, {})) for name in metrics)
    return Part(_on(title, points), paper.COEFFICIENTS, rows, notes)


def _on(title: str, judged: Points | Pairs) -> str:
    return f"{title}; {judged.benchmark}, {len(judged):,} {judged.unit}, {judged.protocol.name}"


def architectures(study: Study) -> Part:
    """Table 7.2: Kendall's τ without learning, and of networks with 1, 2 and 3 layers of weights."""
    points = study.points("composite", "machines")
    wanted = {
        "lceval": ("lceval-linear", "lceval", "lceval-two-layers"),
        "spider": ("spider-linear", "spider-network", "spider-two-layers"),
    }
    metrics, notes = study.networks.metrics([name for names in wanted.values() for name in names])
    metrics |= {"no learning": LcEval(learned=False), "spider": parse("spider")}
    scores = study.scores(points, metrics)
    rows = []
    for name, networks in wanted.items():
        columns = ("none", "1", "2", "3")
        chosen = ("spider" if name == "spider" else "no learning", *networks)
        found = {
            column: coefficients(points, scores[each])["kendall"]
            for column, each in zip(columns, chosen, strict=True)
            if each in scores
        }
        rows.append(Row(name, found, paper.ARCHITECTURES[name]))
    return Part(_on("layers of weights (Table 7.2)", points), ("none", "1", "2", "3"), tuple(rows), notes)


def main(study: Study) -> Part:
    """Table 7.4: the three coefficients of handcrafted and learned metrics; Kendall's τ of all rows, people's too."""
    names = [*HANDCRAFTED, "nneval", "lceval"]
    part = _correlated(study, "agreement with people (Table 7.4)", names, paper.MAIN)
    if study.protocol is not None:
        return part
    whole = study.points("composite", "clipscore2021")
    scores = study.scores(whole, study.networks.metrics(names)[0])
    rows = tuple(
        replace(row, found={**row.found, "all": coefficients(whole, scores[row.name])["kendall"]}) for row in part.rows
    )
    note = f"all: Kendall's τb of all {len(whole):,} rows, captions of people among them ({whole.protocol.name})"
    return replace(part, columns=(*part.columns, "all"), rows=rows, notes=(*part.notes, note))


def embeddings(study: Study) -> Part:
    """Table 7.3: networks `lceval-VECTORS` of a folder, each trained with the word vectors of that name."""
    names = [f"lceval-{name}" for name in paper.EMBEDDINGS] + ["lceval"]
    printed = {f"lceval-{name}": row for name, row in paper.EMBEDDINGS.items()}
    return _correlated(study, "word vectors of WMD and MOWE (Table 7.3)", names, printed)


def groups(study: Study) -> Part:
    """Tables 7.5 and B.2: networks of feature groups."""
    return _correlated(study, "groups of features (Tables 7.5, B.2)", ["lceval", *_GROUPS], paper.GROUPS)


def hwcm(study: Study) -> Part:
    """Table 7.6: Kendall's τ of head-word chains of each kind and length."""
    points = study.points("composite", "machines")
    kinds = ("word", "lemma", "tag", "dep")
    rows = {n: {kind: parse(f"hwcm(kind={kind},n={n})") for kind in kinds} for n in range(1, 5)}
    metrics = {str(metric): metric for row in rows.values() for metric in row.values()}
    scores = study.scores(points, metrics)
    found = tuple(
        Row(
            str(n),
            {kind: coefficients(points, scores[str(metric)])["kendall"] for kind, metric in row.items()},
            paper.HWCM[str(n)],
        )
        for n, row in rows.items()
    )
    note = "the paper does not say which kind it printed; it calls them dependency relationships"
    return Part(_on("length of chains (Table 7.6)", points), kinds, found, (note,))


def features(study: Study) -> Part:
    """LCEval beside its features and their plain mean: τ, and the p of the paired difference (images resampled)."""
    points = study.points("composite", "machines")
    metrics, notes = study.networks.metrics(["lceval"])
    if not metrics:
        raise InputError(notes[0])
    results = Evaluation((metrics["lceval"],), study.settings or Settings()).collected(points.captions)
    rows = results.run(points.captions)[metrics["lceval"]]
    scores = {"lceval": rows.items.array, **{name: rows.part_items[name].array for name in FEATURES}}
    scores["no learning"] = np.mean([scores[name] for name in FEATURES], axis=0)
    report = judge(points, {name: points.per_caption(values) for name, values in scores.items()})
    found = []
    for each in report.results:
        gap = {} if each.metric == "lceval" else {"p": report.difference("lceval", each.metric).p}
        found.append(Row(each.metric, {"kendall": (each.value or 0.0) / 100, **gap}))
    return Part(_on("LCEval and its features", points), ("kendall", "p"), tuple(found))


def accuracy(study: Study) -> Part:
    """Figure 7.8: accuracy in telling people's captions from machines', beside Kendall's τ."""
    points = study.points("composite", "clipscore2021")
    humans = np.array([id.endswith("#0") for id in points.ids])
    names = ("lceval", "nneval", *_GROUPS)
    metrics, notes = study.networks.metrics(names)
    scores = study.scores(points, metrics)
    balanced = {
        name: np.mean([(values[humans] > 0.5).mean(), (values[~humans] <= 0.5).mean()])
        for name, values in scores.items()
    }
    rows = tuple(
        Row(name, {"accuracy": float(balanced[name]), "kendall": coefficients(points, scores[name])["kendall"]})
        for name in metrics
    )
    return Part(
        _on("accuracy and agreement (Figure 7.8; accuracy: mean of both classes)", points),
        ("accuracy", "kendall"),
        rows,
        notes,
    )


def _paired(study: Study, title: str, of: Pairs, columns: tuple[str, ...], printed: paper.Table) -> Part:
    metrics, notes = study.networks.metrics([*HANDCRAFTED, *_GROUPS, "nneval", "lceval"])
    report = judge(of, study.scores(of, metrics), resamples=10)
    rows = [Row(name, _by_group(report[name].groups, report[name].value), printed.get(name, {})) for name in metrics]
    return Part(_on(title, of), columns, tuple(rows), notes)


def _by_group(by_group: Mapping[str, float], mean: float | None) -> dict[str, float]:
    return {**by_group, "mean": float(np.mean(list(by_group.values()))) if by_group else mean or 0.0}


def pascal(study: Study) -> Part:
    """Table 7.7: accuracy on the pairs of PASCAL-50S, by category."""
    pairs = study.pairs("pascal50s", "pascal-consensus")
    return _paired(study, "accuracy, % (Table 7.7)", pairs, paper.PASCAL, paper.PASCAL_PAIRS)


def abstract(study: Study) -> Part:
    """Table 7.8: accuracy on the pairs of ABSTRACT-50S."""
    pairs = study.pairs("abstract50s", "lceval")
    return _paired(study, "accuracy, % (Table 7.8)", pairs, paper.ABSTRACT, paper.ABSTRACT_PAIRS)


def distractions(study: Study) -> Part:
    """Table 7.9: accuracy on distractions, by task."""
    pairs = study.pairs("distractions", "lceval")
    return _paired(study, "accuracy, % (Table 7.9)", pairs, paper.TASKS, paper.DISTRACTIONS)


def references(study: Study) -> Part:
    """Figures 7.10 and B.1: accuracy on PASCAL-50S with 1, 3, 5 … references, over all pairs and over HC."""
    return _by_references(study, "pascal50s", "pascal-consensus")


def abstract_references(study: Study) -> Part:
    """The same on ABSTRACT-50S, whose pairs have 48 references."""
    return _by_references(study, "abstract50s", "lceval")


def _by_references(study: Study, benchmark: str, protocol: str) -> Part:
    whole = study.pairs(benchmark, protocol, "all")
    limit = int(whole.captions.references.lengths.max())
    names = ("bleu-4", "meteor", "cider-d", "spice", "spider", "wmd", "nneval", "lceval", "lceval-mean", "lceval-min")
    metrics, notes = study.networks.metrics(names)
    columns = tuple(f"{k}{of}" for k in range(1, limit + 1, 2) for of in ("", " HC"))
    found: dict[str, dict[str, float]] = {name: {} for name in metrics}
    for k in range(1, limit + 1, 2):
        pairs = study.pairs(benchmark, protocol, f"draw-{k}")
        report = judge(pairs, study.scores(pairs, metrics), resamples=10)
        for name in metrics:
            each = report[name]
            found[name] |= {f"{k}": _by_group(each.groups, each.value)["mean"], f"{k} HC": each.groups.get("HC", 0.0)}
    title = _on("accuracy, %, by number of references (Figures 7.10, B.1)", whole)
    return Part(title, columns, tuple(Row(name, values) for name, values in found.items()), notes)


def machines(study: Study) -> Part:
    """Table 7.10: networks trained against one system alone, beside that trained against all."""
    names = [*study.networks.against(), "lceval"]
    part = _correlated(study, "machine captions trained against (Table 7.10)", names, {})
    printed = {"lceval": {"kendall": paper.MACHINES["lceval"]["kendall"]}}
    rows = tuple(Row(row.name, row.found, printed.get(row.name, {})) for row in part.rows)
    others = [f"{name} {values['kendall']:.3f}" for name, values in paper.MACHINES.items() if name != "lceval"]
    return Part(part.title, part.columns, rows, (*part.notes, f"the paper's systems: {', '.join(others)}"))


def machines_pairs(study: Study) -> Part:
    """Table 7.11: the same networks on the pairs of PASCAL-50S."""
    pairs = study.pairs("pascal50s", "pascal-consensus")
    metrics, notes = study.networks.metrics([*study.networks.against(), "lceval"])
    report = judge(pairs, study.scores(pairs, metrics), resamples=10)
    printed = {"lceval": paper.PASCAL_PAIRS["lceval"]}
    rows = tuple(
        Row(name, _by_group(report[name].groups, report[name].value), printed.get(name, {})) for name in metrics
    )
    others = [f"{name} {values['mean']:.1f}" for name, values in paper.MACHINES.items() if name != "lceval"]
    note = f"the paper's systems, mean: {', '.join(others)}"
    return Part(_on("machine captions trained against (Table 7.11)", pairs), paper.PASCAL, rows, (*notes, note))


def timing(study: Study) -> Part:
    """Table 7.12: seconds for all candidates of PASCAL-50S with one reference each, every metric alone."""
    pairs = study.pairs("pascal50s", "pascal-consensus", "draw-1")
    names = ("bleu-4", "rouge-l", "meteor", "cider-d", "spice", "wmd", "mowe", "hwcm", "nneval", "lceval")
    metrics, notes = study.networks.metrics(names)
    warm = CaptionSet.from_captions([Caption("0", "0", "a dog", ("a dog runs",))])
    rows = []
    for name, metric in metrics.items():
        settings = study.settings or Settings()
        Evaluation((metric,), settings).collected(warm).run(warm)
        # a set of its own, so that no analysis is shared with the metric before
        captions = CaptionSet.from_captions(iter(pairs.captions))
        started = time.perf_counter()
        Evaluation((metric,), settings).collected(captions).run(captions)
        rows.append(Row(name, {"seconds": time.perf_counter() - started}, paper.TIMING.get(name, {})))
    note = "the paper's machine was another; nneval and lceval include their features"
    return Part(_on("seconds (Table 7.12)", pairs), ("seconds",), tuple(rows), (*notes, note))


def wmt16(study: Study) -> Part:
    """Table B.1: Kendall's τ with human judgments of translations, by language pair."""
    points = study.points("wmt16", "lceval")
    metrics, notes = study.networks.metrics([*HANDCRAFTED, *_GROUPS, "lceval"])
    report = judge(points, study.scores(points, metrics), resamples=10)
    rows = []
    for name in metrics:
        by_group = {group: value / 100 for group, value in report[name].groups.items()}
        rows.append(Row(name, _by_group(by_group, report[name].value), paper.WMT16.get(name, {})))
    columns = tuple(dict.fromkeys([*(key for row in rows for key in row.found if key != "mean"), "mean"]))
    return Part(_on("agreement on translations (Table B.1)", points), columns, tuple(rows), notes)


PARTS: dict[str, tuple[str, Callable[[Study], Part]]] = {
    "architectures": ("composite", architectures),
    "embeddings": ("composite", embeddings),
    "main": ("composite", main),
    "features": ("composite", features),
    "groups": ("composite", groups),
    "hwcm": ("composite", hwcm),
    "accuracy": ("composite", accuracy),
    "machines": ("composite", machines),
    "machines-pairs": ("pascal50s", machines_pairs),
    "pascal": ("pascal50s", pascal),
    "abstract": ("abstract50s", abstract),
    "distractions": ("distractions", distractions),
    "references": ("pascal50s", references),
    "references-abstract": ("abstract50s", abstract_references),
    "timing": ("pascal50s", timing),
    "wmt16": ("wmt16", wmt16),
}
"""Each part: the benchmark whose file it reads, and what it does."""
