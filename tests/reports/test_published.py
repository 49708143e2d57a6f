from __future__ import annotations

import re
from pathlib import Path

import pytest

from laplacianshot.episodes.methods import METHODS
from laplacianshot.episodes.results import Setting
from laplacianshot.episodes.tasks import PROTOCOLS
from laplacianshot.reports.published import STATUSES, Figure, load_published

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = load_published()


def value(key: str, method: str, shot: int, status: str, **facts: object) -> Figure:
    """The one figure that fits."""
    dataset, network = key.split("/")
    wanted = {"dataset": dataset, "network": network, "method": method, "shot": shot, "status": status}
    wanted |= {"ablation": None, "protocol": "balanced"} | facts
    (found,) = [f for f in PUBLISHED.figures if all(getattr(f, name) == w for name, w in wanted.items())]
    return found


@pytest.mark.parametrize(
    ("key", "shot", "published", "corrected"),
    [
        ("mini/wrn28_10", 1, 74.86, 73.44),
        ("mini/wrn28_10", 5, 84.13, 83.93),
        ("tiered/wrn28_10", 1, 80.18, 78.80),
        ("tiered/wrn28_10", 5, 87.56, 87.48),
        ("cub/resnet18", 1, 80.96, 79.90),
        ("cub/resnet18", 5, 88.68, 88.69),
    ],
)
def test_the_corrected_figures_stand_beside_those_they_replace(key, shot, published, corrected):
    assert value(key, "LaplacianShot", shot, "superseded").value == published
    assert value(key, "LaplacianShot", shot, "corrected").value == corrected


@pytest.mark.parametrize(
    ("key", "method", "shot", "status", "text"),
    [
        ("mini/resnet18", "LaplacianShot", 1, "never corrected", "72.11 ± 0.19"),
        ("mini/densenet121", "LaplacianShot", 5, "never corrected", "84.72 ± 0.13"),
        ("tiered/mobilenet", "SimpleShot", 1, "as published", "69.50 ± 0.22"),
        ("mini/wrn28_10", "BD-CSPN", 1, "as published", "70.31 ± 0.93"),
        ("mini-cub/resnet18", "LaplacianShot", 1, "never corrected", "55.46"),
        ("cub/resnet18", "SimpleShot", 5, "as published", "86.37"),
        ("mini/resnet18", "LaplacianShot", 1, "independent", "70.10"),
    ],
)
def test_figures_are_those_of_their_source(key, method, shot, status, text):
    assert value(key, method, shot, status).text == text


def test_conv4_on_cub_has_the_figures_of_its_source_and_says_which_one_is_from_memory():
    found = {figure.method: figure for figure in PUBLISHED.matching("cub/conv4", Setting())}
    assert {name: figure.status for name, figure in found.items() if figure.status != "as published"} == {
        "Baseline": "unconfirmed"
    }
    assert found["Baseline++"].text == "60.53 ± 0.83"
    assert found["MatchingNet"].text == "61.16 ± 0.89"
    assert value("cub/conv4", "ProtoNet", 5, "as published").text == "70.77 ± 0.69"
    assert "from memory" in " ".join(caveat.text for caveat in PUBLISHED.caveats_for("cub/conv4"))
    assert "from memory" not in " ".join(caveat.text for caveat in PUBLISHED.caveats_for("cub/resnet18"))


def test_with_imbalanced_queries_the_independent_figures_are_lower():
    one = value("mini/resnet18", "LaplacianShot", 1, "independent", protocol="dirichlet")
    five = value("mini/resnet18", "LaplacianShot", 5, "independent", protocol="dirichlet")
    assert (one.value, five.value) == (65.4, 81.6)


def test_every_figure_is_whole():
    for figure in PUBLISHED.figures:
        assert figure.status in STATUSES
        assert figure.source in PUBLISHED.sources
        assert figure.place
        assert figure.dataset in PUBLISHED.datasets
        assert figure.network is None or figure.network in PUBLISHED.networks
        assert figure.protocol in PROTOCOLS
        assert figure.ours is None or figure.ours in METHODS
        assert figure.measure == "seconds" or 40 < figure.value < 100
        assert figure.ci95 is None or 0 < figure.ci95 < 2


def test_a_figure_is_superseded_if_and_only_if_there_is_a_corrected_one():
    def facts(figure: Figure) -> tuple[object, ...]:
        return figure.key, figure.shot, figure.protocol

    ours = [f for f in PUBLISHED.figures if f.method == "LaplacianShot" and f.measure != "seconds"]
    whole = [f for f in ours if f.ablation in (None, "both") and f.source == "paper"]
    corrected = {facts(figure) for figure in ours if figure.status == "corrected"}
    assert len(corrected) == 6
    for figure in whole:
        assert figure.status == ("superseded" if facts(figure) in corrected else "never corrected")


def test_nothing_of_laplacianshot_in_the_paper_passes_without_a_mark():
    marked = {f.status for f in PUBLISHED.figures if f.method == "LaplacianShot" and f.measure != "seconds"}
    assert "as published" not in marked


def test_every_data_set_has_its_caveats():
    for key in PUBLISHED.keys:
        about = {caveat.about for caveat in PUBLISHED.caveats_for(key)}
        assert "convergence" in about
        assert ("leak" if key.startswith("inat") else "matching") in about


def test_the_published_figures_of_inat_belong_to_the_leaking_protocol():
    inat = [f for f in PUBLISHED.figures if f.dataset == "inat" and f.method == "LaplacianShot"]
    assert len(inat) == 18
    assert {figure.protocol for figure in inat} == {"inat-leaking-labels"}
    assert not [f for f in PUBLISHED.matching("inat/wrn28_10", Setting("inat")) if f.method == "LaplacianShot"]


@pytest.mark.parametrize(
    "setting",
    [Setting(way=20), Setting(shot=10), Setting(query=10), Setting("unequal"), Setting("dirichlet"), Setting("inat")],
)
def test_figures_are_given_for_tasks_of_the_same_kind_only(setting):
    assert len(PUBLISHED.matching("cub/resnet18", Setting())) == 8
    assert PUBLISHED.matching("cub/resnet18", setting) == ()


def test_corrected_figures_come_first_and_other_trainings_last():
    found = PUBLISHED.matching("cub/resnet18", Setting())
    assert [figure.status for figure in found[:2]] == ["corrected", "superseded"]
    assert [figure.ours for figure in found[:3]] == ["laplacianshot-reference"] * 2 + ["simpleshot-cl2"]
    assert {figure.ours for figure in found[3:]} == {None}


@pytest.mark.parametrize(
    ("key", "n_classes", "dimension", "why"),
    [
        ("cub/resnet18", 50, 512, None),
        ("cub/resnet18", 100, 512, "50 classes"),
        ("cub/resnet18", 50, 1280, "length 512"),
        ("mini/wrn28_10", 20, 640, None),
        ("inat/resnet50", 227, 2048, None),
        ("inat/resnet50", 227, 640, "length 512 or 2048"),
    ],
)
def test_features_that_cannot_be_of_that_network_are_told_why(key, n_classes, dimension, why):
    mismatch = PUBLISHED.mismatch(key, n_classes, dimension)
    assert mismatch is None if why is None else why in mismatch


def test_the_ablation_ends_in_the_main_tables():
    for dataset in ("mini", "tiered", "cub"):
        key = f"{dataset}/resnet18"
        for shot in (1, 5):
            rows = PUBLISHED.ablation(key, Setting(shot=shot))
            assert list(rows) == ["prototype", "laplacian", "rectified", "both"]
            status = "superseded" if dataset == "cub" else "never corrected"
            assert rows["both"].value == value(key, "LaplacianShot", shot, status).value
            assert rows["prototype"].value == value(key, "SimpleShot", shot, "as published").value


def test_the_page_about_published_figures_agrees_with_the_file():
    page = (ROOT / "docs/method/published-figures.md").read_text(encoding="utf-8")
    lines = [line.strip("| ").split("|") for line in page.splitlines() if re.match(r"\| (\*|CUB)", line)]
    keys = {"*mini*ImageNet, WRN": "mini/wrn28_10", "*tiered*ImageNet, WRN": "tiered/wrn28_10"}
    assert len(lines) == 3
    for name, *cells in lines:
        key = keys.get(name.strip(), "cub/resnet18")
        numbers = [float(cell.strip(" *")) for cell in cells]
        expected = [value(key, "LaplacianShot", n, s).value for n in (1, 5) for s in ("superseded", "corrected")]
        assert numbers == expected


def test_every_cell_of_the_papers_tables_is_in_the_file(shared):
    text = shared("paper/laplacianshot.tex").read_text(encoding="utf-8")
    cells = []
    for label in ("miniimagenet", "cub", "iNat", "ablation"):
        body = text[text.index(f"label{{tab:{label}}}") :]
        body = body[: body.index("end{tabular}")]
        cells += [float(number) for number in re.findall(r"\d\d\.\d+", re.sub(r"pm\$?\s*[\d.]+", "", body))]
    ours = [
        figure.value
        for figure in PUBLISHED.figures
        if figure.source == "paper" and figure.measure != "seconds" and "caption" not in figure.place
    ]
    assert sorted(ours) == sorted(cells)
