"""Text comes in as it was written, or not at all."""

import gzip
import importlib

import pytest
import sentencepiece

pytestmark = pytest.mark.deep


@pytest.fixture
def data():
    return importlib.import_module("translation.data")


@pytest.fixture
def vocabularies():
    return importlib.import_module("translation.vocabulary")


@pytest.fixture
def file(tmp_path):
    """file(name, *lines): a file with these lines."""

    def write(name, *lines):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write


def test_lines_belong_together(data, file):
    pairs = data.read_pairs(file("a.en", "one", " two "), file("a.de", "eins", "zwei"))
    assert pairs == [("one", "eins"), ("two", "zwei")]


def test_only_a_line_feed_ends_a_line(data, file):
    strange = "one\u2028half\x85 and\x0b more"
    assert data.lines_of(file("a.en", strange, "two")) == [strange, "two"]


def test_gzipped_is_as_plain(data, file, tmp_path):
    plain = file("a.en", "one", "zwölf")
    packed = tmp_path / "b.en.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert data.lines_of(packed) == data.lines_of(plain) == ["one", "zwölf"]


def test_unequal_numbers_of_lines_are_refused(data, file):
    with pytest.raises(ValueError, match=r"as many lines in .*a\.en as in .*a\.de, got 3 and 2"):
        data.read_pairs(file("a.en", "one", "two", "three"), file("a.de", "eins", "zwei"))


def test_empty_lines_are_refused_by_number(data, file):
    with pytest.raises(ValueError, match=r"every line of .*a\.de, got 2 empty: 2, 4; delete these lines from both"):
        data.read_pairs(file("a.en", *"abcd"), file("a.de", "eins", "", "drei", "  "))


def test_nothing_is_refused(data, file):
    with pytest.raises(ValueError, match=r"expected pairs of sentences .* got none"):
        data.read_pairs(file("a.en"), file("a.de"))


def test_other_encodings_are_refused(data, tmp_path):
    (tmp_path / "a.de").write_bytes("Tür".encode("latin-1"))
    with pytest.raises(ValueError, match=r"expected text in UTF-8 in .*a\.de, got byte 0xfc at 1"):
        data.lines_of(tmp_path / "a.de")


def test_a_file_that_is_not_there_is_named(data, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected sentences in .*a\.de"):
        data.lines_of(tmp_path / "a.de")


def test_a_short_row_of_a_table_is_refused(data, file):
    with pytest.raises(ValueError, match=r"expected 3 columns in .*, got 2 in line 2"):
        data.read_table(file("t.tsv", "x\tone\tunu", "x\ttwo"), 1, 2)


def test_an_empty_first_column_is_a_column(data, file):
    assert data.read_table(file("t.tsv", "\tone\tunu", "x\ttwo\tdoi"), 1, 2) == [("one", "unu"), ("two", "doi")]


def test_windows_line_ends_are_no_part_of_a_sentence(data, tmp_path):
    (tmp_path / "a.en").write_bytes(b"one\r\ntwo\r\n")
    assert data.lines_of(tmp_path / "a.en") == ["one", "two"]


def test_tests_of_one_name_are_refused(data, file):
    files = [[str(file(f"{folder}/news.{end}", "a")) for end in ("en", "de")] for folder in ("x", "y")]
    with pytest.raises(ValueError, match="expected tests with names of their own, got news, news"):
        data.own_files(files, files[0], files)


def test_wmt_is_read_as_it_is_packed(data, file, monkeypatch, tmp_path):
    file("wmt16/train/europarl-v8.ro-en.ro", "unu", "doi")
    file("wmt16/train/europarl-v8.ro-en.en", "one", "two")
    file("wmt16/train/SETIMES.en-ro.ro", "trei")
    file("wmt16/train/SETIMES.en-ro.en", "three")
    for name, word in (("newsdev2016", "cinci five"), ("newstest2016", "zece ten &amp; more")):
        for language, end, text in zip(("ro", "en"), ("src", "ref"), word.split(" ", 1), strict=True):
            file(
                f"wmt16/dev/{name}-roen-{end}.{language}.sgm", '<doc docid="1">', f'<seg id="1">{text}</seg>', "</doc>"
            )
    monkeypatch.setenv("UNCLUMP_DATA", str(tmp_path))
    found = data.load_corpus("wmt16", ["ro", "en"])
    assert found.train == [("unu", "one"), ("doi", "two"), ("trei", "three")]
    assert found.validation == [("cinci", "five")]
    assert found.tests == {"newstest2016": [("zece", "ten & more")]}


def test_data_lies_where_it_was_said_or_in_data_where_we_are(data, file, monkeypatch, tmp_path):
    for place in ("option", "variable", "here/data"):
        for name in ("train", "val", "test_2016_flickr"):
            file(f"{place}/multi30k/{name}.de", f"Hund {name}")
            file(f"{place}/multi30k/{name}.en", place)

    def found(**choice):
        return data.load_corpus("multi30k", ["de", "en"], **choice).train

    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("UNCLUMP_DATA", raising=False)
    assert found() == [("Hund train", "here/data")]
    monkeypatch.setenv("UNCLUMP_DATA", str(tmp_path / "variable"))
    assert found() == [("Hund train", "variable")]
    assert found(data_folder=tmp_path / "option") == [("Hund train", "option")]


@pytest.mark.parametrize("name", ["multi30k", "roen", "tatoeba", "wmt16"])
def test_data_that_is_not_there_is_said_where_to_be_had(data, name, monkeypatch, tmp_path):
    public = data.CORPORA[name]
    monkeypatch.delenv("UNCLUMP_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    looked = tmp_path / "data" / public.folder
    with pytest.raises(FileNotFoundError) as refused:
        data.load_corpus(name, public.languages)
    assert str(refused.value).startswith(f"{name}: expected its files in {looked}, got no such folder; ")
    looked.mkdir(parents=True)
    with pytest.raises(FileNotFoundError) as incomplete:
        data.load_corpus(name, public.languages)
    assert str(looked) in str(incomplete.value)
    for error in (refused, incomplete):
        assert f"at {public.at}, and --data-folder or UNCLUMP_DATA names" in str(error.value)
        assert "https://" in str(error.value)


@pytest.mark.parametrize(
    ("name", "languages", "sizes"),
    [
        ("multi30k", ["de", "en"], [29000, 1014, 1000]),
        ("roen", ["ro", "en"], [28447, 3000, 2758, 5508, 1999]),
        ("tatoeba", ["en", "de"], [164700, 2000, 2000]),
    ],
)
def test_public_data_is_read_whole(data, name, languages, sizes):
    try:
        data.folder_of(data.CORPORA[name].folder)
    except FileNotFoundError as error:
        pytest.skip(f"no {name}: {error}; UNCLUMP_DATA names another")
    found = data.load_corpus(name, languages)
    assert [len(found.train), len(found.validation), *map(len, found.tests.values())] == sizes
    english = [pair[languages.index("en")] for pair in found.validation]
    assert sum(" the " in sentence.lower() for sentence in english) > len(english) / 20


def test_a_direction_that_is_not_there_is_refused(data):
    with pytest.raises(ValueError, match="between de and en for multi30k, got"):
        data.load_corpus("multi30k", ["de", "fr"])


def test_text_comes_back(vocabulary, corpus):
    for pair in corpus.train[:20]:
        for sentence in pair:
            assert vocabulary.decode(vocabulary.encode(sentence)) == sentence


def test_a_character_that_the_vocabulary_lacks_is_named(vocabulary, vocabularies):
    assert vocabularies.UNKNOWN in vocabulary.encode("dog ☃")
    with pytest.raises(ValueError, match="got '☃' in line 2 of what was typed: 'the ☃ dog'"):
        vocabulary.encode_known(["dog", "the ☃ dog"], "what was typed")


def test_models_with_other_special_pieces_do_as_well(corpus, vocabularies, tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(side for pair in corpus.train for side in pair),
        model_prefix=str(tmp_path / "other"),
        vocab_size=60,
        model_type="bpe",
        minloglevel=2,
    )
    other = vocabularies.load_vocabulary(tmp_path / "other.model")
    assert len(other) == 60 + 4 - 3  # it has no padding, and knows unknown, start and end
    numbers = other.encode("big dog sees cat")
    assert other.decode(numbers) == "big dog sees cat"
    assert numbers[-1] == vocabularies.END
    assert min(numbers[:-1]) > vocabularies.END
    assert max(numbers) < len(other)


def test_a_vocabulary_that_is_too_large_says_what_would_do(corpus, vocabularies):
    with pytest.raises(ValueError, match=r"vocabulary of 5000 pieces to fit the text, got: .*<= \d+"):
        vocabularies.train_vocabulary(corpus.train, 5000)


def test_a_missing_or_broken_vocabulary_is_refused(vocabularies, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected a vocabulary in .*v\.model"):
        vocabularies.load_vocabulary(tmp_path / "v.model")
    (tmp_path / "v.model").write_text("not one")
    with pytest.raises(ValueError, match=r"expected a SentencePiece model in .*v\.model"):
        vocabularies.load_vocabulary(tmp_path / "v.model")


def test_every_pair_is_in_one_batch_of_no_more_tokens(text, generator):
    from translation.batches import make_batches
    from translation.vocabulary import PAD, START

    batches = make_batches(text.train, 60, generator)
    rows = [row for batch in batches for row in zip(batch.source.tolist(), batch.wanted.tolist(), strict=True)]
    found = sorted(tuple(tuple(token for token in side if token != PAD) for side in row) for row in rows)
    assert found == sorted((tuple(source), tuple(target)) for source, target in text.train)
    for batch in batches:
        assert max(batch.source.numel(), batch.wanted.numel()) <= 60
        assert (batch.given[:, 0] == START).all()
        later = batch.given[:, 1:]
        assert ((later == batch.wanted[:, :-1]) | (batch.wanted[:, 1:] == PAD)).all()


def test_a_pair_that_is_longer_than_a_batch_has_its_own():
    from translation.batches import by_length

    assert by_length([3, 50, 2, 4], 8) == [[2, 0], [3], [1]]
