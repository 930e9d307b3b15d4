"""The page as text: what it says, what it leaves out, and that names stay names."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
import torch
from numpy.testing import assert_allclose

import unclump as uc
from tests.report.conftest import HOSTILE, embedded
from tests.small_tables import clump, seeded
from unclump.report import report
from unclump.report.comparison import compare
from unclump.report.table_view import measure_table
from unclump.report.text import embed_json, escape, make_printable


class Elements(HTMLParser):
    """All elements of a page with their attributes, in order."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_comes_back_out_of_the_data_and_out_of_nothing_else(name):
    text = embed_json([make_printable(name)])
    assert json.loads(text) == [make_printable(name)]
    assert text.isascii()
    assert not set(text) & set("<>&")
    assert not set(escape(name)) & set("<>\"'")


def test_what_cannot_be_seen_is_written_out():
    assert make_printable("a\u202eb\x1b\udcff\u2028") == r"a\u202eb\x1b\udcff\u2028"
    assert make_printable("naïve 中文 שלום") == "naïve 中文 שלום"
    assert len(make_printable("x" * 10**6)) == 80


def test_names_add_no_element_and_no_attribute_to_the_page():
    x = clump(90, 8)
    x[: len(HOSTILE)] = x[0]
    plain = [f"word {k}" for k in range(90)]
    hostile = HOSTILE + plain[len(HOSTILE) :]
    elements = [
        [(tag, sorted(attributes)) for tag, attributes in Elements(report(uc.Table(x, names=names))).found]
        for names in (plain, [name or "-" for name in hostile])
    ]
    assert elements[0] == elements[1]


def test_the_policy_allows_the_style_and_the_script_of_the_page_and_no_more():
    page = report(uc.Table(torch.eye(4)))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1)
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (
            re.search(r"<style>(.*?)</style>", page, re.S).group(1),
            re.search(r"<script>(.*?)</script>", page, re.S).group(1),
        )
    ]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )
    for tag, attributes in Elements(page).found:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form"}
        assert not attributes.keys() & {"src", "style", "srcset", "onclick", "onload"}
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)


def test_the_same_table_gives_the_same_page():
    table = uc.Table(clump(50, 6))
    assert report(table) == report(table)
    other = report(table, generator=torch.Generator().manual_seed(1))
    assert len(other) > 10_000


def test_planted_clumps_are_listed_with_their_names():
    x = torch.randn(200, 16, generator=seeded(5))
    x[[3, 30, 60]] = x[0].clone()
    page = report(uc.Table(x, names=[f"word-{k}" for k in range(200)]), layout="pca")
    listed = re.search(r"<h2>Near duplicates.*?</section>", page, re.S).group(0)
    assert re.findall(r"word-\d+", listed) == ["word-0", "word-3", "word-30", "word-60"]
    assert "same direction" in listed


def test_without_clumps_the_closest_pairs_are_listed():
    x = torch.eye(6) + 0.1 * torch.randn(6, 6, generator=seeded(7))
    x[5] = x[2] + 0.5 * x[5]
    page = report(uc.Table(x, names=list("abcdef")))
    listed = re.search(r"Closest pairs.*?</section>", page, re.S).group(0)
    assert re.findall(r'class="name">(\w)<', listed)[:2] in (["c", "f"], ["f", "c"])


def test_rows_without_a_direction_are_named_and_left_out():
    x = clump(40, 5)
    x[7], x[11, 2] = 0, torch.nan
    page = report(uc.Table(x, names=[f"word-{k}" for k in range(40)]))
    listed = re.search(
        r"Rows without a direction, *.*?</section>|Rows without a direction</h2>.*?</section>", page, re.S
    )
    assert re.findall(r"word-\d+", listed.group(0)) == ["word-7", "word-11"]
    names = embedded(page)["names"]
    assert {"word-7", "word-11"}.isdisjoint(names)
    assert "word-12" in names


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 3), (5, 2), (4, 300), (6000, 3)])
def test_tables_of_odd_sizes_have_a_page(n, d):
    page = report(uc.Table(torch.randn(n, d, generator=seeded(1))))
    seen = page[page.index("<main>") : page.index("</main>")].lower()
    assert "nan" not in re.sub(r"[\w-]*nan[\w-]+|[\w-]+nan[\w-]*", "", seen).replace("nan, infinite", "")
    assert len(page) < 120_000 + 120 * n


def test_a_table_of_one_direction_has_a_page():
    assert "Near duplicates" in report(uc.Table(torch.ones(30, 4)))


def test_a_view_of_a_table_holds_no_copy_of_it():
    table = uc.Table(torch.randn(3000, 40, generator=seeded(3)).half())
    table.points[5] = 0
    view = measure_table(table, seeded(), progress=False)
    assert [part.data_ptr() for part in view.table.parts] == [table.points.data_ptr()]
    others = [part for part in vars(view).values() if isinstance(part, torch.Tensor)]
    assert sum(part.numel() for part in others) <= 2 * 3000  # numbers and norms


def test_moves_and_neighbours_kept_are_those_of_the_rows_in_both():
    before, after = clump(60, 5), clump(60, 5) + 0.3 * torch.randn(60, 5, generator=seeded(2))
    after[4] = 0
    views = [measure_table(uc.Table(x), seeded(), progress=False) for x in (before, after)]
    comparison = compare(*views, seeded())
    rows = [k for k in range(60) if k != 4]
    assert comparison.rows.tolist() == rows
    assert_allclose(comparison.moves, uc.angle(*(uc.project(x[rows].double()) for x in (before, after))), atol=2e-7)
    kept = []
    cosines = [(y @ y.mT).tolist() for y in (uc.project(x[rows].double()) for x in (before, after))]
    for row in range(59):
        near = [
            sorted((k for k in range(59) if k != row), key=lambda k: -similarity[k])[:10]
            for similarity in (c[row] for c in cosines)
        ]
        kept.append(len(set(near[0]) & set(near[1])) / 10)
    assert comparison.overlap == pytest.approx(sum(kept) / len(kept))


def test_new_rows_at_the_end_have_no_match_and_are_said():
    before = clump(40, 5)
    page = report(uc.Table(before), uc.Table(torch.cat([before, torch.eye(5)])))
    assert "5 rows at the end are in one table only" in page
    assert re.search(r"Rows that stayed</p>\s*<p[^>]*>40<", page)


def test_tables_of_other_dimensions_are_refused():
    with pytest.raises(ValueError, match="the same dimension, got 4 and 5"):
        report(uc.Table(clump(9, 4)), uc.Table(clump(9, 5)))


@pytest.mark.parametrize("planted", ["nothing", "equal rows", "near duplicates", "a cone", "few dimensions"])
def test_headline_tiles_and_figures_name_the_same_faults(planted):
    x = torch.randn(300, 12, generator=seeded(3))
    if planted == "equal rows":
        x[5] = x[9]
    elif planted == "near duplicates":
        x[5] = x[9] + 1e-4 * x[5]
    elif planted == "a cone":
        x[:, 0] += 9
    elif planted == "few dimensions":
        x[:, 3:] *= 0.01
    measured = uc.health(x)
    page = report(uc.Table(x), measured=measured, layout="pca")
    badge = re.search(r'class="state (\w+)">.*?</svg>(.*?)</p>', page)
    tiles = dict(
        re.findall(r'class="card tile( fault)?"><p class="label">([\w ]+?) ?<', page)[i][::-1] for i in range(4)
    )
    assert badge.group(1) == ("good" if planted == "nothing" else "bad")
    assert badge.group(2).lower().split(" · ") == list(measured.verdict.findings)
    has_duplicates = not {"duplicates", "near-duplicates"}.isdisjoint(measured.verdict.findings)
    assert (tiles["Near duplicates"] != "") == has_duplicates
    assert (tiles["Mean cosine"] != "") == ("cone" in measured.verdict.findings)
    assert (tiles["Centred effective rank"] != "") == ("rank" in measured.verdict.findings)
    count = re.search(r"Near duplicates.*?class=\"value\">(\d+)<", page, re.S).group(1)
    assert (count != "0") == has_duplicates
    assert ("fault-mark" in page.split("</style>")[1].split("<script")[0]) == (not measured.verdict.is_healthy)
    assert {"nothing": "healthy", "equal rows": "equal", "near duplicates": "nearly coincide"}.get(
        planted, measured.verdict.text.split(":")[0]
    ) in re.search(r"<h1>(.*?)</h1>", page).group(1).lower()


@pytest.mark.parametrize(
    ("planted", "headline", "lead"),
    [
        ("no direction", "1 row has no direction.", "NaN, infinite or zero. First drop or replace it."),
        ("a constant", "Dead dimensions: 1 of 12 is constant.", "7. Drop it."),
        ("a cone", "A cone: the rows share one direction.", "Mean cosine 0.99."),
    ],
)
def test_a_parenthesis_and_the_advice_after_it_are_sentences_below_the_headline(planted, headline, lead):
    x = torch.randn(300, 12, generator=seeded(3))
    if planted == "no direction":
        x[5] = torch.nan
    elif planted == "a constant":
        x[:, 7] = 1.0
    else:
        x[:, 0] += 30
    page = report(uc.Table(x), layout="pca")
    assert re.search(r"<h1>(.*?)</h1>", page).group(1) == headline
    assert re.search(r'class="lead">(.*?)</p>', page).group(1).startswith(lead)
