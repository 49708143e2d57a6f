from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from laplacianshot.episodes.results import Evaluations, Setting
from laplacianshot.reports.evaluation import (
    EvaluationReport,
    ablation_table,
    classes_table,
    convergence_table,
    csv_text,
    overview_table,
    published_tables,
    setting_table,
    short_name,
    timing_table,
    verdict,
)
from laplacianshot.reports.evaluation_page import PAGE, report_drawings, report_page, write_evaluation
from laplacianshot.reports.table import Table, row, to_markdown
from tests.reports.made_up import MEANS, convergence, evaluations, report

FEW = Setting(tasks=200)


def page_of(made: EvaluationReport) -> str:
    return report_page(made, report_drawings(made))


def column(table: Table, name: str) -> list[str]:
    return [entry.cells[table.head.index(name)].text for entry in table.rows]


class Cells(HTMLParser):
    """Texts of the cells of all tables, table by table and row by row; void of what is not a table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._inside = True

    def handle_endtag(self, tag):
        self._inside = self._inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self._inside:
            self.tables[-1][-1][-1] += data


def test_the_table_of_a_setting_has_the_best_on_top_and_the_default_in_bold():
    table = setting_table(evaluations(FEW))
    assert column(table, "Method") == sorted(MEANS, key=lambda name: -MEANS[name])
    assert [entry.bold for entry in table.rows] == [True, False, False, False, False]
    assert column(table, "To the best")[0] == "best"
    assert column(table, "To prototype")[-1] == "-"


def test_differences_are_paired():
    found = evaluations(FEW)
    table = setting_table(found)
    difference = np.asarray(found["bd-cspn"].accuracies) - found["simpleshot-cl2"].accuracies
    ci95 = 1.96 * difference.std(ddof=1) / np.sqrt(200)
    assert column(table, "To prototype")[2] == f"{100 * difference.mean():+.2f} ± {100 * ci95:.2f}"


def test_clear_differences_are_marked_and_others_are_not():
    rng = np.random.default_rng(1)
    found = evaluations(FEW, {"simpleshot-cl2": 0.7, "laplacianshot": 0.8, "bd-cspn": 0.6})
    same = replace(found["simpleshot-cl2"], method="ridge")
    same = replace(same, accuracies=same.accuracies + 0.1 * rng.standard_normal(200))
    table = setting_table(Evaluations((*found, same)))
    tones = {entry.cells[0].text: entry.cells[2].tone for entry in table.rows}
    assert tones == {"laplacianshot": "good", "bd-cspn": "bad", "ridge": "quiet", "simpleshot-cl2": "quiet"}


def test_methods_on_fewer_tasks_are_marked_and_named():
    table = setting_table(evaluations(FEW, slow=50))
    marked = dict(zip(column(table, "Method"), column(table, "Accuracy, %"), strict=True))
    assert [name for name, text in marked.items() if text.endswith("†")] == ["label-spreading-rbf"]
    assert "label-spreading-rbf 50" in table.notes[1]
    assert "200 tasks" in table.notes[1]


def test_without_a_prototype_there_is_no_such_column():
    table = setting_table(evaluations(FEW, {"bd-cspn": 0.7, "ridge": 0.6}))
    assert table.head == ("Method", "Accuracy, %", "To the best", "ms/task")


def test_one_task_has_no_interval():
    table = setting_table(evaluations(Setting(tasks=1), {"bd-cspn": 0.7}))
    assert re.fullmatch(r"\d\d\.\d\d", column(table, "Accuracy, %")[0])


def test_an_interrupted_table_says_so():
    found = evaluations(FEW)
    partial = Evaluations(tuple(replace(e, accuracies=e.accuracies[:30], interrupted=True) for e in found))
    assert any("interrupted" in note for note in setting_table(partial).notes)


def test_the_inat_task_shows_accuracy_per_class_and_no_shot():
    setting = Setting("inat", way=227, tasks=1)
    table = setting_table(evaluations(setting, {"simpleshot-cl2": 0.5, "laplacianshot": 0.6}))
    assert table.title == "227-way, inat"
    assert column(table, "Per class, %") == ["55.00", "45.00"]
    assert "1-shot" not in setting.description


@pytest.mark.parametrize(
    ("setting", "title", "short", "slug"),
    [
        (Setting(), "5-way 1-shot, balanced", "5w 1s balanced", "5-way-1-shot-balanced"),
        (Setting(shot=(1, 5)), "5-way 1-5-shot, balanced", "5w 1-5s balanced", "5-way-1-5-shot-balanced"),
        (Setting("dirichlet", way=20), "20-way 1-shot, dirichlet", "20w 1s dirichlet", "20-way-1-shot-dirichlet"),
        (
            Setting("present", way=20, present=5),
            "20-way 1-shot, 5 present",
            "20w 1s 5 present",
            "20-way-1-shot-5-present",
        ),
        (
            Setting("present", way=20, present=5, total_queries=75),
            "20-way 1-shot, 5 present, 75 queries",
            "20w 1s 5 present, 75 queries",
            "20-way-1-shot-5-present-75-queries",
        ),
        (Setting("inat", way=227), "227-way, inat", "inat", "227-way-inat"),
    ],
)
def test_settings_have_names_for_titles_columns_and_files(setting, title, short, slug):
    assert setting.title == title
    assert short_name(setting, [setting, Setting("unequal")]) == short
    assert setting.slug == slug


def test_the_protocol_is_left_out_of_columns_where_there_is_but_one():
    assert short_name(Setting(), [Setting(), Setting(shot=5)]) == "5w 1s"


def test_columns_name_the_number_of_present_classes_where_it_differs():
    one, five = (Setting("present", way=20, present=present) for present in (1, 5))
    assert [short_name(setting, [one, five]) for setting in (one, five)] == ["20w 1s 1 present", "20w 1s 5 present"]
    assert short_name(one, [one]) == "20w 1s"


def test_tasks_with_absent_classes_say_how_they_were_drawn():
    assert "300 queries of 5 of the 20 classes" in Setting("present", way=20, present=5).description
    assert "75 queries of 5" in Setting("present", way=20, present=5, total_queries=75).description


def test_dirichlet_tasks_say_how_they_were_drawn():
    assert "40 queries, class shares" in Setting("dirichlet", total_queries=40).description
    assert "75 queries, class shares Dirichlet(0.5)" in Setting("dirichlet", alpha=0.5).description


def test_classes_come_hardest_first_and_those_never_asked_for_not_at_all():
    table = classes_table(evaluations(FEW))
    assert table.head == ("Class", "laplacianshot, %", "simpleshot-cl2, %")
    assert [[cell.text for cell in entry.cells] for entry in table.rows] == [
        ["coot", "70.0", "60.0"],
        ["auk", "80.0", "70.0"],
    ]
    shorter = classes_table(evaluations(FEW, {"ridge": 0.5}), max_classes=1)
    assert [entry.cells[0].text for entry in shorter.rows] == ["coot"]
    assert shorter.notes == ("The 1 hardest of 2 classes.",)


def test_the_overview_holds_the_gains_of_all_settings():
    one, five = evaluations(FEW), evaluations(replace(FEW, shot=5))
    table = overview_table([one, five])
    assert table.title == "Gain over simpleshot-cl2, points"
    assert table.head == ("Method", "5w 1s", "5w 5s")
    assert "simpleshot-cl2" not in column(table, "Method")
    gain = one.difference("laplacianshot", "simpleshot-cl2").mean
    assert column(table, "5w 1s")[0] == f"{100 * gain:+.2f}"


def test_the_overview_shows_accuracies_where_no_prototype_was_run():
    found = [evaluations(replace(FEW, shot=shot), {"bd-cspn": 0.7, "ridge": 0.6}) for shot in (1, 5)]
    table = overview_table(found)
    assert table.title == "Accuracy, %"
    assert column(table, "5w 1s")[0] == f"{100 * found[0]['bd-cspn'].mean:.2f}"


def test_the_ablation_has_the_papers_four_rows_and_its_figures_only_on_demand():
    found = report().ablation[0]
    table = ablation_table(found)
    switches = [tuple(cell.text for cell in entry.cells[:3]) for entry in table.rows]
    assert switches == [("yes", "no", "no"), ("yes", "yes", "no"), ("yes", "no", "yes"), ("yes", "yes", "yes")]
    assert table.head[-1] == "To prototype"
    published = ablation_table(found, "mini/resnet18")
    assert column(published, "Published, %")[1] == "66.20 (never corrected)"


def test_convergence_counts_updates_and_rises():
    table = convergence_table(
        [convergence("laplacianshot", FEW), convergence("laplacianshot-reference", FEW, rising=3)]
    )
    assert column(table, "Mean updates") == ["9.0", "9.0"]
    assert column(table, "Maximum") == ["10", "10"]
    assert column(table, "Settled") == ["75.0%", "75.0%"]
    assert column(table, "Tasks with a rise") == ["0", "3"]


def test_times_are_compared_with_the_prototype_and_sorted():
    table = timing_table(evaluations(FEW))
    assert column(table, "ms/task") == ["0.100"] * 3 + ["0.400"] * 2
    assert column(table, "x simpleshot-cl2") == ["1.0"] * 3 + ["4.0"] * 2
    assert column(table, "Tasks/s")[-1] == "2,500"


def test_published_figures_bring_their_caveats_and_the_users_claim():
    (table,) = published_tables("cub/resnet18", [evaluations(FEW)])
    assert column(table, "Published, %")[:2] == ["79.90", "80.96"]
    ours = dict(zip(column(table, "Method"), column(table, "Ours, %"), strict=True))
    assert ours["SimpleShot"].startswith("69.9")
    assert ours["ProtoNet"] == ""
    assert table.notes[0].startswith("Ours are centered at each task")
    assert "claim" in table.notes[1]
    assert any("Hungarian" in note for note in table.notes)


def test_where_nothing_was_published_nothing_is_printed_but_that():
    table, last = published_tables("cub/resnet18", [evaluations(replace(FEW, way=20)), evaluations(FEW)])
    assert table.rows == ()
    assert table.notes == ("There is no published figure of CUB, ResNet-18 for these tasks.",)
    assert len(last.rows) == 8


def test_without_the_users_word_no_published_figure_is_anywhere():
    silent = report(published=None)
    for text in (page_of(silent), json.dumps(silent.to_dict()), to_markdown(silent.tables())):
        assert "79.90" not in text
        assert "Hungarian" not in text


@pytest.mark.parametrize(
    ("means", "sentence"),
    [
        (
            {"simpleshot-cl2": 0.7, "laplacianshot": 0.8, "bd-cspn": 0.75},
            r"laplacianshot is best with 80\.\d\d%: .* points ahead of bd-cspn and .* points ahead of simpleshot-cl2\.",
        ),
        (
            {"simpleshot-cl2": 0.7, "laplacianshot": 0.8, "bd-cspn": 0.85},
            r"bd-cspn is best with 8\d\.\d\d%\. laplacianshot is .* points behind bd-cspn and .* points ahead of "
            r"simpleshot-cl2\.",
        ),
        (
            {"simpleshot-cl2": 0.7, "laplacianshot": 0.6},
            r"simpleshot-cl2 is best with \d\d\.\d\d%\. laplacianshot is .* points behind simpleshot-cl2\.",
        ),
        (
            {"simpleshot-cl2": 0.7, "ridge": 0.6},
            r"simpleshot-cl2 is best with \d\d\.\d\d%: .* points ahead of ridge\.",
        ),
        ({"ridge": 0.6}, r"ridge is best with \d\d\.\d\d%\."),
    ],
)
def test_the_verdict_is_plain_about_wins_and_losses(means, sentence):
    assert re.fullmatch(sentence, verdict(evaluations(FEW, means)))


def test_the_dictionary_is_strict_json_even_with_one_task():
    small = report(evaluations=(evaluations(Setting(tasks=1)),), published=None)
    document = json.loads(json.dumps(small.to_dict(), allow_nan=False))
    assert document["results"][0]["evaluations"][0]["ci95"] is None
    assert document["results"][0]["evaluations"][0]["class_accuracies"]["<b>bittern</b>"] is None


def test_csv_has_a_line_a_method_and_setting_with_the_numbers_of_the_json():
    everything = report()
    lines = list(csv.DictReader(io.StringIO(csv_text(everything))))
    found = [e for result in everything.to_dict()["results"] for e in result["evaluations"]]
    assert len(lines) == len(found) == 10
    for line, entry in zip(lines, found, strict=True):
        assert line["method"] == entry["method"]
        assert float(line["mean"]) == entry["mean"]
        assert float(line["to_best"]) == entry["difference_to_best"]["mean"]
        assert float(line["to_prototype"]) == entry["difference_to_prototype"]["mean"]
        assert int(line["tasks"]) == entry["tasks"]
        assert line["file"] == "birds & co.npz"


def test_csv_of_nothing_is_a_line_of_names():
    nothing = report(evaluations=())
    assert csv_text(nothing).strip() == "method"


def test_the_numbers_of_the_page_are_those_of_the_json():
    everything = report()
    pages = [table[1:] for table in Cells(page_of(everything)).tables if table[0][1] == "Accuracy, %"]
    assert len(pages) == 2
    for page, result in zip(pages, everything.to_dict()["results"], strict=True):
        expected = sorted(result["evaluations"], key=lambda entry: -entry["mean"])
        assert [line[0] for line in page] == [entry["method"] for entry in expected]
        for line, entry in zip(page, expected, strict=True):
            assert line[1].rstrip("†") == f"{100 * entry['mean']:.2f} ± {100 * entry['ci95']:.2f}"
            gap = entry["difference_to_best"]
            best = entry["method"] == result["best"]
            assert line[3] == ("best" if best else f"{100 * gap['mean']:+.2f} ± {100 * gap['ci95']:.2f}")


def test_the_page_loads_nothing_and_runs_nothing():
    page = page_of(report())
    assert "http" not in page
    assert "<script" not in page
    assert re.findall(r'(?:src|href)="(?!#)', page) == []
    assert re.findall(r"url\((?!#)", page) == []
    assert "@import" not in page


def test_links_within_the_page_have_a_target_and_ids_are_unique():
    page = page_of(report())
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(ids)


def test_names_with_markup_in_them_are_text():
    page = page_of(report(command="evaluate '<script>.npz'"))
    assert "birds &amp; co.npz" in page
    assert "<script" not in page


def test_figures_take_the_colors_of_the_page():
    svg = page_of(report()).split("<figure>")[1].split("</svg>")[0]
    assert "var(--blue)" in svg
    assert "#0072b2" not in svg.lower()
    assert 'role="img"' in svg
    assert "laplacianshot-reference</text>" in svg


def test_an_interrupted_report_says_so_on_top():
    assert "Partial result" in page_of(report(interrupted=True)).split("<nav>")[0]


def test_the_report_fills_a_folder_and_leaves_no_litter(tmp_path):
    write_evaluation(report(), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {PAGE, "results.json", "results.csv", "tables.md", "accuracy-5-way-1-shot-balanced.svg"} <= names
    assert sum(name.endswith(".svg") for name in names) == 2 + 3 + 2
    assert not [name for name in names if name.startswith(".")]
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8")) == report().to_dict()


def test_the_same_result_gives_the_same_files(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_evaluation(report(), tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_markdown_keeps_bars_in_cells_apart_from_those_of_the_table():
    text = to_markdown([Table("T", ("a", "b"), (row("x|y", "1"),), ("note",))])
    assert "| x\\|y | 1 |" in text
    assert text.endswith("\nnote\n")
