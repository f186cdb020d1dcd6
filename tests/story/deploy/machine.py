"""The steps of a Dockerfile, done for real on copies of this machine.

Each stage is this machine's file system with a layer on top (an overlay in a mount namespace of its
own), entered by chroot: COPY and RUN do what they say, with absolute paths, and change nothing
outside. What is not real are the base images: this machine plays all of them. Only root on Linux
can do it.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.story.deploy.dockerfile import Stage, copies_of

LAYER = """
set -e
mount -t tmpfs -o size=4g,mode=755 windlass {place}
mount --make-rprivate {place}
echo ready
exec sleep infinity
"""
STAGE = """
set -e
mkdir {stage} {stage}/upper {stage}/work {stage}/root
mount -t overlay overlay -o lowerdir=/,upperdir={stage}/upper,workdir={stage}/work {stage}/root
mount --rbind /dev {stage}/root/dev
mount -t proc proc {stage}/root/proc
mount -t tmpfs -o mode=1777 temporary {stage}/root/tmp
"""


@dataclass
class Copy:
    """A stage that is being built, or that was: a file system, and what is set in it."""

    namespace: int
    place: Path
    environment: dict[str, str]
    folder: str = "/"
    user: str = "0:0"
    steps: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        """Its root as this process sees it."""
        return Path(f"/proc/{self.namespace}/root{self.place}/root")

    def within(self, path: str) -> Path:
        """A path of the copy as this process sees it."""
        absolute = path if path.startswith("/") else f"{self.folder}/{path}"
        return self.root / absolute.lstrip("/")

    def command(self, words: list[str]) -> list[str]:
        """What runs a command in it, as its user and in its folder."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        change = f"cd {shlex.quote(self.folder)} && exec {shlex.join(words)}"
        return [
            *("nsenter", "-t", str(self.namespace), "-m"),
            *("chroot", f"--userspec={self.user}", f"{self.place}/root"),
            *("/usr/bin/env", "-i", *variables, "/bin/sh", "-c", change),
        ]

    def run(self, words: list[str]) -> str:
        """Run a command in it; it must end well."""
        done = subprocess.run(self.command(words), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@contextmanager
def namespace(place: Path) -> Iterator[int]:
    """A process whose mounts nobody else sees; with it they go."""
    process = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", LAYER.format(place=place)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise PermissionError(process.communicate()[1])
        yield process.pid
    finally:
        process.kill()
        process.wait()


def build(stages: list[Stage], context: Path, own: int, place: Path, bases: dict[str, str]) -> Copy:
    """Do every step of every stage; the last one. `bases` are values of PATH, by image."""
    built: dict[str, Copy] = {}
    for number, stage in enumerate(stages):
        where = place / f"stage{number}"
        script = STAGE.format(stage=where)
        subprocess.run(["nsenter", "-t", str(own), "-m", "sh", "-c", script], check=True)
        image = stage.base.partition(":")[0]
        copy = Copy(own, where, {"PATH": bases[image], "HOME": "/root"} | _outside())
        # The Pythons of pyenv are in root's home, and an image's are for everyone.
        (copy.root / "root").chmod(0o755)
        for word, said in stage.steps:
            _do(copy, word, said, context=context, built=built)
        built[stage.name] = copy
    return built[stages[-1].name]


def _outside() -> dict[str, str]:
    """What leads pip and npm of this machine to packages; an engine gives it to a build, too."""
    names = ("PIP_", "SSL_", "NODE_EXTRA", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    return {name: value for name, value in os.environ.items() if name.upper().startswith(names)}


def _do(copy: Copy, word: str, said: str, *, context: Path, built: dict[str, Copy]) -> None:
    copy.steps.append(word)
    match word:
        case "WORKDIR":
            copy.folder = said
            copy.within(said).mkdir(parents=True, exist_ok=True)
        case "ENV":
            for pair in shlex.split(said):
                name, _, value = pair.partition("=")
                copy.environment[name] = value.replace("$PATH", copy.environment["PATH"])
        case "USER":
            copy.user = said
        case "RUN":
            copy.run(["/bin/sh", "-c", said])
        case "COPY":
            taken, sources, target = copies_of(said)
            for source in sources:
                found = context / source if taken is None else built[taken].within(source)
                _copy(found, copy.within(target), into=target.endswith("/") or len(sources) > 1)
        case "EXPOSE" | "STOPSIGNAL" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
            pass
        case _:
            raise AssertionError(f"a step that is not known here: {word} {said}")


def _copy(found: Path, target: Path, *, into: bool) -> None:
    """As Docker copies: what is in a folder, or a file; links stay links."""
    if found.is_dir():
        shutil.copytree(found, target, symlinks=True, dirs_exist_ok=True)
        return
    if into or target.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        target /= found.name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(found, target)
