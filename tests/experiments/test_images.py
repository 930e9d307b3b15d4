"""Images as a user downloads them: read right, refused where they are not whole; and training that can be killed."""

import importlib
import io
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")
Image = pytest.importorskip("PIL.Image")

pytestmark = pytest.mark.deep

FOLDER = Path(__file__).parents[2] / "experiments"
COLOURS = {"n01": (250, 10, 10), "n02": (10, 250, 10), "n03": (10, 10, 250)}


@pytest.fixture
def read(tmp_path):
    module = importlib.import_module("_images")
    return lambda path, kind="tiny", px=8: module.images(kind, path, px=px, cache=tmp_path / "cache")


def jpeg(colour, mode="RGB"):
    file = io.BytesIO()
    Image.new("RGB", (64, 64), colour).convert(mode).save(file, "JPEG", quality=95)
    return file.getvalue()


@pytest.fixture
def tiny(tmp_path):
    """Three classes of one colour each, four images for training and two for validation, as the archive unpacks."""
    folder = tmp_path / "tiny-imagenet-200"
    annotations = []
    for wnid, colour in COLOURS.items():
        (folder / "train" / wnid / "images").mkdir(parents=True)
        names = [f"{wnid}_{i}.JPEG" for i in range(4)]
        for name in names:
            (folder / "train" / wnid / "images" / name).write_bytes(jpeg(colour))
        (folder / "train" / wnid / f"{wnid}_boxes.txt").write_text("".join(f"{name}\t0\t0\t63\t63\n" for name in names))
        annotations += [f"val_{wnid}_{i}.JPEG\t{wnid}\t0\t0\t63\t63\n" for i in range(2)]
    (folder / "val" / "images").mkdir(parents=True)
    for line in annotations:
        name, wnid = line.split("\t")[:2]
        (folder / "val" / "images" / name).write_bytes(jpeg(COLOURS[wnid]))
    (folder / "val" / "val_annotations.txt").write_text("".join(reversed(annotations)))
    (folder / "wnids.txt").write_text("n03\nn01\nn02\n")
    return folder


@pytest.fixture
def archive(tmp_path):
    """The same as one file of bytes end to end."""

    def write(images=None, **changed):
        images = [jpeg(colour) for colour in COLOURS.values()] if images is None else images
        parts = {}
        for split in ("train", "val"):
            parts[f"{split}_bytes"] = np.frombuffer(b"".join(images), dtype=np.uint8)
            parts[f"{split}_offsets"] = np.cumsum([0, *map(len, images)])
            parts[f"{split}_labels"] = np.arange(len(images), dtype=np.int16)
        path = tmp_path / "subset.npz"
        np.savez(path, **(parts | changed))
        return path

    return write


def shown(images, labels):
    """(label, colour) of every image, the colour in the middle."""
    middle = images[:, :, 4, 4].tolist()
    return [(label, min(COLOURS.values(), key=lambda c: sum((a - b) ** 2 for a, b in zip(c, rgb, strict=True))))
            for label, rgb in zip(labels.tolist(), middle, strict=True)]  # fmt: skip


def test_the_folder_is_read_with_labels_in_the_order_of_wnids(tiny, read):
    found = read(tiny)
    assert found.train.shape == (12, 3, 8, 8)
    assert found.val.shape == (6, 3, 8, 8)
    assert found.train.dtype is torch.uint8
    assert found.classes == 3
    wanted = dict(enumerate(COLOURS.values()))
    for images, labels in ((found.train, found.train_labels), (found.val, found.val_labels)):
        assert all(wanted[label] == colour for label, colour in shown(images, labels))
    assert sorted(found.val_labels.tolist()) == [0, 0, 1, 1, 2, 2]


def test_the_archive_is_read(archive, read):
    found = read(archive())
    assert shown(found.train, found.train_labels) == list(enumerate(COLOURS.values()))


def test_grey_images_get_three_channels(archive, read):
    assert read(archive([jpeg((90, 90, 90), "L")] * 2)).train.shape == (2, 3, 8, 8)


def test_a_pixel_is_the_mean_of_what_it_covers():
    squares = np.arange(16, dtype=np.uint8).reshape(4, 4) * 16
    found = importlib.import_module("_images").decode(squares, mode="L", px=2)
    assert found.shape == (1, 2, 2)
    np.testing.assert_array_equal(found[0], squares.reshape(2, 2, 2, 2).mean(axis=(1, 3)))


def test_images_are_decoded_once_and_again_when_they_change(tiny, read, monkeypatch):
    first = read(tiny)
    module = importlib.import_module("_images")
    with monkeypatch.context() as patched:
        patched.setattr(module, "decode", None)
        assert torch.equal(read(tiny).train, first.train)
    (tiny / "train" / "n01" / "images" / "n01_0.JPEG").write_bytes(jpeg((128, 128, 0)))
    assert not torch.equal(read(tiny).train, first.train)


def test_a_damaged_image_is_named_counted_and_left_out(tiny, read, capsys):
    file = tiny / "train" / "n02" / "images" / "n02_1.JPEG"
    file.write_bytes(file.read_bytes()[:300])
    (tiny / "val" / "images" / "val_n01_0.JPEG").write_bytes(b"nothing of the kind")
    found = read(tiny)
    assert len(found.train) == len(found.train_labels) == 11
    assert found.train_labels.tolist().count(1) == 3
    assert len(found.val) == 5
    assert found.skipped == ["train/n02/images/n02_1.JPEG", "val/images/val_n01_0.JPEG"]
    said = capsys.readouterr().out
    assert "cannot decode train/n02/images/n02_1.JPEG" in said
    assert "2 images could not be decoded" in said


@pytest.mark.parametrize(
    "missing",
    ["wnids.txt", "train/n02/n02_boxes.txt", "val/val_annotations.txt", "train/n03/images/n03_2.JPEG",
     "val/images/val_n01_1.JPEG"],
)  # fmt: skip
def test_a_missing_file_is_named_with_where_it_is_to_be_had(missing, tiny, read):
    (tiny / missing).unlink()
    with pytest.raises(SystemExit, match=r"cs231n\.stanford\.edu/tiny-imagenet-200\.zip") as raised:
        read(tiny)
    assert str(tiny / missing) in str(raised.value)


def test_nothing_there_is_said_at_once(tmp_path, read):
    with pytest.raises(SystemExit, match=r"Tiny ImageNet is not at .*nowhere; download http"):
        read(tmp_path / "nowhere")
    with pytest.raises(SystemExit, match=r"Omniglot is not at .*nowhere; download http"):
        read(tmp_path / "nowhere", "omniglot")
    with pytest.raises(SystemExit, match="unpack it"):
        read(tmp_path / "tiny-imagenet-200.zip")


def test_an_archive_that_is_not_whole_is_refused(archive, read):
    path = archive()
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(SystemExit, match=r"subset\.npz is not whole"):
        read(path)
    with pytest.raises(SystemExit, match="train_bytes ends before its last image"):
        read(archive(train_bytes=np.zeros(10, dtype=np.uint8)))


def test_a_set_without_a_single_good_image_is_refused(archive, read):
    with pytest.raises(SystemExit, match="none of the 2 train images can be decoded"):
        read(archive([b"x", b"y"]))


def test_omniglot_is_split_by_its_drawers(tmp_path, read):
    folder = tmp_path / "images_evaluation"
    for label, name in enumerate(("Avesta/character01", "Keble/character01")):
        (folder / name).mkdir(parents=True)
        for drawer in range(1, 21):
            Image.new("L", (105, 105), 10 * drawer).save(folder / name / f"{900 + label:04}_{drawer:02}.png")
    found = read(folder, "omniglot")
    assert found.train.shape == (30, 1, 8, 8)
    assert found.train[:, 0, 0, 0].max() == 150  # the fifteenth drawer
    assert found.val[:, 0, 0, 0].tolist() == [160, 170, 180, 190, 200] * 2
    assert found.val_labels.tolist() == [0] * 5 + [1] * 5
    assert not found.mirror
    (folder / "Keble/character01/0901_07.png").unlink()
    with pytest.raises(SystemExit, match=r"0901_07\.png; download https://github"):
        read(folder, "omniglot")


@pytest.mark.parametrize(("mirror", "background"), [(True, 0), (False, 255)])
def test_augmented_images_are_shifted_and_mirrored_copies(mirror, background):
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(1, 256, (60, 2, 8, 8), generator=draw, dtype=torch.uint8)
    found = importlib.import_module("_network").augment(images, draw, mirror=mirror, background=background)
    padded = torch.nn.functional.pad(images, (1, 1, 1, 1), value=background)
    kinds = set()
    for image, source in zip(found, padded, strict=True):
        crops = {(r, c): source[:, r : r + 8, c : c + 8] for r in range(3) for c in range(3)}
        kinds |= {(r, c, False) for (r, c), crop in crops.items() if torch.equal(crop, image)}
        kinds |= {(r, c, True) for (r, c), crop in crops.items() if torch.equal(crop.flip(-1), image)}
        assert any(torch.equal(crop, image) or torch.equal(crop.flip(-1), image) for crop in crops.values())
    assert {kind[2] for kind in kinds} == ({True, False} if mirror else {False})
    assert {kind[:2] for kind in kinds} == {(r, c) for r in range(3) for c in range(3)}


KILLED = f"""
import os, signal, sys
sys.path.insert(0, {str(FOLDER)!r})
import torch
from torch.nn import functional as F
from _images import generated
from _network import augmentation, resnet, seeded, train

torch.set_num_threads(1)
images = generated(4, px=8, train=16, val=4)

def run(checkpoint, weights, killed_at):
    steps = 0

    def loss(outputs, labels):
        nonlocal steps
        steps += 1
        if steps == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return F.cross_entropy(outputs, labels)

    network = seeded(0, lambda: resnet(images.train, [4, 8], 4))
    losses = train(network, loss, images.train, images.train_labels, epochs=4, batch=8, lr=0.1, seed=0,
                   augmented=augmentation(images), checkpoint=checkpoint)
    torch.save(dict(network.state_dict(), losses=torch.tensor(losses)), weights)
    print(steps, flush=True)

for setting in ((None, "whole.pt", 0), ("state.pt", "killed.pt", 21), ("state.pt", "continued.pt", 0)):
    child = os.fork()
    if child == 0:
        run(*setting)
        os._exit(0)
    print("exit", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_training_that_was_killed_goes_on_to_the_same_bits(tmp_path):
    """Killed in the third of four epochs of eight steps; the first two are not run again."""
    command = [sys.executable, "-c", KILLED]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["32", "exit 0", f"exit {-signal.SIGKILL}", "16", "exit 0"], done.stderr
    whole, continued = (torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in ("whole", "continued"))
    for name, value in whole.items():
        assert torch.equal(value, continued[name]), name
