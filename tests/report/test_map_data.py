"""The data of the map: coordinates, neighbours, columns and groups come back as they were, within their precision."""

import numpy as np
import pytest
import torch

import unclump as uc
from tests.report.conftest import coordinates, decoded, embedded
from tests.small_tables import clump, seeded
from unclump.report import report, shown_rows
from unclump.report.columns import category_column, label_column
from unclump.report.encoding import encode, encode_angles, encode_counts, encode_points
from unclump.report.layouts import lay_out


def test_arrays_come_back():
    for values in (np.arange(300), np.array([0, 70_000]), np.array([], dtype=np.int64)):
        assert decoded(encode_counts(values)).tolist() == values.tolist()
    assert decoded(encode(np.array([0.5, np.nan]), "f32")).tolist() == [0.5, pytest.approx(np.nan, nan_ok=True)]


def test_angles_are_precise_where_they_are_small():
    angles = np.radians([0.0, 1e-4, 0.01, 1.0, 30.0, 90.0, 180.0])
    back = 180 * (decoded(encode_angles(angles)) / 65535.0) ** 2
    assert back[0] == 0
    np.testing.assert_allclose(back, np.degrees(angles), rtol=2e-2, atol=0)
    np.testing.assert_allclose(back[3:], np.degrees(angles[3:]), atol=0.006)


def test_coordinates_keep_their_proportions_and_a_missing_row_is_missing():
    points = np.array([[0.0, 0.0], [10.0, 1.0], [np.nan, np.nan], [4.0, -2.0]])
    back = coordinates(encode_points(points))
    np.testing.assert_allclose(back, points, atol=10 / 65_000)


def test_neighbours_angles_norms_and_hubs_are_those_of_the_definition():
    x = clump(40, 6, dtype=torch.float64)
    x[7] = 0
    data = embedded(report(uc.Table(x, names=[f"w{k}" for k in range(40)])))
    rows, unit = decoded(data["numbers"]).tolist(), x / x.norm(dim=1, keepdim=True)
    assert rows == [k for k in range(40) if k != 7]
    table = data["tables"][0]
    k = table["neighbours"]["k"]
    index = decoded(table["neighbours"]["index"]).reshape(-1, k)
    angles = 180 * (decoded(table["neighbours"]["angles"]).reshape(-1, k) / 65535.0) ** 2
    counts = dict.fromkeys(rows, 0)
    for place, row in enumerate(rows):
        exact = {other: float(uc.angle(unit[row], unit[other]).rad2deg()) for other in rows if other != row}
        nearest = sorted(exact, key=exact.get)[:10]
        assert [rows[j] for j in index[place]] == nearest
        np.testing.assert_allclose(angles[place], [exact[other] for other in nearest], atol=0.005)
        for other in nearest:
            counts[other] += 1
    columns = {column["title"]: decoded(column["values"]) for column in table["columns"]}
    np.testing.assert_allclose(columns["norm"], x[rows].norm(dim=1), rtol=1e-6)
    np.testing.assert_allclose(columns["angle to the nearest"], angles[:, 0], atol=0.005)
    assert columns["times a neighbour"].tolist() == list(counts.values())


def test_a_sample_keeps_groups_and_has_neighbours_in_the_whole_table(monkeypatch):
    monkeypatch.setattr(shown_rows, "MAX_ROWS", 60)
    monkeypatch.setattr(shown_rows, "_MIN_ROWS", 60)
    x = torch.randn(400, 8, generator=seeded(4))
    x[[390, 395]] = x[10].clone()
    page = report(uc.Table(x, names=[f"w{k}" for k in range(400)]), layout="pca")
    data = embedded(page)
    shown, numbers = data["shown"], decoded(data["numbers"]).tolist()
    assert 60 <= shown < 100
    assert {10, 390, 395} <= set(numbers[:shown])
    assert data["names"] == [f"w{k}" for k in numbers]
    groups = [set(np.array(numbers)[decoded(group)]) for group in data["tables"][0]["groups"]]
    assert groups == [{10, 390, 395}]
    index = decoded(data["tables"][0]["neighbours"]["index"]).reshape(shown, -1)
    unit = uc.project(x.double())
    for place in range(0, shown, 7):
        near = (unit @ unit[numbers[place]]).topk(11).indices.tolist()
        assert {numbers[j] for j in index[place]} == set(near) - {numbers[place]} or numbers[place] in (10, 390, 395)
    assert "A random sample of" in page


def test_a_page_of_long_names_shows_fewer_rows_and_stays_small(monkeypatch):
    monkeypatch.setattr(shown_rows, "_MAX_BYTES", 60_000)
    monkeypatch.setattr(shown_rows, "_MIN_ROWS", 20)
    x = torch.randn(600, 4, generator=seeded(4))
    short, long = (
        embedded(report(uc.Table(x, names=[name * (k % 3 + 1) for k in range(600)]), layout="pca"))["shown"]
        for name in ("w", "中文名字很长很长" * 3)
    )
    assert long < short / 2


def test_rows_of_one_table_only_are_missing_in_the_other():
    before = clump(40, 5)
    data = embedded(report(uc.Table(before), uc.Table(torch.cat([before, torch.eye(5)]))))
    first, second = (coordinates(table["layouts"][0]) for table in data["tables"])
    assert np.isnan(first[40:]).all()
    assert not np.isnan(first[:40]).any()
    assert not np.isnan(second).any()
    np.testing.assert_allclose(first[:40], second[:40], atol=1e-3)  # in the same axes
    index = decoded(data["tables"][0]["neighbours"]["index"]).reshape(45, -1)
    assert (index[40:] == 45).all()  # none


def test_two_tables_have_the_same_columns_and_norms_are_one_where_any_differ():
    x = clump(40, 5)
    unit = uc.project(x)

    def titles(*tables):
        data = embedded(report(*(uc.Table(table) for table in tables)))
        return [[column["title"] for column in table["columns"]] for table in data["tables"]]

    assert titles(x, unit) == [["norm", "angle to the nearest", "times a neighbour"]] * 2
    assert titles(unit, unit) == [["angle to the nearest", "times a neighbour"]] * 2


def test_labels_are_numbers_or_classes_and_rare_classes_are_together():
    numbers = label_column("score", ["1.5", "", "-2", *map(str, np.linspace(0, 1, 40))])
    assert decoded(numbers["values"])[[0, 2]].tolist() == [1.5, -2]
    assert np.isnan(decoded(numbers["values"])[1])
    assert label_column("class", ["3", "1", "3"])["classes"] == ["3", "1"]
    assert label_column("kind", ["a", "1.5"])["kind"] == "category"
    many = category_column("kind", [f"c{k}" for k in range(40)] + ["c7"] * 5)
    assert many["classes"][0] == "c7"
    assert many["classes"][-1] == "28 others"
    assert decoded(many["values"]).max() == 12


def test_labels_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"a label for each of 9 rows, got 2 in 'kind'"):
        report(uc.Table(clump(9, 4)), labels={"kind": ["a", "b"]})


def test_principal_axes_are_those_of_largest_variance_in_order():
    x = uc.project(torch.randn(80, 9, generator=seeded(1)) * torch.linspace(3, 1, 9))
    (along,) = lay_out([x], layout="pca", seed=0)
    deviations = along.points[0].std(axis=0)
    assert along.points[0].shape == (80, 6)
    singular = torch.linalg.svdvals((x - x.mean(dim=0)).double())[:6]
    np.testing.assert_allclose(deviations * np.sqrt(80), singular, rtol=1e-4)


@pytest.mark.parametrize(("layout", "module"), [("tsne", "sklearn"), ("tsne", "openTSNE"), ("umap", "umap")])
def test_neighbours_stay_together_in_a_layout_and_rows_beyond_its_limit_join_theirs(layout, module, monkeypatch):
    pytest.importorskip(module)
    from unclump.report import layouts

    method = next(m for m in layouts._METHODS if m.module == module)
    monkeypatch.setattr(layouts, "_METHODS", (layouts._Method(method.name, module, method.title, 150, method.place),))
    centres = 4 * torch.eye(8)[:4]
    x = uc.project(centres.repeat_interleave(50, dim=0) + torch.randn(200, 8, generator=seeded(3)) / 2)
    plane, along = lay_out([x], layout=layout, seed=0)
    assert (plane.kind, along.kind) == ("plane", "axes")
    points = torch.from_numpy(plane.points[0])
    nearest = torch.cdist(points, points).fill_diagonal_(torch.inf).argmin(dim=1)
    same = (nearest // 50 == torch.arange(200) // 50).double().mean()
    assert same > 0.95


def test_a_layout_that_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setattr("unclump.report.layouts.find_spec", lambda name: None)
    x = uc.project(torch.randn(120, 5, generator=seeded(1)))
    assert [layout.kind for layout in lay_out([x], layout="auto", seed=0)] == ["axes"]
    with pytest.raises(ValueError, match="expected umap-learn to be installed"):
        lay_out([x], layout="umap", seed=0)
    with pytest.raises(ValueError, match="expected layout pca for two tables, got tsne"):
        lay_out([x, x], layout="tsne", seed=0)
