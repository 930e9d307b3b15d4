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
    with pytest.raises(ValueError, match=r"several tables.*'old'.*'new'"):
        uc.as_table(frame)


def test_polars():
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    same(uc.as_table(polars.DataFrame({"word": WORDS, "vector": lists()})))


def test_a_dataset_with_a_selection_of_rows():
    datasets = pytest.importorskip("datasets")
    whole = datasets.Dataset.from_dict({"word": ["none", *WORDS], "vector": [[9.0, 9.0, 9.0], *lists()]})
    same(uc.as_table(whole.select([1, 2, 3])))


def test_a_search_index():
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatL2(3)
    index.add(POINTS.numpy())
    same(uc.as_table(index), None)


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
        (Model(), {}, ValueError, r"expected sentences for Model to encode, got none"),
        (POINTS, {"sentences": WORDS}, TypeError, r"expected a model that encodes sentences, got Tensor"),
    ],
)
def test_what_is_no_table_is_refused(source, options, error, message):
    with pytest.raises(error, match=message):
        uc.as_table(source, **options)
