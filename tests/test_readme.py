"""What the README shows runs, and shows what it says."""

import re
from importlib import import_module, metadata
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
SPEED = (Path(__file__).parents[1] / "docs/speed.md").read_text()
INTERFACE = (Path(__file__).parents[1] / "docs/interface.md").read_text()
START = (Path(__file__).parents[1] / "docs/start.md").read_text()
INDEX = (Path(__file__).parents[1] / "docs/index.md").read_text()
FIRST = [re.search(r"```python\n(.*?)```", page, flags=re.DOTALL)[1] for page in (START, INDEX)]


@pytest.mark.parametrize("example", [*EXAMPLES, *FIRST])
def test_examples_run(example, capsys):
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out


def test_the_first_example_takes_the_nearest_apart(capsys):
    exec(compile(EXAMPLES[0], "README.md", "exec"), {})
    before, after = map(float, re.findall(r"(\d\.\d+) radians", capsys.readouterr().out))
    assert after > 2 * before


def test_the_description_on_pypi_has_the_text_but_no_relative_links():
    shown = metadata.metadata("unclump")["Description"]
    assert "**Read:** what is wrong with my table · tables · which repair helps" in shown
    links = re.findall(r"\]\((.*?)\)", shown)
    assert links == [link for link in re.findall(r"\]\((.*?)\)", README) if link.startswith("https://")]


def test_every_objective_is_in_the_table():
    import unclump as uc

    for name in uc.list_objectives():
        assert f"`{type(uc.objective(name)).__name__}(" in README


def test_the_speed_is_that_of_its_page():
    rows = re.findall(
        r"^\| .+? \| (?:dense|lazy) \| ([\d.]+) \+ ([\d.]+) \|.+?\| ([\d.]+) \| [\d.]+ \|$", SPEED, flags=re.MULTILINE
    )
    steps, ratios = [float(a) + float(b) for a, b, _ in rows], [float(ratio) for *_, ratio in rows]
    assert len(rows) == 12
    assert f"{min(steps):.1f} to {max(steps):.1f} ms, {min(ratios)} to {max(ratios)} times" in README


def test_the_interface_by_theme_has_every_public_name_once():
    import unclump as uc

    entries = re.findall(r"\{py:obj\}`(\w+) <([\w.]+)>`", INTERFACE)
    assert sorted(name for name, _ in entries) == sorted(uc.__all__)
    for name, path in entries:
        module, _, last = path.rpartition(".")
        assert getattr(import_module(module), last) is getattr(uc, name)


def test_the_commands_for_tables_run_and_write_what_they_name(tmp_path, monkeypatch, capsys):
    import torch

    import unclump as uc
    from unclump.cli import main

    block = re.search(r"## You own a table.*?```\n(.*?)```", README, flags=re.DOTALL)[1]
    commands = [line.split("#")[0].split() for line in block.splitlines()]
    assert {words[0] for words in commands} == {"unclump"}
    monkeypatch.chdir(tmp_path)
    generator = torch.Generator().manual_seed(0)
    names = [f"word{number}" for number in range(120)]
    uc.save("words.npz", uc.Table(torch.randn(120, 8, generator=generator) + 0.5, names=names))
    Path("judged.tsv").write_text("".join(f"{a}\t{b}\t{len(a) % 3}\n" for a, b in zip(names, names[7:], strict=False)))
    Path("tokens.txt").write_text("new\nnewer\n")
    for words in commands:
        main(words[1:])
    written = {path.name for path in Path().iterdir()}
    assert written >= {"words.report.html", "map.safetensors", "better.npz", "longer.npz"}
    assert uc.load("longer.npz").names[-2:] == ["new", "newer"]


def test_the_command_prints_what_is_shown(capsys):
    from unclump.cli import main

    shown = re.search(r"\$ unclump code 24 3\n(.*?)```", README, flags=re.DOTALL)
    main(["code", "24", "3"])
    assert capsys.readouterr().out == shown[1]
