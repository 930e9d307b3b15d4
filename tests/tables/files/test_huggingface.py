"""Model folders: the input embedding is found, the tokenizer's names are read, and only the table changes."""

import json
import os
import time

import pytest
import safetensors.torch
import torch

import unclump as uc
from tests.tables.files.conftest import bits
from unclump.tables.files import FileError

VOCABULARY = ["<pad>", "the", "naïve", "<script>"]


@pytest.fixture
def model(tmp_path, generator):
    """model(tensors, files): a folder with these tensors, random where given by shape, and these files."""

    def make(tensors, shards=1, name="model", **files):
        folder = tmp_path / name
        folder.mkdir()
        values = {
            key: torch.randn(*value, generator=generator) if isinstance(value, tuple) else value
            for key, value in tensors.items()
        }
        if shards == 1:
            safetensors.torch.save_file(values, folder / "model.safetensors", metadata={"format": "pt"})
        else:
            keys = list(values)
            index = {}
            for shard in range(shards):
                called = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
                held = {key: values[key] for key in keys[shard::shards]}
                safetensors.torch.save_file(held, folder / called, metadata={"format": "pt"})
                index |= dict.fromkeys(held, called)
            (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
        for called, content in files.items():
            path = folder / called.replace("__", ".")
            path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return folder

    return make


FAMILIES = {
    "BERT": ["bert.embeddings.word_embeddings.weight", "bert.embeddings.position_embeddings.weight"],
    "GPT-2": ["wte.weight", "wpe.weight", "h.0.attn.c_attn.weight"],
    "Llama": ["model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"],
    "T5": ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"],
    "GPT-NeoX": ["gpt_neox.embed_in.weight", "embed_out.weight"],
    "Mamba": ["backbone.embeddings.weight", "backbone.layers.0.mixer.in_proj.weight"],
    "CLIP": ["text_model.embeddings.token_embedding.weight", "text_model.embeddings.position_embedding.weight"],
    "ModernBERT": ["model.embeddings.tok_embeddings.weight", "decoder.weight"],
    "static": ["embedding.weight"],
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shards", [1, 3])
def test_the_input_embedding_of_every_family_is_found(family, shards, model):
    folder = model(dict.fromkeys(FAMILIES[family], (4, 3)), shards, config__json={"vocab_size": 4})
    assert uc.load(folder).source.tensor == FAMILIES[family][0]


def test_the_configuration_tells_which_of_several_it_is(model):
    tensors = {"vision.embed_tokens.weight": (9, 3), "text.embed_tokens.weight": (4, 3)}
    for number, config in enumerate(({"vocab_size": 4}, {"text_config": {"vocab_size": 4}})):
        folder = model(tensors, name=f"a{number}", config__json=config)
        assert uc.load(folder).source.tensor == "text.embed_tokens.weight"
    folder = model(tensors, name="b")
    with pytest.raises(
        FileError, match=r"several embeddings; pick one with tensor=...: '\w+.embed_tokens.weight' float32 \("
    ):
        uc.load(folder)
    assert uc.load(folder, tensor="vision.embed_tokens.weight").points.shape == (9, 3)
    with pytest.raises(FileError, match=r"holds no tensor 'x'; candidates are '\w+.embed_tokens.weight'"):
        uc.load(folder, tensor="x")
    with pytest.raises(FileError, match=r"no tensor that is named like an input embedding; .*: 'a.weight'"):
        uc.load(model({"a.weight": (4, 3)}, name="c"))


def pieces(*texts):
    """A SentencePiece model: pieces with a score and a type, and the trainer's settings after them."""
    content = b""
    for text in texts:
        inner = b"\x0a" + bytes([len(text.encode())]) + text.encode() + b"\x15\x00\x00\x80\xbf" + b"\x18\x01"
        content += b"\x0a" + bytes([len(inner)]) + inner
    return content + b"\x12\x03\x08\x96\x01"


ids = {token: row for row, token in enumerate(VOCABULARY)}
TOKENIZERS = {
    "BPE": {"tokenizer__json": {"model": {"type": "BPE", "vocab": ids, "merges": []}}},
    "unigram": {"tokenizer__json": {"model": {"type": "Unigram", "vocab": [[token, -1.5] for token in VOCABULARY]}}},
    "added": {
        "tokenizer__json": {
            "model": {"vocab": dict(list(ids.items())[:2])},
            "added_tokens": [{"id": row, "content": token} for token, row in ids.items() if row > 1],
        }
    },
    "vocab.txt": {"vocab__txt": "\n".join(VOCABULARY).encode() + b"\n"},
    "vocab.txt of Windows": {"vocab__txt": "\r\n".join(VOCABULARY).encode()},
    "vocab.json": {"vocab__json": dict(list(ids.items())[:3]), "added_tokens__json": {"<script>": 3}},
    "SentencePiece": {"tokenizer__model": pieces(*VOCABULARY)},
    "SentencePiece of T5": {"spiece__model": pieces(*VOCABULARY)},
}


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_the_names_of_every_kind_of_tokenizer(kind, model):
    folder = model({"wte.weight": (6, 3)}, **TOKENIZERS[kind])
    assert uc.load(folder).names == [*VOCABULARY, "", ""]  # rows beyond the vocabulary are padding


def test_tokens_beyond_the_table_name_no_row(model):
    assert uc.load(model({"wte.weight": (2, 3)}, vocab__json={"a": 0, "b": 1, "c": 2, "d": -1})).names == ["a", "b"]
    assert uc.load(model({"wte.weight": (2, 3)}, name="bare")).names is None


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer__json": b"{"},
        {"tokenizer__json": []},
        {"tokenizer__json": {"model": {"vocab": "abc"}}},
        {"tokenizer__json": {"model": {"vocab": {"a": "0"}}}},
        {"tokenizer__json": {"model": {"vocab": {"a": True}}}},
        {"tokenizer__json": {"model": {"vocab": {}}, "added_tokens": [{"id": 0, "content": 5}]}},
        {"tokenizer__json": b"[" * 100_000},
        {"vocab__json": [1]},
        {"vocab__json": {"a": 0}, "added_tokens__json": 5},
        {"tokenizer__model": pieces("a", "b")[:-20]},
        {"tokenizer__model": b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"},
        {"config__json": b"[]"},
        {"config__json": b"\xff"},
    ],
)
def test_broken_companions_are_refused_in_one_line(files, model):
    folder = model({"wte.weight": (2, 3)}, **files)
    with pytest.raises(FileError) as caught:
        uc.load(folder)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "a/b.safetensors", 5])
def test_an_index_does_not_lead_out_of_the_folder(name, model):
    folder = model({"wte.weight": (4, 3)}, shards=2)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"wte.weight": name}}))
    with pytest.raises(FileError, match="points outside the folder"):
        uc.load(folder)


def test_a_missing_shard_is_named(model):
    folder = model({"wte.weight": (4, 3), "b": (2, 2)}, shards=2)
    (folder / "model-00001-of-00002.safetensors").unlink()
    with pytest.raises(FileError, match=r"lists 'model-00001-of-00002.safetensors', which is missing"):
        uc.load(folder)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("shards", [1, 2])
def test_a_new_folder_differs_in_the_table_alone(shards, model, tmp_path):
    folder = model({"wte.weight": (4, 3), "b": torch.ones(5).bfloat16(), "c": (2, 2)}, shards, **TOKENIZERS["BPE"])
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{}")
    (folder / ".git").mkdir()
    (folder / ".git" / "blob").write_text("the model, once more")
    table = uc.load(folder)
    before = contents(folder)
    uc.save(tmp_path / "new", table.with_points(-table.points))
    back = uc.load(tmp_path / "new")
    assert bits(back.points) == bits(-table.points)
    assert back.names == table.names
    shard = table.source.layout.shard.name
    after = contents(tmp_path / "new")
    assert {str(name) for name in before if before[name] != after.get(name)} == {shard, ".git/blob"}
    old, new = (safetensors.torch.load_file(place / shard) for place in (folder, tmp_path / "new"))
    assert all(bits(old[key]) == bits(new[key]) for key in old if key != "wte.weight")
    assert contents(folder) == before
    assert sorted(os.listdir(tmp_path)) == ["model", "new"]
    for place, message in (
        (folder, "is what the table was read from"),
        (tmp_path / "new", "is a folder that already exists"),
    ):
        with pytest.raises(FileError, match=message):
            uc.save(place, table)


def test_in_place_a_shared_file_behind_a_link_is_left_alone(model, tmp_path):
    folder = model({"wte.weight": (4, 3), "c": (2, 2)})
    (folder / "model.safetensors").rename(tmp_path / "blob")
    (folder / "model.safetensors").symlink_to(tmp_path / "blob")
    table, shared = uc.load(folder), (tmp_path / "blob").read_bytes()
    uc.save(folder, table.with_points(-table.points), in_place=True)
    assert bits(uc.load(folder).points) == bits(-table.points)
    assert (tmp_path / "blob").read_bytes() == shared
    with pytest.raises(FileError, match="has changed since it was read"):
        uc.save(folder, table, in_place=True)


def test_the_table_may_leave_the_folder_but_not_overwrite_it(model, tmp_path):
    folder = model({"wte.weight": (4, 3)}, **TOKENIZERS["BPE"])
    table = uc.load(folder)
    uc.save(tmp_path / "a.npz", table)
    assert uc.load(tmp_path / "a.npz").names == VOCABULARY
    uc.save(tmp_path / "a.safetensors", table)  # the names stay with the tokenizer
    assert bits(uc.load(tmp_path / "a.safetensors").points) == bits(table.points)
    with pytest.raises(FileError, match="is one of the files the table was read from"):
        uc.save(folder / "model.safetensors", table, in_place=True)
    with pytest.raises(FileError, match="the model has 4 rows, the table 5; its tokenizer and head would not fit"):
        uc.save(tmp_path / "more", table.with_points(torch.ones(5, 3), names=[*VOCABULARY, "new"]))


def test_an_error_in_mid_copy_leaves_no_folder(model, tmp_path, monkeypatch):
    folder = model({"wte.weight": (4, 3)}, **TOKENIZERS["BPE"])
    table = uc.load(folder)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unclump.tables.files.huggingface.shutil.copyfileobj", full)
    with pytest.raises(FileError, match="new: could not be written, nothing was changed: no space left on device"):
        uc.save(tmp_path / "new", table)
    assert os.listdir(tmp_path) == ["model"]


def test_a_link_out_of_the_folder_is_not_copied_as_content(model, tmp_path):
    folder = model({"wte.weight": (4, 3)})
    (tmp_path / "secret").write_text("secret")
    (folder / "notes.txt").symlink_to(tmp_path / "secret")
    table = uc.load(folder)
    with pytest.raises(FileError, match=r"the model's 'notes.txt' is a link to a file outside of its folder"):
        uc.save(tmp_path / "new", table)
    assert sorted(os.listdir(tmp_path)) == ["model", "secret"]
    uc.save(folder, table, in_place=True)  # copies nothing


def test_the_links_of_a_download_are_followed(model, tmp_path):
    folder = model({"wte.weight": (4, 3)}, config__json={"vocab_size": 4})
    snapshot, blobs = tmp_path / "models--a" / "snapshots" / "0123", tmp_path / "models--a" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, file in enumerate(sorted(folder.iterdir())):
        file.rename(blobs / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    (snapshot / "twice.json").symlink_to("config.json")
    uc.save(tmp_path / "new", uc.load(snapshot))
    assert sorted(os.listdir(tmp_path / "new")) == ["config.json", "model.safetensors", "twice.json"]
    assert not any(file.is_symlink() for file in (tmp_path / "new").iterdir())


@pytest.mark.parametrize("content", [b"\xff" * 2**20, b"\x0a" + b"\xff" * 2**20], ids=["tag", "length"])
def test_an_integer_without_end_is_refused_at_once(content, model):
    folder = model({"wte.weight": (4, 3)}, tokenizer__model=content)
    start = time.process_time()
    with pytest.raises(FileError, match="its SentencePiece model is damaged: an integer in it does not end"):
        uc.load(folder)
    assert time.process_time() - start < 1


def test_a_tokenizer_of_gigabytes_is_not_read(model):
    folder = model({"wte.weight": (4, 3)}, tokenizer__json=b"{}")
    os.truncate(folder / "tokenizer.json", 2**40)  # sparse: takes no disk, and must take no memory
    with pytest.raises(FileError, match=r"tokenizer.json is larger than 268435456 bytes: it is no tokenizer"):
        uc.load(folder)
