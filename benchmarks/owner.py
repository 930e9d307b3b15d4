"""Time and peak memory of `unclump measure` on large files, and how far a sample's figures are from exact ones.

    python benchmarks/owner.py [--sizes 341000x100xfloat32,...] [--folder FOLDER] [--output results/owner.json]

Files of clustered rows that lean to one direction, with two pairs of equal rows and one of near duplicates, are written
into the folder, measured by the command line in a process of its own, and deleted. Memory is the peak of that process:
its own, and with the pages of the file that it maps. A size that --output has already is measured again only if it is
in --sizes. `--compare` compares samples with all rows, `--near` the search for near duplicates with FAISS.
"""

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import unclump as uc
from unclump.geometry.sphere import tangent
from unclump.tables.sign_hashes import SignHash, candidates

ROOT = Path(__file__).parent.parent
SIZES = "341000x100xfloat32,1000000x384xfloat16,10000000x128xfloat16"
BOTH = 60_000, 100, 6_000  # rows and dimensions of which all are measured, and a sample of so many
FIGURES = ("median_nearest_angle", "mean_nearest_angle", "cone_angle", "hubness", "largest_hub")
NEAR = 341_000, 100, 1_000_000, 3  # rows and dimensions of tables with planted near duplicates
PLANTED, FRACTIONS = 500, (0.1, 0.5, 1.0)  # pairs, and their angles beside that of near duplicates
CONES = (0.5, 0.9)  # mean cosines
SHARED = ("spherical_variance", "effective_rank", "centred_rank", "rankme", "isoscore", "mean_cosine")
_CHUNK = 50_000


def write_table(path, n, d, dtype):
    """Clusters of about fifty rows around a common lean."""
    draw = np.random.default_rng(0)
    table = np.lib.format.open_memmap(path, "w+", dtype, (n, d))
    centres = draw.normal(size=(n // 50, d)).astype(np.float32)
    lean = 0.3 * draw.normal(size=d).astype(np.float32)
    for start in range(0, n, _CHUNK):
        rows = min(_CHUNK, n - start)
        noise = draw.normal(size=(rows, d)).astype(np.float32)
        table[start : start + rows] = centres[draw.integers(0, len(centres), rows)] + 1.2 * noise + lean
    table[7], table[n // 2], table[n // 3] = table[3], table[11], 1.001 * table[5]
    table.flush()


def measure(path):
    """What the command line takes, and what it says."""
    begin, own, total = time.perf_counter(), 0, 0
    command = [sys.executable, "-m", "unclump", "measure", str(path), "--json", "--quiet"]
    with tempfile.TemporaryFile() as out, subprocess.Popen(command, stdout=out) as process:
        while process.poll() is None:
            held = memory_of(process.pid)
            own, total = max(own, held.get("RssAnon", 0)), max(total, held.get("VmRSS", 0))
            time.sleep(0.05)
        seconds = time.perf_counter() - begin
        if process.returncode:
            raise SystemExit(f"unclump measure ended with {process.returncode}")
        out.seek(0)
        said = json.load(out)
    return {
        "seconds": round(seconds, 1),
        "own_mebibytes": own // 1024,
        "mebibytes": total // 1024,
        "file_mebibytes": path.stat().st_size // 2**20,
        "sampled": said["sampled_rows"],
        "equal_groups": len(said["duplicates"]),
        "near_groups": len(said["near_duplicates"]),
        "findings": said["verdict"]["findings"],
    }


def memory_of(pid):
    """The resident memory of a process in KiB, by kind."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return {}
    return {key: int(value.split()[0]) for key, value in (line.split(":") for line in lines if "kB" in line)}


def compare(x, sample):
    """The figures of all rows and of a sample, with its interval."""
    whole, part = uc.health(x, exact=True), uc.health(x, sample=sample)
    return {
        "n": whole.n,
        "d": whole.d,
        "sampled": len(part.sampled),
        "figures": {
            name: {"exact": getattr(whole, name), "sampled": getattr(part, name), "interval": part.intervals.get(name)}
            for name in FIGURES
        },
        "largest_difference_of_others": max(abs(getattr(whole, name) - getattr(part, name)) for name in SHARED),
        "same_equal_rows": whole.duplicates == part.duplicates,
        "same_near_duplicates": {group.rows for group in whole.clumps} == {group.rows for group in part.clumps},
    }


def near_tables(folder):
    """Clustered rows as they are and in cones, and rows in few dimensions."""
    n, d, many, few = NEAR
    write_table(folder / "near.npy", n, d, "float32")
    unit = uc.project(torch.from_numpy(np.load(folder / "near.npy")).double())
    unit = uc.project(unit - unit.mean(dim=0))
    yield "clustered rows", unit
    axis = uc.project(torch.ones(1, d, dtype=torch.float64))
    for cosine in CONES:
        yield f"the same in a cone, mean cosine {cosine}", uc.project(unit + math.sqrt(cosine / (1 - cosine)) * axis)
    draw = torch.Generator().manual_seed(0)
    yield "uniform rows", uc.project(torch.randn(many, few, generator=draw, dtype=torch.float64))


def find_near(unit):
    """What share of planted near duplicates hashes find, and FAISS where it is installed, in processor seconds."""
    n, d = unit.shape
    near, draw = uc.duplicate_angle(n, d), torch.Generator().manual_seed(1)
    rows = torch.randperm(n, generator=draw)[: 2 * PLANTED * len(FRACTIONS)].view(len(FRACTIONS), 2, PLANTED)
    x = unit.clone()
    for fraction, (first, second) in zip(FRACTIONS, rows, strict=True):
        side = uc.project(tangent(x[first], torch.randn(PLANTED, d, generator=draw, dtype=torch.float64)))
        x[second] = uc.project(x[first] + math.tan(fraction * near) * side)
    x = x.float()
    result = {"n": n, "d": d, "near": near}
    for name, search in {"hashes": _by_hashes, "faiss": _by_faiss}.items():
        begin = time.process_time()
        try:
            pairs = search(x)
        except ModuleNotFoundError:
            continue
        seconds, low, high = time.process_time() - begin, *rows.aminmax(dim=1)
        found = torch.isin(low * n + high, pairs.amin(dim=1) * n + pairs.amax(dim=1)).double().mean(dim=1)
        result[name] = {"seconds": round(seconds, 1), "found": found.tolist(), "measured_pairs": len(pairs)}
    return result


def _by_hashes(x):
    return candidates(SignHash(x.double().mean(dim=0))(x))


def _by_faiss(x):
    """The nearest of every row, in the four nearest of 4 sqrt(n) cells."""
    import faiss

    index = faiss.index_factory(x.shape[1], f"IVF{int(4 * math.sqrt(len(x)))},Flat")
    index.train(x.numpy())
    index.add(x.numpy())
    index.nprobe = 4
    nearest = torch.from_numpy(index.search(x.numpy(), 2)[1])
    rows = torch.arange(len(x)).unsqueeze(1)
    return torch.cat([torch.cat([rows, other.unsqueeze(1)], dim=1) for other in nearest.unbind(dim=1)])


def compared_tables(folder):
    """Tables of which both can be had: generated rows, and real words where they are at hand."""
    n, d, sample = BOTH
    write_table(folder / "both.npy", n, d, "float32")
    yield "clustered rows", torch.from_numpy(np.load(folder / "both.npy")), sample
    words = Path(os.environ.get("UNCLUMP_DATA", "data")) / "glove6B_100d_top50k.npz"
    if words.exists():
        yield "GloVe words", uc.load(words).points, sample


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default=SIZES, help=f"separated by commas ({SIZES}); empty for none")
    parser.add_argument("--folder", type=Path, help="where the files are written (a temporary folder)")
    parser.add_argument("--compare", action=argparse.BooleanOptionalAction, default=True, help="samples with all rows")
    parser.add_argument("--near", action=argparse.BooleanOptionalAction, default=True, help="near duplicates by FAISS")
    parser.add_argument("--output", type=Path, default=ROOT / "results" / "owner.json")
    args = parser.parse_args()
    result = json.loads(args.output.read_text()) if args.output.exists() else {"files": {}}
    with tempfile.TemporaryDirectory(dir=args.folder) as place:
        folder = Path(place)
        for size in filter(None, args.sizes.split(",")):
            n, d, dtype = size.split("x")
            write_table(folder / "table.npy", int(n), int(d), dtype)
            result["files"][size] = measure(folder / "table.npy")
            print(size, result["files"][size], flush=True)
            (folder / "table.npy").unlink()
        if args.compare:
            result["compared"] = {name: compare(x, sample) for name, x, sample in compared_tables(folder)}
        if args.near:
            result["near"] = {name: find_near(unit) for name, unit in near_tables(folder)}
    result |= {"threads": torch.get_num_threads(), "torch": torch.__version__, "machine": platform.machine()}
    args.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
