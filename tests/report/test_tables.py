"""Tables: LaTeX, Markdown and CSV, and their layout in terminals and pipes."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.page_examples import candidates, scored

from capmeter.captions.load import load
from capmeter.core.errors import InputError
from capmeter.core.messages import escape_controls
from capmeter.evaluation.registry import parse_list
from capmeter.evaluation.runner import evaluate
from capmeter.meta.comparison import compare
from capmeter.meta.system_ranking import explain_untested, rank_systems
from capmeter.report.comparison import difference_table
from capmeter.report.page import write_page
from capmeter.report.score_table import describe_note, score_table, scores_to_dict
from capmeter.report.tables import PIPE_WIDTH, Table, name_metrics, print_table, render, to_csv

TABLE = Table(
    "two & two",
    ["name", "a_b"],
    [["x|y*", "1.0 [0.9, 1.1]"], ["[l](http://x) <b>", "2.0"]],
    [False, True],
    "note",
    {(0, 1)},
)


def printed(table: Table, **options: object) -> str:
    text = io.StringIO()
    print_table(table, Console(file=text, width=PIPE_WIDTH, **options))  # type: ignore[arg-type]
    return text.getvalue()


def test_latex_sets_the_best_in_bold_and_escapes() -> None:
    text = render(TABLE, {}, "latex")
    assert text.endswith("\\end{tabular}\n% \\usepackage{booktabs}\n% two & two\n% note\n")
    assert text.startswith("\\begin{tabular}{lr}\n\\toprule\nname & a\\_b \\\\\n\\midrule\n")
    assert "x|y* & \\textbf{1.0} [0.9, 1.1] \\\\\n" in text


def test_markdown_sets_the_best_in_bold_and_makes_names_harmless() -> None:
    lines = render(TABLE, {}, "markdown").splitlines()
    assert lines[0] == "two &amp; two" and lines[-1] == "note"
    assert lines[2:6] == [
        "| name | a\\_b |",
        "| --- | ---: |",
        "| x\\|y\\* | **1.0** [0.9, 1.1] |",
        "| [l]\\(http://x) &lt;b> | 2.0 |",
    ]


def test_a_terminal_shows_bold_and_a_pipe_a_star() -> None:
    assert "1.0* [0.9, 1.1]" in printed(TABLE)
    assert "\x1b[1m1.0\x1b[0m" in printed(TABLE, force_terminal=True, color_system="standard")
    assert "1.0*" not in printed(TABLE, force_terminal=True)


def test_the_heading_holds_for_every_system() -> None:
    same = {"good": scored(candidates(40, 0)), "bad": scored(candidates(40, 2))}
    assert score_table(same).title == "40 captions of 40 images each"
    unequal = {**same, "partial": scored(candidates(7, 1))}
    table = score_table(unequal)
    assert table.title == "7 to 40 captions of 7 to 40 images"
    assert render(table, {}, "markdown").startswith("7 to 40 captions of 7 to 40 images\n")
    assert "% 7 to 40 captions of 7 to 40 images\n" in render(table, {}, "latex")
    counts = {name: system["counts"] for name, system in scores_to_dict(unequal)["systems"].items()}
    assert counts["bad"] == {"captions": 40, "images": 40} and counts["partial"] == {"captions": 7, "images": 7}
    assert score_table({"partial": unequal["partial"]}).title == "7 captions of 7 images"


def test_the_best_are_bold_whichever_way_the_table_lies() -> None:
    systems = {"good": scored(candidates(40, 0)), "bad": scored(candidates(40, 2))}
    standing = rank_systems(systems, resamples=200)
    long = score_table(systems, standing, digits=2)
    assert long.columns == ["metric", "good", "bad"] and long.bold == {(row, 1) for row in range(4)}
    assert long.rows[2][1].startswith("1.00 [1.00, 1.00]")
    more = {**systems, "c": systems["bad"], "d": systems["bad"]}
    wide = score_table(more, rank_systems(more, resamples=200))
    assert wide.columns[0] == "system" and wide.bold == {(0, column) for column in range(1, 5)}
    assert not score_table(systems).bold and not score_table(systems).note


def test_latex_is_ready_for_a_paper() -> None:
    """The field's names, bold without intervals too, scores times 100, and one orientation either way."""
    systems = {"good": scored(candidates(40, 0)), "bad_one": scored(candidates(40, 2)), "c": scored(candidates(40, 2))}
    systems |= {"d": systems["c"]}
    plain, bounded = (rank_systems(systems, resamples=50, intervals=inputs) for inputs in (False, True))
    text = render(score_table(systems, plain, 1, 100), {}, "latex")
    up = " $\\uparrow$"
    assert f"system & BLEU-1{up} & BLEU-4{up} & ROUGE-L{up} & CIDEr-D{up} \\\\" in text
    best = "\\textbf{100.0}\\textsuperscript{bcd}"
    assert f"good\\textsuperscript{{a}} & {best} & {best} & {best} & \\textbf{{" in text
    assert "bad\\_one\\textsuperscript{b} & " in text and "scores x 100" in text and "in brackets" not in text
    assert "\\toprule" in text and "\\midrule" in text and "\\bottomrule" in text
    score, low = systems["good"]["cider-d"].score, bounded["cider-d"].intervals["good"].low
    wide = score_table(systems, bounded, 1, 100)
    assert wide.rows[0][4].startswith(f"{100 * score:.1f} [{100 * low:.1f}, ")
    assert (wide.columns, wide.bold) == (score_table(systems, plain, 1, 100).columns, {(0, m) for m in range(1, 5)})
    few = {name: systems[name] for name in ("good", "c")}
    for standing in (rank_systems(few, resamples=50), rank_systems(few, intervals=False), None):
        table = score_table(few, standing)
        assert table.columns == ["metric", "good", "c"]
        assert f"CIDEr-D{up} & " in render(table, {}, "latex") and "cider-d" in render(table, {}, "markdown")
        assert score_table(few, standing, systems_as_rows=True).columns[1:] == [row[0] for row in table.rows]
    ranked = Table(
        "", ["my system", "x"], [["my system", "1 c"]], [False, False], "", {(0, 1)}, {(0, 0): "a", (-1, 0): "b"}
    )
    lines = render(ranked, {}, "latex").splitlines()
    assert lines[2] == "my system\\textsuperscript{b} & x \\\\"
    assert lines[4] == "my system\\textsuperscript{a} & \\textbf{1} c \\\\"
    lone = score_table({"good": systems["good"]}, None, 1, 100, systems_as_rows=True)
    assert (lone.columns[0], lone.rows[0][:2]) == ("system", ["good", "100.0"])


@pytest.mark.parametrize(
    ("names", "short"),
    [
        ("chair(objects=a/o.json) chair(level=caption,objects=a/o.json)", ["chair", "chair · caption"]),
        ("chair(objects=a/o.json) chair(objects=b/o.json)", ["chair(objects=a/o.json)", "chair(objects=b/o.json)"]),
        ("bertscore(idf=true,score=precision) bleu-4", ["bertscore", "bleu-4"]),
        ("cider-d cider-d(idf=/x/train.json,sigma=8.0)", ["cider-d", "cider-d · idf=train.json, sigma=8.0"]),
        ("mean(bleu-4,cider-d) mean(bleu-4,meteor(x=1))", ["mean · cider-d", "mean · meteor(x=1)"]),
        ("mean(a,b) mean(b,a)", ["mean(a,b)", "mean(b,a)"]),
        ("b(x=true,y=false) b(x=false,y=true) (v2) a(b", ["b · x, y=false", "b · x=false, y", "(v2)", "a(b"]),
    ],
)
def test_names_are_shortened_to_what_differs(names: str, short: list[str]) -> None:
    metrics = name_metrics(names.split(), lower={names.split()[0]})
    assert list(metrics.values()) == short and [each.full for each in metrics.values()] == names.split()
    table = Table("", ["metric", "x"], [[name, "1"] for name in metrics.values()], [False, True], "note")
    shortened = [name for name in names.split() if metrics[name] != name]
    full = f"; in full: {', '.join(shortened)}" if shortened else ""
    assert table.full_note == f"note; lower is better: {short[0]}{full}"
    assert to_csv(table).split("\n")[1].strip('"').startswith(names.split()[0]), "programs get what can be parsed"
    assert "\\downarrow" in render(table, {}, "latex").split("\\\\")[1]


def test_a_table_says_why_nothing_is_bold() -> None:
    one = scored(candidates(20, 0), prefix="x")
    systems = {"a": one, "b": scored(candidates(20, 0))}
    table = score_table(systems, rank_systems(systems, resamples=50), untested=explain_untested(systems))
    assert not table.bold and table.note.endswith("different images, so their differences were not tested")


def test_machines_are_told_who_is_best() -> None:
    systems = {"good": scored(candidates(40, 0)), "bad": scored(candidates(40, 2), metrics="rouge-l")}
    standing = rank_systems(systems, resamples=200)
    data = scores_to_dict(systems, standing)["systems"]
    assert data["good"]["metrics"]["rouge-l"]["best"] and data["good"]["metrics"]["rouge-l"]["above"] == ["bad"]
    assert "best" not in data["good"]["metrics"]["bleu-1"]  # only one system was scored by it
    table = score_table(systems, standing)
    assert [row[2] for row in table.rows] == ["-", "-", data_row(data), "-"]
    rows = list(csv.DictReader(io.StringIO(render(table, scores_to_dict(systems, standing), "csv"))))
    assert float(rows[-1]["score"]) == systems["bad"]["rouge-l"].score


def data_row(data: dict) -> str:  # type: ignore[type-arg]
    result = data["bad"]["metrics"]["rouge-l"]
    return f"{result['score']:.4f} [{result['low']:.4f}, {result['high']:.4f}]"


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(InputError, match="expected one of table, json, csv, latex, markdown"):
        render(TABLE, {}, "html")


def test_numbers_are_never_broken_on_a_narrow_terminal() -> None:
    systems = {f"system_number_{k}": scored(candidates(20, k)) for k in range(4)}
    table = score_table(systems, rank_systems(systems, resamples=50))
    text = io.StringIO()
    print_table(table, Console(file=text, width=64, force_terminal=True, color_system=None))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 64
    for number, system in enumerate(systems):
        for row in table.rows:
            assert any(line.split()[:1] == [row[0]] and row[number + 1] in line for line in lines), (system, row)
    assert sum(line.split()[:1] == ["system"] for line in lines) > 1  # parts, one below the other


def test_a_table_that_fits_stays_whole() -> None:
    text = io.StringIO()
    table = Table(
        "", ["metric", "a long heading of words", "text"], [["bleu-4", "0.1234", "words " * 30]], [False, True, False]
    )
    print_table(table, Console(file=text, width=60))
    assert text.getvalue().count("bleu-4") == 1 and "0.1234" in text.getvalue()


def test_latex_takes_any_name() -> None:
    table = Table("", ["name", "a^b"], [["[ours]", "1"], ["*", "2"]], [False, True])
    lines = render(table, {}, "latex").splitlines()
    assert lines[2] == "name & a\\textasciicircum{}b \\\\"
    assert lines[4:6] == ["{}[ours] & 1 \\\\", "{}* & 2 \\\\"]


@pytest.mark.parametrize(
    "table",
    [
        TABLE,
        Table("", ["n 二つ", "b"], [["二つの猫", "é"], ["a\tb\n\x1b[31m", "  x "]], [False, False]),
        Table("no rows", ["metric", "score"], [], [False, True], "bold: [red]none[/red]"),
        Table("t  ", ["", "b"], [["", ""]], [True, False]),
    ],
)
def test_a_pipe_gets_the_text_of_every_cell_without_control_characters(table: Table) -> None:
    text = printed(table)
    lines = text.splitlines()
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if escape_controls(table.title).strip() in line] or not table.title
    for row in [table.columns, *table.rows]:
        words = [word for cell in row for word in escape_controls(str(cell)).split()]
        assert any(all(word in line for word in words) for line in lines), row
    assert escape_controls(table.note.replace("bold:", "*:")) in text and "bold:" not in text


def test_no_line_is_longer_than_a_pipe() -> None:
    rows = [[f"caption {k}", "a dog runs on the grass " * 20, "0.1234"] for k in range(3)]
    table = Table("captions " * 40, ["id", "caption", "score"], rows, [False, False, True], "a note of words " * 30)
    lines = printed(table).splitlines()
    assert max(map(len, lines)) <= PIPE_WIDTH and sum("0.1234" in line for line in lines) == 3
    assert " ".join(" ".join(lines).split()).count("a dog runs on the grass") >= 3


def test_long_names_leave_numbers_whole() -> None:
    rows = [["bertscore(encoder=roberta,layer=17,rescale=true)", "0.1234"]]
    text = io.StringIO()
    print_table(Table("", ["metric", "score"], rows, [False, True]), Console(file=text, width=36))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 36 and any(line.split()[-1:] == ["0.1234"] for line in lines)


def test_an_id_is_not_read_as_a_number_of_captions() -> None:
    described = describe_note("truncated", list("1234567"), set("1234567"))
    assert described == "truncated: 7 captions: 1, 2, 3, 4, 5 and 2 more"
    assert describe_note("skipped_without_references", ["9"]) == "skipped without references: caption 9"
    assert describe_note("unknown_fields", ["licence", "url"], {"1"}) == "unknown fields: licence, url"


@pytest.mark.parametrize(
    ("row", "noun"),
    [
        ({"video_id": "v1", "caption": "a dog", "references": ["a dog"]}, "video"),
        ({"audio_id": "s1.wav", "caption": "a dog", "references": ["a dog"]}, "sound"),
        ({"image_id": "1", "timestamps": [[0, 1]], "sentences": ["a dog"], "references": ["a dog"]}, "video"),
        ({"image_id": "1", "timestamps": [[0, 1, 2, 3]], "sentences": ["a dog"], "references": ["a dog"]}, "image"),
        ({"image_id": "1", "caption": "a dog", "references": ["a dog"]}, "image"),
    ],
)
def test_videos_are_called_videos_and_sounds_sounds(row: dict[str, Any], noun: str, tmp_path: Path) -> None:
    systems = {name: evaluate(load([row]), parse_list("bleu-1")) for name in ("one", "two")}
    table = score_table(systems, rank_systems(systems, resamples=10))
    assert table.title == f"1 caption of 1 {noun} each" and f"{noun}s resampled" in table.note
    page = write_page(systems, tmp_path / "page.html", resamples=10).path.read_text("utf-8")
    assert f"2 captions of 1 {noun} by 2 systems" in page and f"10 resamples of {noun}s" in page
    comparison = compare({name: load([row]) for name in systems}, "bleu-1", resamples=10, permutations=100)
    assert f"1 {noun} each" in difference_table(comparison).title and f"by {noun}" in difference_table(comparison).note
