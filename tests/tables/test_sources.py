"""Tables of other libraries are the same points, with the names that they carry."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import unclump as uc

POINTS = torch.tensor([[1.0, 0.0, 2.0], [0.5, -1.0, 0.0], [0.25, 4.0, 1.0]])
WORDS = ["east", "north", "up"]


def lists():
    return [row.tolist() for row in POINTS]


def same(table, names=WORDS):
    assert_close(table.points.float(), POINTS, rtol=0, atol=0)
    assert (None if table.names is None else list(table.names)) == names


def test_tensors_arrays_layers_and_tables():
    same(uc.as_table(POINTS), None)
    same(uc.as_table(POINTS.numpy()), None)
    layer = torch.nn.Embedding(3, 3, _weight=POINTS.clone())
    same(uc.as_table(layer), None)
    assert not uc.as_table(layer).points.requires_grad
    table = uc.Table(POINTS, names=WORDS)
    assert uc.as_table(table) is table


def test_pandas_by_a_column_of_lists_by_many_columns_and_with_an_index_of_names():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    same(uc.as_table(pandas.DataFrame({"word": WORDS, "vector": lists()})))
    same(uc.as_table(pandas.DataFrame({"word": WORDS, "vector": list(POINTS.numpy())})))
    columns = {f"x{i}": POINTS[:, i].numpy() for i in range(3)}
    same(uc.as_table(pandas.DataFrame({"count": [3, 2, 1], **columns})), None)
    same(uc.as_table(pandas.DataFrame(columns, index=WORDS)))


def test_a_column_is_chosen_by_name():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"word": WORDS, "old": [[1.0, 2.0]] * 3, "new": lists()})
    same(uc.as_table(frame, tensor="new"))
    with pytest.raises(
        ValueError, match=r"source holds several.*with unclump.as_table\(..., tensor=...\): 'old'.*'new'"
    ):
        uc.as_table(frame)


def test_a_column_alone():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"word": WORDS, "vector": lists()})
    same(uc.as_table(frame["vector"]), None)
    same(uc.as_table(frame.set_index("word")["vector"]))
    same(uc.as_table(pandas.Series(lists())), None)


def test_columns_that_are_numbered_beside_names_in_the_index():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    same(uc.as_table(pandas.DataFrame(POINTS.numpy(), index=WORDS)))  # pytest makes errors of warnings


def test_polars():
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    frame = polars.DataFrame({"word": WORDS, "vector": lists()})
    same(uc.as_table(frame))
    same(uc.as_table(frame.lazy()))
    same(uc.as_table(frame["vector"]), None)


def test_a_dataset_with_a_selection_of_rows():
    datasets = pytest.importorskip("datasets")
    whole = datasets.Dataset.from_dict({"word": ["none", *WORDS], "vector": [[9.0, 9.0, 9.0], *lists()]})
    same(uc.as_table(whole.select([1, 2, 3])))
    same(uc.as_table(whole.select([1, 2, 3])["vector"]), None)


def test_of_a_dataset_in_splits_or_a_stream_one_part_is_requested():
    datasets = pytest.importorskip("datasets")
    whole = datasets.Dataset.from_dict({"vector": lists()})
    with pytest.raises(TypeError, match=r"one split of a dataset, got all of them; choose one of 'train', 'test'"):
        uc.as_table(datasets.DatasetDict(train=whole, test=whole))
    with pytest.raises(TypeError, match=r"with all of its rows, got IterableDataset"):
        uc.as_table(whole.to_iterable_dataset())


def test_a_search_index():
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatL2(3)
    index.add(POINTS.numpy())
    same(uc.as_table(index), None)


@pytest.mark.parametrize("kind", ["IDMap,Flat", "IDMap2,Flat", "IVF2,Flat", "HNSW4", "IDMap,IVF2,Flat"])
def test_other_search_indexes_give_vectors_in_the_order_of_adding(kind):
    faiss = pytest.importorskip("faiss")
    index = faiss.index_factory(3, kind)
    index.train(POINTS.numpy())
    if kind.startswith("IDMap"):
        index.add_with_ids(POINTS.numpy(), np.array([70, 80, 60]))
    else:
        index.add(POINTS.numpy())
    same(uc.as_table(index), None)


@pytest.mark.parametrize("kind", ["IVF2,Flat", "PCA2,IVF2,Flat"])
def test_search_indexes_that_cannot_reconstruct_are_refused(kind):
    """FAISS would leave rows uninitialised where ids are not numbers of rows, or abort the process."""
    faiss = pytest.importorskip("faiss")
    index = faiss.index_factory(3, kind)
    index.train(POINTS.numpy())
    index.add_with_ids(POINTS.numpy(), np.array([70, 80, 60]))
    with pytest.raises(ValueError, match=r"can reconstruct its vectors, got Index\w+; use the vectors"):
        uc.as_table(index)


@pytest.mark.usefixtures("at_the_door")
def test_what_takes_tensors_says_how_to_convert_tables():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"vector": lists()})
    for source, advice in (
        (uc.Table(POINTS), r"pass its \.points"),
        (frame, r"unclump\.as_table\(\.\.\.\)\.points"),
        (frame["vector"], r"unclump\.as_table\(\.\.\.\)\.points"),
        (lists(), r"torch\.as_tensor"),
        ("words.npz", r"read a file with unclump\.load\(\.\.\.\)\.points"),
    ):
        with pytest.raises(TypeError, match=advice):
            uc.min_angle(source)


@pytest.mark.usefixtures("at_the_door")
def test_save_takes_a_table_alone(tmp_path):
    with pytest.raises(TypeError, match=r"expected a Table, got ndarray; convert with unclump\.as_table\("):
        uc.save(tmp_path / "points.npy", POINTS.numpy())
    assert not list(tmp_path.iterdir())


class Model:
    """Encodes as a SentenceTransformer does."""

    def encode(self, sentences, *, convert_to_numpy):
        assert convert_to_numpy
        return np.stack([POINTS[WORDS.index(one)].numpy() for one in sentences])


def test_a_model_encodes_the_sentences():
    same(uc.as_table(Model(), sentences=WORDS))
    assert uc.health(Model(), sentences=WORDS).n == 3


def test_health_takes_names_from_where_the_points_come():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"word": WORDS, "vector": [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]})
    assert "2 'up'" in str(uc.health(frame))


@pytest.mark.usefixtures("at_the_door")
@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        ("words.npz", {}, TypeError, r"expected a tensor, an array, .*, got the path of a file; read it"),
        ([[1.0, 0.0], [0.0, 1.0]], {}, TypeError, r"expected a tensor, an array, .*, got list; convert it to a tensor"),
        (Model(), {}, ValueError, r"expected sentences for Model to encode, got none"),
        (POINTS, {"sentences": WORDS}, TypeError, r"expected a model that encodes sentences, got Tensor"),
    ],
)
def test_what_is_no_table_is_refused(source, options, error, message):
    with pytest.raises(error, match=message):
        uc.as_table(source, **options)
