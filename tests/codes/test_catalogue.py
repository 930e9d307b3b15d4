"""The catalogue gives back what was put in, keeps the better, and notices damage."""

import json
import math
import zipfile
from itertools import pairwise

import numpy as np
import pytest

from unclump.codes import catalogue, spherical_code
from unclump.codes.catalogue import CatalogueError, Record
from unclump.codes.constructions.exact import _CODES as EXACT
from unclump.codes.constructions.exact import exact_code
from unclump.codes.constructions.lines import exact_lines
from unclump.codes.search.sections import sections
from unclump.codes.verify import minimal_angle


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("UNCLUMP_CATALOGUE", str(tmp_path))
    return tmp_path


def random_code(n, d, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def record(points, seed=0):
    return Record(minimal_angle(points), 3.0, "Rankin", seed, "a command")


def test_a_code_comes_back_to_the_bit_with_its_record(folder):
    for n, d in [(7, 3), (9, 3), (7, 4)]:
        assert catalogue.save_if_better(folder, random_code(n, d), record(random_code(n, d)))
    entry = catalogue.read(folder, 7, 3)
    np.testing.assert_array_equal(entry.points, random_code(7, 3))
    assert entry.record == record(random_code(7, 3))
    assert catalogue.read(folder, 8, 3) is None
    assert catalogue.read(folder, 7, 5) is None


def test_the_better_of_two_codes_stays(folder):
    codes = sorted((random_code(9, 3, seed) for seed in range(3)), key=minimal_angle)
    assert catalogue.save_if_better(folder, codes[1], record(codes[1]))
    assert not catalogue.save_if_better(folder, codes[0], record(codes[0]))
    assert not catalogue.save_if_better(folder, codes[1], record(codes[1]))
    assert catalogue.save_if_better(folder, codes[2], record(codes[2]))
    np.testing.assert_array_equal(catalogue.read(folder, 9, 3).points, codes[2])


def test_the_users_own_code_counts_where_it_is_better(folder):
    shipped = catalogue.read(catalogue.SHIPPED, 15, 3)
    worse, better = random_code(15, 3), shipped.points[::-1]
    catalogue.save_if_better(folder, worse, record(worse))
    np.testing.assert_array_equal(catalogue.look_up(15, 3).points, shipped.points)
    claims = Record(shipped.record.angle + 5e-13, 3.0, "Rankin", 1, "mine")  # within what verification lets pass
    assert catalogue.save_if_better(folder, better, claims)
    assert catalogue.look_up(15, 3).record.command == "mine"


def rewrite(path, change):
    """The archive with one of its members changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def damage(name, old=None, new=None):
    def change(members):
        members[name] = members[name][:-8] if old is None else members[name].replace(old, new)

    return change


@pytest.mark.parametrize(
    "change",
    [
        damage("9.npy"),
        damage("9.npy", b"'<f8'", b"'|O8'"),
        damage("9.npy", b"(9, 3)", b"(3, 9)"),
        lambda m: m.pop("9.npy"),
    ],
    ids=["cut off", "objects", "another shape", "missing"],
)
def test_a_damaged_entry_is_noticed_and_not_used(change, folder):
    catalogue.save_if_better(folder, random_code(9, 3), record(random_code(9, 3)))
    rewrite(folder / "3.zip", change)
    with pytest.warns(UserWarning, match="the code of 9 points in .* is damaged and was ignored"):
        assert catalogue.read(folder, 9, 3) is None


def test_a_moved_point_is_noticed_by_the_angle_and_the_code_solved_again(folder, monkeypatch):
    monkeypatch.setattr(catalogue, "SHIPPED", folder / "nothing")
    good = spherical_code(15, 3, restarts=2)
    moved = good.points.numpy().copy()
    catalogue.save_if_better(folder, moved, Record(good.min_angle, 3.0, "Rankin", 0, "mine"))
    moved[0, 0] += 1e-6
    buffer = moved.tobytes()
    rewrite(folder / "3.zip", lambda members: members.update({"15.npy": members["15.npy"][: -len(buffer)] + buffer}))
    with pytest.warns(UserWarning, match="the index says"):
        again = spherical_code(15, 3)
    assert again.source.startswith("search")
    assert again.min_angle == pytest.approx(good.min_angle, abs=1e-12)


@pytest.mark.parametrize("content", [b"", b"not a zip archive"])
def test_a_file_that_is_no_catalogue_is_refused_by_name(content, folder):
    (folder / "3.zip").write_bytes(content)
    with pytest.raises(CatalogueError, match=r"expected a catalogue of codes in .*3\.zip"):
        spherical_code(15, 3)


def test_a_catalogue_cut_in_half_is_refused_by_name(folder):
    catalogue.save_if_better(folder, random_code(9, 3), record(random_code(9, 3)))
    whole = (folder / "3.zip").read_bytes()
    (folder / "3.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CatalogueError, match="remove it"):
        catalogue.look_up(9, 3)


def test_nothing_is_left_beside_the_file_when_writing_fails(folder, monkeypatch):
    catalogue.save_if_better(folder, random_code(9, 3), record(random_code(9, 3)))
    before = (folder / "3.zip").read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises((OSError, ValueError), match="disk full"):
        catalogue.save_if_better(folder, random_code(7, 3), record(random_code(7, 3)))
    assert [path.name for path in folder.iterdir()] == ["3.zip"]
    assert (folder / "3.zip").read_bytes() == before


SHIPPED = [(int(path.stem), n) for path in sorted(catalogue.SHIPPED.glob("*.zip")) for n in catalogue.read_index(path)]


def test_the_package_ships_what_it_promises():
    promised = {3: range(4, 201), 4: range(5, 201), 5: range(6, 131), 6: range(7, 101), 7: range(8, 101)}
    promised |= {d: [*range(d + 1, 65), 72, 96, 128, 240, 256] for d in range(8, 17)}
    promised |= {d: [*range(2 * d + 1, 2 * d + 5), 64, 128, 256] for d in range(17, 25)}
    promised[8] = [*promised[8], 512, 1024]
    promised[32] = [2**k for k in range(1, 11)]
    missing = {(d, n) for d, sizes in promised.items() for n in sizes if exact_code(n, d) is None} - set(SHIPPED)
    assert missing == set()


@pytest.mark.parametrize("d", sorted({d for d, _ in SHIPPED}))
def test_every_shipped_code_has_its_angle_and_keeps_below_its_bound(d):
    for n in (n for dimension, n in SHIPPED if dimension == d):
        entry = catalogue.read(catalogue.SHIPPED, n, d)  # a damaged one would warn, which is an error here
        assert entry.record.angle <= entry.record.bound + 1e-12


@pytest.mark.parametrize("d", sorted({d for d, _ in SHIPPED}))
def test_more_points_are_not_farther_apart(d):
    angles = {n: record.angle for n, record in catalogue.read_index(catalogue.SHIPPED / f"{d}.zip").items()}
    angles |= {n: math.acos(code.cosine) for n in range(2, 131) if (code := exact_code(n, d)) is not None}
    assert [(n, more) for n, more in pairwise(sorted(angles)) if angles[more] > angles[n] + 1e-12] == []


@pytest.mark.parametrize("d", range(4, 25))
def test_points_in_more_dimensions_are_not_closer(d):
    lower = catalogue.read_index(catalogue.SHIPPED / f"{d - 1}.zip")
    records = catalogue.read_index(catalogue.SHIPPED / f"{d}.zip")
    assert [n for n in lower if n in records and lower[n].angle > records[n].angle + 1e-12] == []


@pytest.fixture(scope="module")
def known_angles():
    """The best angle by the number of points, for every dimension: of closed forms, and of the catalogue."""
    known = {1: {2: math.pi}}
    for d in range(2, 25):
        exact = {n: exact_code(n, d) for n in range(2, 601)}
        known[d] = {n: math.acos(max(-1.0, code.cosine)) for n, code in exact.items() if code is not None}
        records = catalogue.read_index(catalogue.SHIPPED / f"{d}.zip")
        known[d] |= {n: record.angle for n, record in records.items() if n not in known[d]}
    return known


@pytest.mark.parametrize("d", range(3, 25))
def test_no_code_is_below_part_of_another_in_as_many_dimensions_or_fewer(d, known_angles):
    others = [(n, angle) for lower in range(2, d + 1) for n, angle in known_angles[lower].items()]
    for n, angle in known_angles[d].items():
        assert angle >= max(other for more, other in others if more >= n) - 1e-12, n


@pytest.mark.parametrize("d", range(4, 25))
def test_no_code_is_below_two_others_in_orthogonal_spaces(d, known_angles):
    for n, angle in known_angles[d].items():
        for first in range(1, d // 2 + 1):
            second = known_angles[d - first]
            sums = [min(one, second[n - k]) for k, one in known_angles[first].items() if n - k in second]
            assert angle >= min(math.pi / 2, max(sums, default=0.0)) - 1e-12, (n, first)


@pytest.mark.parametrize(("n", "d"), [size for size in EXACT if size[0] <= 600 and 4 <= size[1] <= 25])
def test_no_code_is_below_a_section_of_a_closed_form(n, d, known_angles):
    for section in sections(exact_code(n, d).points, 2):
        angle = minimal_angle(section)
        for k, known in known_angles[d - 1].items():
            assert k > len(section) or known >= angle - 1e-9, (k, len(section))


def test_the_index_is_readable_by_people():
    with zipfile.ZipFile(catalogue.SHIPPED / "3.zip") as archive:
        first = next(iter(json.loads(archive.read("index.json")).items()))
    assert first[0] == "15"
    assert math.degrees(first[1]["angle"]) == pytest.approx(53.657850129933, abs=1e-11)


def test_lines_have_a_catalogue_of_their_own(folder):
    x = random_code(9, 3)
    x[0] = -(x[1] + 0.1 * x[2]) / np.linalg.norm(x[1] + 0.1 * x[2])  # as a line, close to another
    angle = minimal_angle(np.concatenate([x, -x]))
    assert angle < minimal_angle(x)
    claims = Record(angle, 3.0, "Welch", 0, "lines")
    assert catalogue.save_if_better(folder, x, claims, antipodal=True)
    assert not catalogue.save_if_better(folder, x, claims, antipodal=True)
    assert catalogue.read(folder, 9, 3) is None
    assert catalogue.read(folder, 9, 3, antipodal=True).record == claims
    rewrite(folder / "lines/3.zip", damage("index.json", repr(angle).encode(), repr(minimal_angle(x)).encode()))
    with pytest.warns(UserWarning, match="the index says"):
        assert catalogue.read(folder, 9, 3, antipodal=True) is None


LINES = catalogue.read_index(catalogue.path_of(catalogue.SHIPPED, 3, antipodal=True))


def test_shipped_lines_have_their_angles_and_more_are_not_farther_apart():
    codes = {n: spherical_code(n, 3, antipodal=True) for n in range(4, 51)}
    assert set(LINES) == {n for n, code in codes.items() if code.source.startswith("catalogue: unclump code ")}
    assert {n for n in codes if n not in LINES} == {n for n in codes if exact_lines(n, 3) is not None}
    for n, record in LINES.items():
        x = codes[n].points.numpy()
        cosines = np.abs(x @ x.T)
        np.fill_diagonal(cosines, 0)
        assert math.acos(cosines.max()) == pytest.approx(record.angle, abs=1e-9)
        assert codes[n].min_angle <= codes[n].upper_bound + 1e-12
    assert [n for n in range(4, 50) if codes[n + 1].min_angle > codes[n].min_angle + 1e-12] == []


def test_the_users_own_lines_count_where_they_are_better(folder):
    shipped = catalogue.read(catalogue.SHIPPED, 9, 3, antipodal=True)
    claims = Record(shipped.record.angle + 5e-13, 3.0, "Welch", 1, "unclump code 9 3 --lines, mine")
    assert catalogue.save_if_better(folder, shipped.points[::-1], claims, antipodal=True)
    assert spherical_code(9, 3, antipodal=True).source == "catalogue: unclump code 9 3 --lines, mine"
    assert spherical_code(9, 3, antipodal=True, restarts=1).source.startswith("search")
