"""Files of a training: its state, from which a run that was killed goes on, and the model that comes of it."""

import json
import pickle
from pathlib import Path

import torch
from _common import replacing

from translation.model import Translator
from translation.vocabulary import load_vocabulary


def write_whole(path, data):
    """A kill at any moment leaves the old file or the new one."""
    with replacing(Path(path)) as file:
        torch.save(data, file)


def read_state(path, identity):
    """The state in the file, or None where there is none. That of another training is refused, by what differs."""
    path = Path(path)
    if not path.exists():
        return None
    state = _read(path, "the state of a training")
    there = json.loads(state["identity"])
    for name, here in json.loads(json.dumps(identity)).items():
        if there.get(name) != here:
            raise ValueError(
                f"expected the state of this training in {path}, got that of one with another {name}: "
                f"{there.get(name)} there, {here} here; name another folder, or delete the file"
            )
    return state


def _read(path, what):
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"expected {what} in {path}, got another file")
    return found


def save_model(folder, model, vocabulary, *, sizes, about):
    """The model and its vocabulary, in a folder that `translate` reads."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary.save(folder / "vocabulary.model")
    weights = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    write_whole(
        folder / "model.pt", {"weights": weights, "sizes": sizes, "about": about, "continuous": model.continuous}
    )


def load_model(folder):
    """The model, its vocabulary, and what it is: row, languages and so on."""
    folder = Path(folder)
    if not (folder / "model.pt").exists():
        within = sorted(str(path.parent) for path in folder.glob("*/model.pt"))
        raise FileNotFoundError(
            f"expected a trained model in {folder / 'model.pt'}, got no such file; "
            + (f"there are models in {', '.join(within)}" if within else "`train` and `table` write one")
        )
    vocabulary = load_vocabulary(folder / "vocabulary.model")
    found = _read(folder / "model.pt", "a trained model")
    size = len(found["weights"]["table"])
    if size != len(vocabulary):
        raise ValueError(
            f"expected the vocabulary of the model in {folder}, got one of {len(vocabulary)} for a table of {size} rows"
        )
    model = Translator(size, **found["sizes"], continuous=found["continuous"])
    model.load_state_dict(found["weights"])
    return model.eval(), vocabulary, found["about"]
