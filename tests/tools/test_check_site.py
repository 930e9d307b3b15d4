"""The crawl of the documentation finds dead links, missing anchors, lonely pages, and pictures without a text."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from check_site import check

GOOD = (
    '<a href="sub/other.html#part">other</a> <img src="a%20b.png" alt="a picture"> <a href="https://elsewhere">away</a>'
)


@pytest.fixture
def site(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "a b.png").write_bytes(b"")
    (tmp_path / "sub/other.html").write_text(
        '<h1 id="part">Part</h1> <a href="../index.html">back</a> <a href="#part">here</a>'
    )

    def write(body):
        (tmp_path / "index.html").write_text(body)
        return check(tmp_path)

    return write


def test_a_good_site_has_no_faults(site):
    assert site(GOOD) == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (GOOD + '<a href="gone.html">x</a>', "index.html: dead link: gone.html"),
        (GOOD + '<img src="gone.png" alt="x">', "index.html: dead link: gone.png"),
        (GOOD + '<a href="../index.html">x</a>', "index.html: dead link: ../index.html"),
        (GOOD + '<a href="sub/other.html#gone">x</a>', "index.html: no such anchor: sub/other.html#gone"),
        (GOOD + '<a href="#gone">x</a>', "index.html: no such anchor: #gone"),
        (GOOD + '<img src="a b.png" alt=" ">', "index.html: picture without a text: a b.png"),
        ("<p>nothing</p>", "sub/other.html: no link leads here"),
    ],
)
def test_faults_are_named(site, body, fault):
    assert site(body) == [fault]
