"""Completion as people have it: in a bash, a zsh and a fish that source what is printed.

A shell that is not installed is skipped.
"""

import os
import shutil
import subprocess
import sys

import pytest

from tests.tidy.source import ROOT

pytestmark = pytest.mark.mostly("sqlite")

# Types the words, with the key for completion at the end, and prints what is offered.
BASH = """
eval "$(windlass completion bash)"
COMP_WORDS=({words} "{last}"); COMP_CWORD={place}
_windlass_completion windlass
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
FISH = """
windlass completion fish | source
complete -C "{words} {last}"
"""
ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
send() {{ zpty -w shell $1; until zpty -r shell line "*$2*"; do :; done }}
send 'PROMPT=; autoload -U compinit; compinit -u -d {folder}/dump' compinit
send 'eval "$(windlass completion zsh)"; print read''y' ready
zpty -w -n shell $'{words} {last}\\t\\t'
until zpty -r shell line "*{expected}*"; do :; done
print -r -- $line
zpty -d shell
"""
SCRIPTS = {"bash": BASH, "fish": FISH, "zsh": ZSH}
TYPED = [
    ("windlass", "sw", "sweep"),
    ("windlass task", "ca", "cancel"),
    ("windlass task enqueue", "send_", "send_mail"),
    ("windlass task list --status", "fai", "failed"),
]


@pytest.fixture
def typed(sqlite_shop, tmp_path):
    """Lets a shell complete what is typed; what it shows."""
    here = tmp_path / "bin"
    here.mkdir()
    program = here / "windlass"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m windlass "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{here}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(["src", *filter(None, sys.path)]),
        "TERM": "dumb",
    }
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)])

    def complete(shell, words, last, expected):
        if shutil.which(shell) is None:
            pytest.skip(f"{shell} is not installed")
        script = SCRIPTS[shell].format(
            words=words, last=last, place=len(words.split()), expected=expected, folder=tmp_path
        )
        options = {"bash": ["--norc"], "fish": ["--no-config"], "zsh": ["-f"]}[shell]
        result = subprocess.run(
            [shell, *options, "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return result.stdout + result.stderr

    return complete


@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize(("words", "last", "expected"), TYPED)
def test_a_shell_completes(typed, shell, words, last, expected):
    offered = typed(shell, words, last, expected).splitlines()

    assert expected in [line.split("\t")[0] for line in offered]
    assert all(line.startswith(last) for line in offered)


@pytest.mark.parametrize(("words", "last", "expected"), [TYPED[0], TYPED[2]])
def test_zsh_completes(typed, words, last, expected):
    assert expected in typed("zsh", words, last, expected)


def test_ids_are_completed(typed, sqlite_shop):
    ref = sqlite_shop.send_mail.enqueue("a@b.c")

    assert str(ref.id) in typed("bash", "windlass task show", str(ref.id)[:1], str(ref.id))
