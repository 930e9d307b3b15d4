"""A small residual network, augmentation as tensor operations, and training that can be killed and continued."""

import math
from functools import partial
from pathlib import Path

import torch
from _common import generator, replacing
from filelock import FileLock
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm


def augment(images, draw, *, mirror, background):
    """Shifted by up to an eighth of the side, where background comes in; and mirrored half of the time, or never."""
    n, channels, px, _ = images.shape
    pad = px // 8
    padded = F.pad(images, (pad, pad, pad, pad), value=background)
    row, column = torch.randint(2 * pad + 1, (2, n, 1), generator=draw)
    across = torch.arange(px)
    mirrored = torch.rand(n, 1, generator=draw) < (0.5 if mirror else 0.0)
    columns = column + torch.where(mirrored, across.flip(0), across)  # (n, px)
    rows = row + across
    # Gathering from flat images takes a fifth of the time of indexing by image, channel, row and column.
    places = (rows[:, :, None] * padded.shape[3] + columns[:, None, :]).view(n, 1, px * px)
    return padded.flatten(2).gather(2, places.expand(n, channels, px * px)).view(images.shape)


def augmentation(images):
    """That which suits these images."""
    return partial(augment, mirror=images.mirror, background=images.background)


class Scale(nn.Module):
    """Bytes to numbers of mean zero and variance one a channel, over the training images."""

    def __init__(self, images):
        super().__init__()
        some = images[:: max(1, len(images) // 2000)].double() / 255
        self.register_buffer("mean", some.mean(dim=(0, 2, 3)).float().view(-1, 1, 1))
        self.register_buffer("deviation", some.std(dim=(0, 2, 3)).float().view(-1, 1, 1))

    def forward(self, images):
        scaled = (images.float() / 255 - self.mean) / self.deviation
        return scaled.contiguous(memory_format=torch.channels_last)


class Block(nn.Module):
    """Two convolutions around which the input is led past."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outside),
        )
        same = inside == outside and stride == 1
        past = [nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)]
        self.past = nn.Identity() if same else nn.Sequential(*past)

    def forward(self, x):
        return F.relu(self.way(x) + self.past(x))


def resnet(images, channels, outputs):
    """A stem of stride two, one block for each number of channels, and a linear map of their means."""
    blocks = [Block(a, b, 1 if a == b else 2) for a, b in zip([channels[0], *channels], channels, strict=False)]
    features = nn.Sequential(
        Scale(images),
        nn.Conv2d(images.shape[1], channels[0], 3, 2, 1, bias=False),
        nn.BatchNorm2d(channels[0]),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return nn.Sequential(features, nn.Linear(channels[-1], outputs)).to(memory_format=torch.channels_last)


def seeded(seed, make):
    """What make() returns when torch's own generator starts from this seed; it goes on as if nothing had been."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def train(
    model,
    loss,
    inputs,
    labels,
    *,
    epochs,
    batch,
    lr=0.0,
    seed,
    optimizer=None,
    augmented=None,
    checkpoint=None,
    desc=None,
):
    """The mean loss of each epoch of a descent whose learning rate falls to zero along a cosine.

    SGD where no optimiser is given. With `augmented`, a function of inputs and a generator, the model sees what it
    returns. With a checkpoint training continues after the last epoch that was written. Every epoch has a generator of
    its own, so that one that was cut short is run again to the same bits.
    """
    steps = max(1, len(inputs) // batch)
    if optimizer is None:
        choices = {"momentum": 0.9, "weight_decay": 5e-4, "nesterov": True, "fused": True}
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, **choices)
    rates = [group["lr"] for group in optimizer.param_groups]
    file = None if checkpoint is None else Path(checkpoint)
    losses = []
    if file is not None and file.exists():
        state = torch.load(file, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        losses = state["losses"]
    begin = len(losses)
    model.train()
    bar = tqdm(
        total=epochs * steps, initial=begin * steps, desc=desc, unit="step", disable=None if desc else True, leave=False
    )
    for epoch in range(begin, epochs):
        draw = generator(seed, epoch)
        order = torch.randperm(len(inputs), generator=draw)
        total = 0.0
        for step in range(steps):
            done = (epoch * steps + step) / (epochs * steps)
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * (1 + math.cos(math.pi * done)) / 2
            rows = order[step * batch : (step + 1) * batch]
            given, wanted = (whole.index_select(0, rows) for whole in (inputs, labels))
            given = given if augmented is None else augmented(given, draw)
            value = loss(model(given), wanted)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            total += value.item()
            bar.update()
        losses.append(total / steps)
        bar.set_postfix_str(f"loss {losses[-1]:.3f}")
        if file is not None:
            _save(file, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses})
    bar.close()
    return losses


def _save(file, state):
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as beside:
        torch.save(state, beside)


@torch.no_grad()
def outputs(model, images, batch=500):
    """The model's outputs for all images."""
    model.eval()
    return torch.cat([model(some) for some in torch.split(images, batch)])


def accuracy(predicted, labels):
    """In percent."""
    return 100 * (predicted == labels).float().mean().item()


def backbone(images, *, channels, epochs, batch, lr, seed, cache):
    """Features of all images by a network that was trained with softmax, and its own accuracy.

    Those for training have mean zero and variance one in each dimension. Network and features are kept in the cache;
    a process that finds another at the same network waits for it.
    """
    name = "-".join(str(part) for part in (images.name, "backbone", *channels, epochs, batch, lr, seed))
    file, network = Path(cache) / f"{name}-features.pt", Path(cache) / f"{name}.pt"
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{file}.lock"):
        if not file.exists():
            chosen = {"channels": channels, "epochs": epochs, "batch": batch, "lr": lr, "seed": seed}
            _save(file, _features(images, **chosen, checkpoint=network))
    kept = torch.load(file, weights_only=True)
    return kept["train"], kept["val"], kept["accuracy"]


def _features(images, *, channels, seed, **choices):
    network = seeded(seed, lambda: resnet(images.train, channels, images.classes))
    train(
        network,
        F.cross_entropy,
        images.train,
        images.train_labels,
        seed=seed,
        augmented=augmentation(images),
        desc=f"backbone {seed}",
        **choices,
    )
    features = outputs(network[0], images.train)
    mean, deviation = features.mean(dim=0), features.std(dim=0)
    deviation = torch.where(deviation > 0, deviation, 1.0)  # a feature that is the same for all
    val = outputs(network[0], images.val)
    found = accuracy(outputs(network[1], val).argmax(dim=1), images.val_labels)
    return {"train": (features - mean) / deviation, "val": (val - mean) / deviation, "accuracy": found}
