"""One word for one thing: a public class name stands for one class."""

import ast
from collections import defaultdict

from tests.tidy.source import name_of, python_files, tree_of

# Each of these is public under one of its meanings, and the other has no better word.
TWICE = {
    "Clock": "what time it is; and `windlass.testing.Clock`, which tests move",
    "Command": "a job that is a command; and what Django calls a command of manage.py",
    "Failed": "how a run ended; and `windlass.Failed`, how a job elsewhere ended",
    "Migration": "one that was made here; and what Django calls one of its own",
    "Task": "a declared task; and its row, as the admin of Django lists it",
    "Worker": "what runs tasks; and its row, as the admin of Django lists it",
}


def test_a_class_name_exists_once():
    homes = defaultdict(list)
    for path in python_files():
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name_of(path))

    twice = {name: files for name, files in homes.items() if len(files) > 1}

    assert {name: files for name, files in twice.items() if name not in TWICE} == {}
    assert set(TWICE) <= set(twice), "no longer there twice: take it off the list"
