"""How good translations are: BLEU with its signature, chrF, COMET where it is, and whether differences are real."""

import functools
from pathlib import Path

import torch
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from translation.search import translate
from translation.vocabulary import UNKNOWN


def bleu(found, references):
    return BLEU().corpus_score(found, [references]).score


def judge(found, references, *, sources=None, comet=None):
    """BLEU, chrF and what they were made of; COMET if the name or file of its model is given."""
    bleu, chrf = BLEU(), CHRF()
    judged = {
        "bleu": round(bleu.corpus_score(found, [references]).score, 3),
        "chrf": round(chrf.corpus_score(found, [references]).score, 3),
        "signature": bleu.get_signature().format(),
        "chrf_signature": chrf.get_signature().format(),
    }
    return judged | ({"comet": round(comet_score(found, references, sources, comet), 4)} if comet else {})


def judge_model(model, vocabulary, pairs, *, beam, comet=None):
    """Its translations of one side of the pairs, and how good they are beside the other."""
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    numbers = [vocabulary.encode(source) for source in sources]
    said = translate(model, vocabulary, numbers, beam=beam, progress=True)
    unknown = sum(UNKNOWN in source for source in numbers)
    judged = judge(said, references, sources=sources, comet=comet)
    return said, judged | {"sentences": len(pairs), "with_unknown_characters": unknown}


def comet_score(found, references, sources, model):
    judges = [{"src": s, "mt": f, "ref": r} for s, f, r in zip(sources, found, references, strict=True)]
    return float(_comet(model).predict(judges, gpus=int(torch.cuda.is_available()), progress_bar=False).system_score)


@functools.cache
def _comet(model):
    try:
        import comet
    except ImportError:
        raise ValueError(
            "expected the package unbabel-comet for the option comet, got none; pip install unbabel-comet"
        ) from None
    return comet.load_from_checkpoint(model if Path(model).exists() else comet.download_model(model))


def bootstrap(found, baseline, references, *, samples=1000):
    """How likely a difference in BLEU as large as this is where there is none: the paired bootstrap of sacreBLEU."""
    systems = [("baseline", baseline), ("found", found)]
    metrics = {"BLEU": BLEU(references=[references])}
    test = PairedTest(systems, metrics, references=None, test_type="bs", n_samples=samples, n_jobs=1)
    _, results = test()
    first, second = results["BLEU"]
    return {"gain": round(second.score - first.score, 3), "p_value": second.p_value, "samples": samples}
