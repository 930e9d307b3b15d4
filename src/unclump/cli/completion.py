"""`unclump completion bash`: a script that completes commands, options and files, generated from the parser."""

import argparse
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from unclump.cli._files import OBJECTIVES

HELP = "print a completion script for your shell"
DESCRIPTION = "Print a script that lets your shell complete commands, options and files."
EXAMPLES = """examples:
  unclump completion bash > ~/.local/share/bash-completion/completions/unclump
  unclump completion zsh > ~/.zfunc/_unclump        with fpath+=~/.zfunc before compinit in ~/.zshrc
  unclump completion fish > ~/.config/fish/completions/unclump.fish
"""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the argument."""
    command.add_argument("shell", choices=tuple(_SHELLS), help="the shell")


def run(args: argparse.Namespace) -> None:
    """Print the script."""
    from unclump.cli import parser

    print(_SHELLS[args.shell](parser()), end="")


@dataclass(frozen=True)
class _Argument:
    """What a shell needs to know about an option, or about a positional argument, which has no flags."""

    flags: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...]
    takes_file: bool


def _commands(parser: argparse.ArgumentParser) -> dict[str, tuple[str, list[_Argument]]]:
    """Return the help and the arguments of each command."""
    action = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
    return {name: (helps.get(name, ""), list(_arguments(command))) for name, command in action.choices.items()}


def _arguments(parser: argparse.ArgumentParser) -> Iterator[_Argument]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            continue
        values = OBJECTIVES if action.dest == "objective" else tuple(map(str, action.choices or ()))
        text = (action.help or "").replace("%%", "%")
        takes_file = action.metavar in ("FILE", "OUT", "MAP")
        yield _Argument(tuple(action.option_strings), text, action.nargs != 0, values, takes_file)


def _bash(parser: argparse.ArgumentParser) -> str:
    commands = _commands(parser)
    flags = " ".join(flag for option in _arguments(parser) for flag in option.flags)
    branches = []
    for name, (_, arguments) in commands.items():
        cases = []
        for argument in arguments:
            if argument.flags and argument.takes_value:
                cases.append(f"        {'|'.join(argument.flags)}) {_bash_reply(argument)} return ;;")
        own = " ".join(flag for argument in arguments for flag in argument.flags)
        positional = [argument for argument in arguments if not argument.flags]
        replies = " ".join(dict.fromkeys(_bash_reply(argument) for argument in positional))
        branches.append(
            f'    {name})\n      case "$previous" in\n' + "".join(f"{case}\n" for case in cases) + "      esac\n"
            f'      if [[ "$current" == -* ]]; then COMPREPLY=($(compgen -W {shlex.quote(own)} -- "$current"))\n'
            f"      else {replies or ':'}\n      fi ;;\n"
        )
    words = shlex.quote(" ".join([*commands, flags]))
    return (
        "_unclump() {\n"
        '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" IFS=$\' \\t\\n\'\n'
        "  COMPREPLY=()\n"
        f'  if ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W {words} -- "$current")); return; fi\n'
        '  case "${COMP_WORDS[1]}" in\n' + "".join(branches) + "  esac\n"
        "}\n"
        "complete -F _unclump unclump\n"
    )


def _bash_reply(argument: _Argument) -> str:
    if argument.values:
        return f'COMPREPLY=($(compgen -W {shlex.quote(" ".join(argument.values))} -- "$current"));'
    if argument.takes_file:  # a file name with spaces is one word, which the shell quotes
        return "compopt -o filenames; local IFS=$'\\n'; COMPREPLY=($(compgen -f -- \"$current\"));"
    return ":;"


def _zsh(parser: argparse.ArgumentParser) -> str:
    branches, descriptions = [], []
    for name, (text, arguments) in _commands(parser).items():
        descriptions.append(f"    {shlex.quote(f'{name}:{text}')}\n")
        specs = [spec for argument in arguments for spec in _zsh_specs(argument)]
        branches.append(f"    {name}) _arguments " + " ".join(map(shlex.quote, specs)) + " ;;\n")
    flags = " ".join(shlex.quote(spec) for option in _arguments(parser) for spec in _zsh_specs(option))
    return (
        "#compdef unclump\n_unclump() {\n  local -a commands=(\n" + "".join(descriptions) + "  )\n"
        "  if ((CURRENT == 2)); then\n"
        f"    if [[ $PREFIX == -* ]]; then _arguments {flags}; else _describe command commands; fi\n"
        "    return\n  fi\n"
        "  local command=$words[2]\n  shift words; ((CURRENT--))\n  case $command in\n" + "".join(branches) + "  esac\n"
        '}\nif [[ $funcstack[1] == _unclump ]]; then _unclump "$@"; else compdef _unclump unclump; fi\n'
    )


def _zsh_specs(argument: _Argument) -> list[str]:
    text = re.sub(r"[\\:\[\]]", r"\\\g<0>", argument.help)
    value = f"({' '.join(argument.values)})" if argument.values else "_files" if argument.takes_file else " "
    if not argument.flags:
        return [f":{text}:{value}"]
    return [f"{flag}[{text}]" + (f":value:{value}" if argument.takes_value else "") for flag in argument.flags]


def _fish(parser: argparse.ArgumentParser) -> str:
    lines = ["complete -c unclump -f"]
    for option in _arguments(parser):
        lines.append(f"complete -c unclump -n __fish_use_subcommand {_fish_flags(option)}")
    for name, (text, arguments) in _commands(parser).items():
        lines.append(f"complete -c unclump -n __fish_use_subcommand -a {name} -d {_fish_quote(text)}")
        here = f"complete -c unclump -n '__fish_seen_subcommand_from {name}'"
        for argument in arguments:
            value = f" -a {_fish_quote(' '.join(argument.values))}" if argument.values else ""
            if not argument.flags:
                lines += [f"{here} -F"] if argument.takes_file else [f"{here}{value}"] if value else []
            else:
                kind = "" if not argument.takes_value else " -r -F" if argument.takes_file else " -x"
                lines.append(f"{here} {_fish_flags(argument)}{kind}{value}")
    return "\n".join(lines) + "\n"


def _fish_flags(argument: _Argument) -> str:
    flags = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in argument.flags]
    return f"{' '.join(flags)} -d {_fish_quote(argument.help)}"


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
