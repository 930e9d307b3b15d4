"""One SentencePiece vocabulary for both languages."""

import io
from pathlib import Path

import sentencepiece

PAD, UNKNOWN, START, END = range(4)


class Vocabulary:
    """Text to numbers and back: padding, unknown, start and end come first, then the pieces of text.

    Args:
        model: The bytes of a SentencePiece model, trained here or elsewhere.
    """

    def __init__(self, model):
        self.model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        every = range(self._processor.get_piece_size())
        special = (self._processor.is_unknown, self._processor.is_control, self._processor.is_unused)
        self._theirs = [number for number in every if not any(is_special(number) for is_special in special)]
        self._ours = dict(zip(self._theirs, range(END + 1, END + 1 + len(self._theirs)), strict=True))

    def __len__(self):
        return END + 1 + len(self._theirs)

    def encode(self, text):
        """The numbers of the text's pieces, then that of the end."""
        return [*(self._ours.get(number, UNKNOWN) for number in self._processor.encode(text)), END]

    def encode_known(self, texts, where):
        """The same of many texts, all of whose characters the vocabulary must know."""
        encoded = [self.encode(text) for text in texts]
        for number, (text, pieces) in enumerate(zip(texts, encoded, strict=True), 1):
            if UNKNOWN in pieces:
                strange = [c for c in dict.fromkeys(text) if UNKNOWN in self.encode(c)]
                raise ValueError(
                    f"expected text that the vocabulary can write, got {' '.join(map(repr, strange))} in line {number} "
                    f"of {where}: {text!r}; replace it, or train a vocabulary on text that has it"
                )
        return encoded

    def decode(self, numbers):
        return self._processor.decode([self._theirs[number - END - 1] for number in numbers if number > END])

    def save(self, path):
        Path(path).write_bytes(self.model)


def load_vocabulary(path):
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"expected a vocabulary in {path}, got no such file; `train` writes one")
    try:
        return Vocabulary(path.read_bytes())
    except RuntimeError:
        raise ValueError(f"expected a SentencePiece model in {path}, got something else") from None


def train_vocabulary(pairs, size):
    """A unigram vocabulary of both sides of the pairs: all of their characters are in it."""
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(text for pair in pairs for text in pair),
            model_writer=written,
            vocab_size=size,
            model_type="unigram",
            character_coverage=1.0,
            num_threads=1,
            pad_id=PAD,
            unk_id=UNKNOWN,
            bos_id=START,
            eos_id=END,
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).partition("] ")[2] or str(error)
        raise ValueError(f"expected a vocabulary of {size} pieces to fit the text, got: {reason.strip()}") from None
    return Vocabulary(written.getvalue())
