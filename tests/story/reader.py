"""Somebody who does what a page says: writes its files, runs its Python, types its commands.

Python and the quick commands run in this process, one page after the other, so that a hundred
blocks cost little. What would run until it is stopped gets a process, and is stopped.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import configparser
import json
import os
import re
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import traceback
from contextlib import ExitStack, closing, contextmanager, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from unittest import mock

import yaml
from sqlalchemy import create_engine, text

from tests.spawn import Forked, run_forked
from tests.story.page import Block
from tests.tidy.source import ROOT
from tests.wait import eventually
from windlass import App, cli

PATIENCE_SECONDS = 60.0
# What lasts costs processes: of a command that several pages have, the first is started.
STARTED: set[tuple[str, ...]] = set()
SHOP = Path(__file__).with_name("shop.py")
# These go on until they are told to stop.
LASTING = {"worker", "dev", "callback", "console", "demo"}
# What a page shows and nobody can run: output, trees, requests.
SHOWN = {"text", "dockerfile", "http", "make"}
MAKE_TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)
# What a worker, or a server, says when it is ready.
THERE = re.compile(r"worker \S+ joined|http://")
ADDRESS = re.compile(r"http://[\w.-]+:(\d+)")
EXTRA = re.compile(r"^windlass(\[[a-z,]+\])?$")


class Reader:
    """Reads one page in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, object] = {"__name__": "__main__", "__builtins__": builtins}
        self.written: set[str] = set()
        # What the commands have written.
        self.said = ""
        # The shop that the pages speak of, for commands on pages that do not write one.
        (folder / "shop.py").write_text(SHOP.read_text())

    def read(self, blocks: list[Block]) -> None:
        """Do what each block says; the error of one that fails names its place."""
        for block in blocks:
            try:
                self.do(block)
            except (Exception, SystemExit) as problem:
                where = "".join(traceback.format_exception(problem, limit=-8))
                raise AssertionError(f"{block.place}: {problem}\n{where}") from problem

    def do(self, block: Block) -> None:
        """One block."""
        if block.file is not None:
            self.write(self.folder / block.file, block.code)
        if block.reason is not None:
            check_form(block)
            return
        match block.language:
            case "python" if block.file is None or not block.file.startswith("test_"):
                self.run_python(block)
            case "sh":
                for command in commands_in(block.code):
                    self.type(command)
            case "sql":
                self.run_sql(block)
            case "js":
                self.said += run_node(block.code)
            case _:
                check_form(block)

    def write(self, path: Path, code: str) -> None:
        """Write a file, or more of one that the page has begun."""
        begun = path.read_text() + "\n\n" if path.name in self.written else ""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(begun + code)
        self.written.add(path.name)
        sys.modules.pop(path.stem, None)

    def run_python(self, block: Block) -> None:
        # Blank lines before it make an error show the line of the page.
        code = python_of("\n" * (block.line - 1) + block.code, str(block.page))
        waiting = FunctionType(code, self.names)()
        if waiting is not None:
            asyncio.run(waiting)

    def run_sql(self, block: Block) -> None:
        engine = create_engine("sqlite:///shop.db")
        with engine.begin() as connection:
            for statement in block.code.split(";"):
                if statement.strip():
                    connection.execute(text(statement))
        engine.dispose()

    def type(self, command: str) -> None:
        """A line in a shell; it must end well."""
        words = shlex.split(command, comments=True)
        match words:
            case []:
                return
            case _ if {"|", ">", "&&"} & {*words}:
                self.said += run_elsewhere(command)
            case ["export", *settings]:
                os.environ.update(each.split("=", 1) for each in settings)
            case ["pip", "install", *what]:
                check_install(what)
            case ["make", *targets]:
                check_targets(targets)
            case ["python", script] if (self.folder / script).exists():
                quietly(lambda: runpy.run_path(str(self.folder / script), run_name="__main__"))
            case ["python", "-m", module, *_] if module.startswith("examples."):
                self.said += run_module([sys.executable, *words[1:]])
            case ["pytest", *_]:
                self.said += run_module([sys.executable, "-m", *words])
            case ["windlass", verb, *rest] if verb in LASTING and not {"--once", "--help"} & {
                *rest
            }:
                check_options(command)
                if tuple(words) not in STARTED:
                    STARTED.add(tuple(words))
                    run_for_a_moment(words)
            case ["windlass", *rest]:
                assert run_cli(rest) == 0, f"{command!r} did not end well"
            case _:
                self.said += run_elsewhere(command)


@contextmanager
def reading_in(folder: Path):
    """A reader in a folder, with the surroundings of somebody who has just installed Windlass."""
    known = set(sys.modules)
    reader = Reader(folder)
    with ExitStack() as stack:
        environment = {**os.environ, "WINDLASS_APP": "shop:app"}
        environment.pop("WINDLASS_DATABASE_URL", None)
        stack.enter_context(mock.patch.dict(os.environ, environment, clear=True))
        stack.enter_context(mock.patch.object(sys, "path", [str(folder), *sys.path]))
        # What a page declares is in a program that has a file, wherever the tests run.
        main = sys.modules["__main__"]
        program = str(folder / "shop.py")
        stack.enter_context(mock.patch.object(main, "__file__", program, create=True))
        stack.callback(os.chdir, Path.cwd())
        os.chdir(folder)
        try:
            yield reader
        finally:
            modules = {name: sys.modules[name] for name in set(sys.modules) - known}
            own = {name: each for name, each in modules.items() if is_below(each, folder)}
            close_apps([reader.names, *map(vars, own.values())])
            for name in own:
                del sys.modules[name]


def close_apps(spaces: list[dict[str, object]]) -> None:
    """Give back the connections of every app that the page has made."""
    for value in [value for space in spaces for value in space.values()]:
        if isinstance(value, App):
            value.close()


def is_below(module: ModuleType, folder: Path) -> bool:
    """Whether a module is the page's own: written by it, or one of the examples."""
    file = getattr(module, "__file__", None) or "/"
    return any(Path(file).is_relative_to(each) for each in (folder, ROOT / "examples"))


def run_cli(words: list[str]) -> int:
    """The exit code of `windlass ...`, in this process."""
    # Whoever is asked whether to go on says yes.
    asked = mock.patch.object(sys, "stdin", StringIO("y\n"))
    with asked, mock.patch.object(sys, "argv", ["windlass", *words]):
        # As in a new process, a module is read again.
        sys.modules.pop(os.environ.get("WINDLASS_APP", "").partition(":")[0], None)
        try:
            quietly(cli.main)
        except SystemExit as left:
            return int(left.code or 0)
    return 0


def quietly(run) -> str:
    """What `run` writes; it is shown only when it fails."""
    written = TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True)
    with redirect_stdout(written), redirect_stderr(written):
        try:
            run()
        except BaseException:
            sys.__stdout__.write(written.buffer.getvalue().decode())
            raise
    return written.buffer.getvalue().decode()


def run_for_a_moment(words: list[str]) -> None:
    """Start what lasts, wait until all of it is there, and ask it to stop: it leaves with 0."""
    if words[1] == "console":
        # The usual port may be taken on this machine.
        words = [*words, "--port", "0"]
    processes = int(words[words.index("--processes") + 1]) if "--processes" in words else 1
    process = Forked(
        [sys.executable, "-m", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), "."])},
    )
    said = ""
    try:
        while len(THERE.findall(said)) < processes and (line := process.stdout.readline()):
            said += line
        for port in ADDRESS.findall(said):
            eventually(
                lambda port=port: answers(int(port)), PATIENCE_SECONDS, what="the server to listen"
            )
        process.send_signal(signal.SIGTERM)
        said += process.stdout.read()
        assert process.wait(PATIENCE_SECONDS) == 0, said
    finally:
        process.kill()
        process.stdout.close()


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with closing(socket.socket()) as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def run_elsewhere(command: str) -> str:
    """Any other command, by a shell in which `windlass` is this one; what it writes."""
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE_SECONDS,
        env=surroundings(),
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def run_node(code: str) -> str:
    """What a module of Node writes."""
    result = subprocess.run(
        ["node", "--input-type=module", "--eval", code],
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def run_module(words: list[str]) -> str:
    """What `python -m ...` writes, in a process that need not import Windlass anew."""
    result = run_forked(words, check=False, timeout=PATIENCE_SECONDS, env=surroundings())
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def surroundings() -> dict[str, str]:
    """The environment of a shell in which `windlass` is this one."""
    folder = Path(sys.executable).parent
    return {
        **os.environ,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), "."]),
        # As installed, pytest would find it by itself. No other plugin is needed.
        "PYTEST_PLUGINS": "windlass.testing",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }


def commands_in(code: str) -> list[str]:
    """The lines of a block of commands; a line that ends with a backslash goes on."""
    return [line for line in code.replace("\\\n", " ").splitlines() if line.strip()]


def check_install(what: list[str]) -> None:
    """Whether a command installs something that there is, without doing it."""
    extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    for each in what:
        found = EXTRA.match(each)
        assert found is not None, each
        assert set((found[1] or "[]")[1:-1].split(",")) - {""} <= extras, each


def check_targets(targets: list[str]) -> None:
    known = MAKE_TARGET.findall((ROOT / "Makefile").read_text())
    assert [each for each in targets if each not in known] == []


def check_form(block: Block) -> None:
    """Whether a block that is not run is what it says it is."""
    match block.language:
        case "python":
            python_of(block.code, block.place)
        case "sh":
            for command in commands_in(block.code):
                shlex.split(command, comments=True)
                check_options(command)
        case "json":
            json.loads(block.code)
        case "yaml":
            for document in yaml.safe_load_all(block.code):
                check_commands(document)
        case "ini":
            check_unit(block.code)
        case "sql":
            assert block.reason is not None
        case language:
            assert language in SHOWN, f"{language!r}: a block of no language that is known here"


def python_of(code: str, place: str) -> CodeType:
    """The code of a block, which may await at its top as people do in a shell."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    return compile(code, place, "exec", flags=flags, dont_inherit=True)


def check_unit(code: str) -> None:
    """A unit of systemd: its form, and the command that it starts."""
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read_string(code)
    for section in unit.sections():
        for name, value in unit[section].items():
            if name.startswith("Exec"):
                check_options(value)


def check_commands(document: object) -> None:
    """The commands in a manifest of containers."""
    match document:
        case dict():
            words = [*document.get("command", []), *document.get("args", [])]
            if words and all(isinstance(word, str) for word in words):
                check_options(shlex.join(words))
            for value in document.values():
                check_commands(value)
        case list():
            for value in document:
                check_commands(value)


def check_options(command: str) -> None:
    """Whether a command of Windlass has the options that it is given."""
    words = shlex.split(command, comments=True)
    names = [Path(word).name for word in words]
    if "windlass" not in names:
        return
    rest = words[names.index("windlass") + 1 :]
    rest = rest[: next((at for at, word in enumerate(rest) if word in {"|", "||", "&&"}), None)]
    found = command_of(rest)
    with found.make_context(rest[0], rest[found_at(rest) :], resilient_parsing=False):
        pass


def command_of(words: list[str]):
    import typer

    command = typer.main.get_command(cli.cli)
    for word in words[: found_at(words)]:
        command = command.commands[word]
    return command


def found_at(words: list[str]) -> int:
    """How many of the words name the command."""
    import typer

    command, at = typer.main.get_command(cli.cli), 0
    while at < len(words) and words[at] in getattr(command, "commands", {}):
        command, at = command.commands[words[at]], at + 1
    return at
