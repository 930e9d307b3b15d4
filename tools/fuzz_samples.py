"""Small good files of every format that is read, for `fuzz_files.py` to damage."""

import gzip
import json
import struct
from pathlib import Path

import numpy as np
import torch

import unclump as uc

NAMES = ["the", "naïve", "", "new york", "95", "the"]
WORDS = [name.replace(" ", "_") for name in NAMES]


def write_samples(folder: Path) -> None:
    """Write a folder for every format, with several files in it."""
    generator = torch.Generator().manual_seed(0)
    table = uc.Table(torch.randn(6, 4, generator=generator), NAMES)
    many = uc.Table(torch.randn(300, 8, generator=generator), [f"row {i}" for i in range(300)])
    for kind in (_numpy, _torch, _text, _arrow, _hdf5, _faiss, _models, _checkpoint):
        kind(folder, table, many)
    for path in sorted(folder.glob("*/*")):  # some of the same, compressed
        if path.suffix in {".txt", ".csv", ".jsonl", ".npy"}:
            _place(folder, "gzip", f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))


def _place(folder: Path, kind: str, name: str) -> Path:
    (folder / kind).mkdir(parents=True, exist_ok=True)
    return folder / kind / name


def _numpy(folder: Path, table: uc.Table, many: uc.Table) -> None:
    for dtype in ("float16", "float32", "float64"):
        np.save(_place(folder, "npy", f"{dtype}.npy"), table.points.numpy().astype(dtype))
    np.save(folder / "npy" / "fortran.npy", np.asfortranarray(table.points.numpy()))
    uc.save(_place(folder, "npz", "stored.npz"), table)
    arrays = {"points": many.points.numpy(), "words": np.array(many.names), "other": np.arange(9)}
    np.savez_compressed(folder / "npz" / "packed.npz", **arrays)


def _torch(folder: Path, table: uc.Table, many: uc.Table) -> None:
    uc.save(_place(folder, "torch", "table.pt"), table)
    torch.save(many.points, folder / "torch" / "alone.pt")
    torch.save({"a": {"w": torch.nn.Parameter(many.points)}, "step": 3, "n": [1, "x"]}, folder / "torch" / "deep.pt")
    uc.save(_place(folder, "safetensors", "table.safetensors"), uc.Table(table.points))
    entry = {"dtype": "BF16", "shape": [4, 4], "data_offsets": [0, 32]}
    header = json.dumps({"a": entry, "__metadata__": {"format": "pt"}}).encode()
    content = struct.pack("<Q", len(header)) + header + torch.ones(4, 4).bfloat16().view(torch.uint8).numpy().tobytes()
    (folder / "safetensors" / "half.safetensors").write_bytes(content)


def _text(folder: Path, table: uc.Table, many: uc.Table) -> None:
    uc.save(_place(folder, "text", "table.txt"), table)
    uc.save(folder / "text" / "many.vec", many)
    uc.save(_place(folder, "word2vec", "table.bin"), uc.Table(table.points, WORDS))
    uc.save(_place(folder, "csv", "table.csv"), table)
    uc.save(folder / "csv" / "table.tsv", table)
    rows = table.points.tolist()
    named = list(zip(NAMES, rows, strict=True))
    lists = "".join(f'{i},"{name}","{row}"\n' for i, (name, row) in enumerate(named))
    (folder / "csv" / "lists.csv").write_text("id,text,vector\n" + lists)
    semicolons = "".join(f"{name};{';'.join(map(str, row)).replace('.', ',')}\n" for name, row in named)
    (folder / "csv" / "semicolons.csv").write_text(semicolons)
    mixed = "".join(f"{name},kind,{','.join(map(str, row))}\n" for name, row in named)
    (folder / "csv" / "texts.csv").write_text("word,kind,x0,x1,x2,x3\n" + mixed)
    numbered = "".join(f"{7 + 3 * i},{','.join(map(str, row))}\n" for i, row in enumerate(3 * rows))
    (folder / "csv" / "numbered.csv").write_text(numbered)
    objects = "\n".join(json.dumps({"text": name, "id": 3, "vector": row}) for name, row in named)
    _place(folder, "jsonl", "objects.jsonl").write_text(objects)
    (folder / "jsonl" / "lists.jsonl").write_text("\n".join(map(json.dumps, rows)))


def _arrow(folder: Path, table: uc.Table, many: uc.Table) -> None:
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet as pq

    uc.save(_place(folder, "parquet", "table.parquet"), table)
    columns = pa.table({"name": many.names, "kind": ["a", "b", None] * 100, "vectors": list(many.points.numpy())})
    for compression in ("zstd", "snappy", "none"):
        pq.write_table(columns, folder / "parquet" / f"{compression}.parquet", compression=compression)
    wide = pa.table({f"x{i}": column for i, column in enumerate(table.points.T.numpy())})
    pq.write_table(wide, folder / "parquet" / "wide.parquet", row_group_size=3)
    for compression in ("zstd", "lz4", "uncompressed"):
        pa.feather.write_feather(columns, _place(folder, "arrow", f"{compression}.feather"), compression=compression)
    encoded = columns.set_column(0, "name", columns.column("name").dictionary_encode())
    _write_stream(folder / "arrow" / "stream.arrow", encoded)
    data = _place(folder, "dataset", "data")
    data.mkdir()
    for name in ("0.arrow", "1.arrow"):
        _write_stream(data / name, columns)
    files = [{"filename": "0.arrow"}, {"filename": "1.arrow"}]
    (data / "state.json").write_text(json.dumps({"_data_files": files, "_split": "train"}))


def _write_stream(path: Path, columns: object) -> None:
    import pyarrow as pa

    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, columns.schema) as writer:
        writer.write_table(columns, max_chunksize=100)


def _hdf5(folder: Path, table: uc.Table, many: uc.Table) -> None:
    import h5py

    with h5py.File(_place(folder, "hdf5", "table.h5"), "w") as file:
        file["vectors"], file["words"] = table.points.numpy(), NAMES
    with h5py.File(folder / "hdf5" / "packed.h5", "w") as file:
        file.create_dataset("group/vectors", data=many.points.numpy(), compression="gzip", chunks=(50, 8))
        file["group/count"] = np.arange(300)


def _faiss(folder: Path, table: uc.Table, many: uc.Table) -> None:
    import faiss

    for kind in ("Flat", "HNSW4", "IVF4,Flat", "PQ4x4", "SQ8", "IDMap,Flat", "PCA4,Flat"):
        index = faiss.index_factory(8, kind)
        index.train(many.points.numpy())
        index.add_with_ids(many.points.numpy(), np.arange(300)) if "IDMap" in kind else index.add(many.points.numpy())
        faiss.write_index(index, str(_place(folder, "faiss", f"{kind.replace(',', '-')}.faiss")))


def _models(folder: Path, table: uc.Table, many: uc.Table) -> None:
    tensors = {"wte.weight": table.points, "head.weight": torch.ones(3, 3)}
    pieces = b"".join(
        b"\n" + bytes([len(piece) + 2]) + b"\n" + bytes([len(piece)]) + piece for piece in map(str.encode, WORDS)
    )
    tokenizers = {
        "bpe": ("tokenizer.json", json.dumps({"model": {"vocab": {w: i for i, w in enumerate(WORDS)}}}).encode()),
        "pieces": ("tokenizer.model", pieces),
        "lines": ("vocab.txt", "\n".join(WORDS).encode()),
    }
    for name, (file, content) in tokenizers.items():
        model = _place(folder, "model", name)
        model.mkdir()
        (model / file).write_bytes(content)
        (model / "config.json").write_text(json.dumps({"vocab_size": 6}))
        if name == "lines":
            torch.save(tensors, model / "pytorch_model.bin")
        else:
            from safetensors.torch import save_file

            save_file(tensors, model / "model.safetensors")


def _checkpoint(folder: Path, table: uc.Table, many: uc.Table) -> None:
    path = _place(folder, "checkpoint", "run.pt")
    uc.disperse(many.points, uc.Sliced(), steps=3, checkpoint=path, generator=torch.Generator().manual_seed(0))
