"""Writes experiments/README.md, docs/results.md, docs/findings.md and a part of docs/choosing.md from results/.

    python experiments/table.py [--check]

With --check it writes nothing, and fails where they are not what the files say.
"""

import argparse
import importlib
import json
import re
import shlex
import sys
from pathlib import Path

from _choosing import BEGIN, END, section
from _common import FOLDER, markdown
from _verdicts import RULE

ROOT = Path(__file__).parents[1]
SOURCE = (
    "What we say about the authors' runs comes from their public code, "
    "[ltl-uva/ledoh-torch](https://github.com/ltl-uva/ledoh-torch) at commit 882a1c1: the loop, its batches, "
    "optimisers and measures in `examples/bench/bench_simple.py`, the rows of the figure of 24 points in "
    "`examples/bench/plot_tammes.py`, the kernels in `ledoh_torch/pairwise_dispersion.py`, SSW in `ledoh_torch/ssw.py`."
)
NAMES = {
    "tammes": "Tammes problem",
    "riemannian": "Riemannian against projected",
    "kernels": "Kernels",
    "synthetic": "Synthetic embeddings",
    "timing": "Timing",
    "dimensionality": "Dimensionality",
    "sliced_convergence": "Circles of the sliced objective",
    "sliced_ssw": "Sliced against SSW",
    "mmd": "Energy as MMD",
    "translation": "Machine translation",
    "prototypes": "Prototypes for images",
}
STUDIES = {
    "weights": "Which weight",
    "sizes": "Sizes of objectives",
    "repair": "Which repair",
    "verdict": "The verdict",
}
"""Of questions that the paper does not ask: they write pages of their own."""
TRAINED = ("translation", "prototypes")
"""Experiments that train networks: their full setting takes too long on two cores."""
HEADINGS = {
    "confirmed": "Claims that we confirm",
    "proved": "What is true without a run",
    "refuted": "Claims that we refute",
    "disproved": "What is false without a run",
    "new": "What is new",
    "not borne out": "What we expected and did not find",
    "open": "Not settled",
}
# The page of findings: the verdicts of each part.
PARTS = {
    "What holds": ("confirmed", "proved"),
    "What does not": ("refuted", "disproved"),
    "What is new": ("new",),
    "What is open": ("open",),
}

OPENING = """# Experiments

Every synthetic figure and table of "Keep your distance" (Tokarchuk, Bakker and Niculae, TMLR 2025), one script each,
with its image classification and its [machine translation](translation/README.md), through the public interface alone.

- `--quick` takes seconds and writes to `results/quick`. Without it a script runs the paper's setting and writes
  `results/NAME.json` (configuration, versions, every number) and its figures. `make reproduce` runs every script with
  `--quick`.
- Runs whose results a file already holds are not repeated, so a stopped script continues where it was. `--minutes 5`
  stops it after about that long, and `--jobs 2` runs two at a time.
- `--seeds`, `--steps` and the other options run less than the paper's setting; the file then says so.
- Images and text are read from the folder in the environment variable `UNCLUMP_DATA`, or else from `data/` in the
  current folder. If something is missing, the message says where to get it.

`weights.py`, `sizes.py`, `repair.py` and `verdict.py` answer questions that are not in the paper, and have pages of
their own: [Which weight](../docs/weights.md), [How large objectives are](../docs/sizes.md),
[Which repair](../docs/repair.md), [The verdict](../docs/verdict.md). `python experiments/table.py` writes this page and
those of the documentation from the files; no number is typed by hand.
"""


def load():
    found = {}
    for name in NAMES:
        path = FOLDER / f"{name}.json"
        data = json.loads(path.read_text()) if path.exists() else {}
        if data.get("summary"):
            module = importlib.import_module(name)
            found[name] = data | {"reduced": short_of(module.FULL, data)} | module.report(data["summary"])
    return found


def short_of(full, data):
    """What was not run of the setting as it is today; a file knows only that of its time."""
    return {key: value for key, value in data["configuration"].items() if key in full and full[key] != value}


def script(name):
    """Most experiments are a file; one that is a folder has commands, of which `table` is the experiment."""
    return name if (ROOT / "experiments" / name).is_dir() else f"{name}.py"


def command(name, data=None):
    options = [] if script(name).endswith(".py") else ["table"]
    for key, value in (data or {"reduced": {}})["reduced"].items():
        options.append(f"--{key.replace('_', '-')} {shlex.quote(json.dumps(value))}")
    return " ".join([f"python experiments/{script(name)}", *options])


def took(seconds):
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def reduction(name, data):
    """What was run of the paper's setting."""
    full = importlib.import_module(name).FULL
    if not data["reduced"]:
        return "in full"
    spent = f"what two cores allow, {data['seconds'] / 3600:.1f} hours of one core" if name in TRAINED else "reduced"
    parts = []
    for key, value in data["reduced"].items():
        if isinstance(value, dict):
            parts.append(f"other {key}")
        elif isinstance(value, list) and not (value and isinstance(value[0], list)):
            parts.append(f"{key} {sum(one in full[key] for one in value)} of {len(full[key])}")
        else:
            parts.append(f"{key} {value} instead of {full[key]}")
    return f"{spent}: {', '.join(parts)}"


def rows(found):
    for name, title in NAMES.items():
        if name in found:
            data = found[name]
            cells = [f"[{title}]({script(name)})", data["claim"], data["got"], f"`{command(name, data)}`"]
            cells += [reduction(name, data), took(data["seconds"])]
        else:
            cells = [f"[{title}]({script(name)})", "", "not run yet", f"`{command(name)}`", "", ""]
        yield cells


def lists(found):
    for verdict, heading in HEADINGS.items():
        lines = [
            f"- **{finding['claim']}** {finding['evidence']} (`{script(data['name'])}`)"
            for data in found.values()
            for finding in data["findings"]
            if finding["verdict"] == verdict
        ]
        if lines:
            yield from (f"## {heading}", "", *lines, "")


def versions(found):
    """Of the last run of each file."""
    used = {}
    for data in found.values():
        for name, version in data["versions"].items():
            used.setdefault(name, set()).add(version)
    return "Versions: " + ", ".join(f"{name} {' and '.join(sorted(of))}" for name, of in used.items()) + "; one thread."


def readme(found):
    lines = [
        OPENING,
        *markdown(["result", "the paper", "here", "command", "setting", "time"], rows(found)),
        "",
        "Times are sums over all runs on one core. Earlier runs have wall-clock times, on a machine that did other",
        "work too; newer runs have processor times.",
        versions(found),
        SOURCE,
        "",
        RULE,
        "",
    ]
    return "\n".join([*lines, *lists(found)]).rstrip() + "\n"


def page(found):
    """The documentation's page: the same findings, with the figures."""
    lines = [
        "# Results",
        "",
        "What the experiments found, in full. [What we found](findings.md) is the short version;",
        f"`experiments/README.md` has the commands. {versions(found)}",
        "",
        SOURCE,
        "",
        RULE,
        "",
    ]
    for name, data in found.items():
        lines += [
            f"## {NAMES[name]}",
            "",
            f"The paper: {data['claim']}.",
            "",
            f"Here ({reduction(name, data)}): {data['got']}.",
            "",
            *([*data["table"], ""] if data.get("table") else []),
        ]
        for finding in data["findings"]:
            lines += [f"- *{finding['verdict']}*: **{finding['claim']}** {finding['evidence']}"]
        lines += [""]
        for figure in sorted(FOLDER.glob(f"{name}*.png")):
            if figure.stem in (name, *(f"{name}_{part}" for part in suffixes(name))):
                lines += [f"![{NAMES[name]}](../results/{figure.name})", ""]
    return "\n".join(lines).rstrip() + "\n"


def findings(found):
    """The page for a reader who has ten minutes: a sentence a finding, with its number, its figure and its command.

    What is open is told experiment by experiment.
    """
    lines = [
        "# What we found",
        "",
        'We tested the claims of "Keep your distance" (Tokarchuk, Bakker and Niculae, TMLR 2025) on two cores.',
        f"{counts(found)} The main ones are here; [Results](results.md) has all of them, with every interval and",
        "figure, the rule by which they were judged, and what the authors ran.",
        "",
    ]
    for part, verdicts in PARTS.items():
        every = [(name, one) for name, data in found.items() for one in data["findings"] if one["verdict"] in verdicts]
        chosen = [(name, one) for name, one in every if one["headline"]]
        lines += [f"## {part}", "", f"The main {len(chosen)} of {len(every)}.", ""]
        told = {}
        for place, (name, one) in enumerate(chosen):
            told.setdefault(name if one["verdict"] == "open" else place, (name, []))[1].append(sentence(one))
        for name, sentences in told.values():
            where = f"[{NAMES[name]}](results.md#{anchor(name)}), `{command(name)}`"
            lines += [f"- {' '.join(sentences)} ({where})"]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def sentence(finding):
    """The claim, and the number that decides it; of an open one, why it is open."""
    if finding["verdict"] == "open":
        told = re.findall(r"\[([^\[\]]*)\]", finding["evidence"])
        return f"**{finding['claim']}** Open: {re.sub('^(95 % intervals|no interval), ', '', told[-1])}."
    brief = finding["brief"]
    return f"**{finding['claim']}** {brief[:1].upper()}{brief[1:]}".rstrip()


def counts(found):
    verdicts = [one["verdict"] for data in found.values() for one in data["findings"]]
    return "Of {} statements, {}.".format(
        len(verdicts), ", ".join(f"{verdicts.count(name)} are {name}" for name in HEADINGS if name in verdicts)
    )


def anchor(name):
    return NAMES[name].lower().replace(" ", "-")


def choosing(text, found):
    """The page with its written part anew."""
    before, _, rest = text.partition(BEGIN)
    return before + section(found) + rest.partition(END)[2]


def suffixes(name):
    """The endings of its figures' names; those of another experiment may begin alike."""
    longer = [other for other in NAMES if other != name and other.startswith(name)]
    stems = [path.stem for path in FOLDER.glob(f"{name}_*.png")]
    return [stem.removeprefix(f"{name}_") for stem in stems if not any(stem.startswith(other) for other in longer)]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args(argv)
    found = load()
    advice = ROOT / "docs/choosing.md"
    wanted = {
        ROOT / "experiments/README.md": readme(found),
        ROOT / "docs/results.md": page(found),
        ROOT / "docs/findings.md": findings(found),
        advice: choosing(advice.read_text(), found),
    }
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if chosen.check:
        if stale:
            sys.exit(
                f"not what the results say: {', '.join(path.name for path in stale)}; run python experiments/table.py"
            )
        return
    for path in stale:
        path.write_text(wanted[path])
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
