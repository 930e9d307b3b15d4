"""Labelled images from what a user downloads, decoded once into arrays that are mapped, not read."""

import hashlib
import io
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from _common import data_place
from PIL import Image
from tqdm import tqdm

TINY = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
OMNIGLOT = "https://github.com/brendenlake/omniglot/raw/master/python/images_evaluation.zip"
# What is looked for among the data sets when no path is given: what a user unpacks, then a subset in one file.
PLACES = {
    "tiny": ["tiny-imagenet-200", "tinyimagenet200_sub_64px_jpeg_100tr_25val.npz"],
    "omniglot": ["images_evaluation", "omniglot_evaluation_659cls.npz"],
}
SOURCES = {"tiny": ("Tiny ImageNet", TINY), "omniglot": ("Omniglot", OMNIGLOT)}
SPLITS = "train", "val"
_TRAIN_DRAWERS = 15  # of Omniglot's twenty; the others draw the validation set


class DataError(SystemExit):
    """A data set that cannot be read: which file, and where it is to be had. Ends a script in one line."""


@dataclass(frozen=True)
class Images:
    """Images of shape (n, channels, px, px), bytes in a mapped file, and their labels; for training and validation."""

    name: str  # of the cached folder: another name for other images, labels or sizes
    train: torch.Tensor
    train_labels: torch.Tensor
    val: torch.Tensor
    val_labels: torch.Tensor
    classes: int
    skipped: list[str]
    mirror: bool = True  # whether the mirror image of one is another of its class
    background: int = 0  # what lies beyond the edges: black, or the paper of a drawing


def find(kind, path=None):
    """The path that was given, or the first of the usual places that exists."""
    candidates = [data_place() / place for place in PLACES[kind]] if path is None else [Path(path)]
    for candidate in candidates:
        if candidate.suffix == ".zip":
            raise DataError(f"{candidate}: expected a folder, got an archive; unpack it and pass the folder")
        if candidate.exists():
            return candidate
    named, address = SOURCES[kind]
    looked = " and ".join(str(candidate) for candidate in candidates)
    raise DataError(
        f"{named} is not at {looked}; download {address}, unpack it, and pass the folder with --data, or name the one "
        "that it lies in by UNCLUMP_DATA"
    )


def images(kind, path, *, px, cache):
    """The data set at this path in `px` pixels a side: decoded now, or mapped where it was decoded before."""
    path = find(kind, path)
    reader = {"tiny": _tiny_folder, "omniglot": _omniglot_folder} if path.is_dir() else _ARCHIVES
    labelled, classes = reader[kind](path)
    mode = "RGB" if kind == "tiny" else "L"
    mark = repr([mode, px, *(_mark(labelled[split]) for split in SPLITS)])
    folder = Path(cache) / f"{path.stem}-{px}px-{hashlib.sha256(mark.encode()).hexdigest()[:12]}"
    if not folder.exists():
        _decode(labelled, folder, mode=mode, px=px)
    skipped = json.loads((folder / "skipped.json").read_text())
    arrays = {split: _mapped(folder / f"{split}.npy") for split in SPLITS}
    labels = {split: torch.from_numpy(np.load(folder / f"{split}_labels.npy")) for split in SPLITS}
    if skipped:
        print(f"{len(skipped)} images could not be decoded and are left out: {', '.join(skipped)}")
    both = [part[split] for split in SPLITS for part in (arrays, labels)]
    return Images(folder.name, *both, classes, skipped, mirror=kind == "tiny", background=0 if kind == "tiny" else 255)


def generated(classes, *, px, train, val):
    """Noise over a pattern that each class has: so many images of a class for training, and for validation."""
    draw = torch.Generator().manual_seed(0)
    patterns = torch.randint(256, (classes, 3, 4, 4), generator=draw).float()
    patterns = torch.nn.functional.interpolate(patterns, size=(px, px), mode="bilinear", align_corners=False)
    both = []
    for each in (train, val):
        labels = torch.arange(classes).repeat_interleave(each)
        noise = 50 * torch.randn(len(labels), 3, px, px, generator=draw)
        both += [(patterns[labels] + noise).clamp(0, 255).byte(), labels]
    return Images(f"generated-{classes}-{px}px", *both, classes, [])


def _mapped(path):
    array = np.load(path, mmap_mode="c")  # copy on write: torch wants memory it might write to, the file stays
    return torch.from_numpy(array)


def _mark(items):
    """What tells a list of images from another: names, labels, and the bytes, or size and time of a file of them."""
    digest = hashlib.sha256()
    for name, source, label in items:
        digest.update(f"{name} {label}\n".encode())
        if isinstance(source, Path):
            state = source.stat()
            digest.update(f"{state.st_size} {state.st_mtime_ns}\n".encode())
        else:
            digest.update(source.tobytes())
    return len(items), digest.hexdigest()


def _decode(labelled, folder, *, mode, px):
    """Write the arrays beside, and rename the folder when all are there."""
    beside = folder.with_name(f"{folder.name}.{os.getpid()}")
    beside.mkdir(parents=True)
    skipped = []
    for split in SPLITS:
        pixels, labels = [], []
        for name, source, label in tqdm(labelled[split], desc=f"decoding {split}", unit="image", disable=None):
            try:
                pixels.append(decode(source, mode=mode, px=px))
            except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for damaged files
                print(f"cannot decode {name}: {error}")
                skipped.append(name)
            else:
                labels.append(label)
        if not labels:
            raise DataError(f"{folder.name}: none of the {len(labelled[split])} {split} images can be decoded")
        np.save(beside / f"{split}.npy", np.stack(pixels))
        np.save(beside / f"{split}_labels.npy", np.array(labels, dtype=np.int64))
    (beside / "skipped.json").write_text(json.dumps(skipped))
    os.replace(beside, folder)


def decode(source, *, mode, px):
    """Bytes of shape (channels, px, px): every pixel the mean of those that it covers."""
    if isinstance(source, np.ndarray) and source.ndim == 2:
        image = Image.fromarray(source)
    else:
        image = Image.open(source if isinstance(source, Path) else io.BytesIO(source.tobytes()))
    array = np.asarray(image.convert(mode).resize((px, px), Image.Resampling.BOX))
    return np.ascontiguousarray(np.atleast_3d(array).transpose(2, 0, 1))


def _lines(path, address):
    try:
        return path.read_text().split("\n")
    except FileNotFoundError:
        raise DataError(f"{path} is missing; download {address} and unpack all of it") from None


def _tiny_folder(folder):
    """wnids.txt, train/WNID/WNID_boxes.txt and val/val_annotations.txt name every image that must be there."""
    wnids = sorted(line for line in _lines(folder / "wnids.txt", TINY) if line)
    number = {wnid: label for label, wnid in enumerate(wnids)}
    train = []
    for wnid in wnids:
        named = [line.split("\t")[0] for line in _lines(folder / "train" / wnid / f"{wnid}_boxes.txt", TINY) if line]
        train += [(folder / "train" / wnid / "images" / name, number[wnid]) for name in named]
    rows = [line.split("\t") for line in _lines(folder / "val" / "val_annotations.txt", TINY) if line]
    val = [(folder / "val" / "images" / row[0], number[row[1]]) for row in rows]
    return {"train": _present(train, folder, TINY), "val": _present(val, folder, TINY)}, len(wnids)


def _omniglot_folder(folder):
    """Alphabet/characterNN/NNNN_DD.png, where DD is the drawer."""
    characters = sorted(path for path in folder.glob("*/character*") if path.is_dir())
    drawn = [
        (character / f"{stem}_{drawer:02}.png", label, drawer)
        for label, character in enumerate(characters)
        for stem in sorted({path.stem.split("_")[0] for path in character.glob("*_*.png")})
        for drawer in range(1, 21)
    ]
    train = [(path, label) for path, label, drawer in drawn if drawer <= _TRAIN_DRAWERS]
    val = [(path, label) for path, label, drawer in drawn if drawer > _TRAIN_DRAWERS]
    return {"train": _present(train, folder, OMNIGLOT), "val": _present(val, folder, OMNIGLOT)}, len(characters)


def _present(listed, folder, address):
    missing = [path for path, _ in listed if not path.exists()]
    if missing or not listed:
        first = missing[0] if missing else folder
        raise DataError(
            f"{len(missing)} of {len(listed)} images are missing, the first of them {first}; download {address} and "
            "unpack all of it"
        )
    return [(str(path.relative_to(folder)), path, label) for path, label in listed]


def _arrays(path, *names):
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return [archive[name] for name in names]
    except (zipfile.BadZipFile, EOFError, OSError, KeyError, ValueError) as error:
        raise DataError(f"{path} is not whole ({error}); fetch it again") from None


def _tiny_archive(path):
    """JPEG bytes end to end, where image i is `bytes[offsets[i]:offsets[i + 1]]`."""
    found = {}
    for split in SPLITS:
        stored, offsets, labels = _arrays(path, *(f"{split}_{part}" for part in ("bytes", "offsets", "labels")))
        if offsets[-1] > len(stored) or len(offsets) != len(labels) + 1:
            raise DataError(f"{path}: {split}_bytes ends before its last image; fetch it again")
        places = zip(offsets[:-1].tolist(), offsets[1:].tolist(), labels.tolist(), strict=True)
        found[split] = [(f"{split} image {i}", stored[a:b], label) for i, (a, b, label) in enumerate(places)]
    return found, 1 + max(label for _, _, label in found["train"])


def _omniglot_archive(path):
    drawings, labels, drawers = _arrays(path, "img28", "labels", "drawer")
    found = [
        (drawer, (f"drawing {i}", drawing, label))
        for i, (drawing, label, drawer) in enumerate(zip(drawings, labels.tolist(), drawers.tolist(), strict=True))
    ]
    train = [item for drawer, item in found if drawer <= _TRAIN_DRAWERS]
    return {"train": train, "val": [item for drawer, item in found if drawer > _TRAIN_DRAWERS]}, int(labels.max()) + 1


_ARCHIVES = {"tiny": _tiny_archive, "omniglot": _omniglot_archive}
