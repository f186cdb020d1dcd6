"""Unpack newer servers than the system has, for the tests: MySQL, and the newest of the others.

    python3 -m scripts.newer_servers mysql postgresql      # those that are not there yet
    python3 -m scripts.newer_servers --again mysql         # a newer release, if there is one

They come from Debian's unstable suite, with the libraries that they need, into a folder outside the
work tree: `$WINDLASS_SERVERS`, or else one in the user's cache. Nothing is installed. apt itself
fetches the packages, from the mirror that the system's own package sources name, and checks the
archive's signature. A server is started by the loader that came with it, so the C library of the
system may be older.

Only the standard library is imported: this runs before anything is installed.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

KEYRINGS = (
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
)
WRAPPER = """#!/bin/sh
exec '{loader}' --argv0 "$0" --library-path '{libraries}' '{program}' "$@"
"""
ERLANG = ("beam.smp", "epmd", "erl_child_setup", "erlexec", "inet_gethost")
# Nothing that runs reads these.
UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/icons", "var")


@dataclass(frozen=True)
class Newer:
    """One server: its packages, and where its programs are."""

    packages: tuple[str, ...]
    folder: str
    programs: tuple[str, ...]
    # What the programs start: patterns below the root.
    helpers: tuple[str, ...] = ()
    # A script that names this folder of the system, which is another one here.
    script: str = ""
    names: str = ""


SERVERS = {
    "mysql": Newer(("mysql-server-core",), "usr/sbin", ("mysqld",)),
    "postgresql": Newer(("postgresql-18",), "usr/lib/postgresql/18/bin", ("initdb", "postgres")),
    "mariadb": Newer(("mariadb-server-core",), "usr/sbin", ("mariadbd",)),
    "pgbouncer": Newer(("pgbouncer",), "usr/sbin", ("pgbouncer",)),
    "etcd": Newer(("etcd-server",), "usr/bin", ("etcd",)),
    "valkey": Newer(("valkey-server",), "usr/bin", ("valkey-server",)),
    "nats": Newer(("nats-server",), "usr/sbin", ("nats-server",)),
    "rabbitmq": Newer(
        ("rabbitmq-server",),
        "usr/lib/rabbitmq/bin",
        (),
        helpers=tuple(f"usr/lib/erlang/erts-*/bin/{name}" for name in ERLANG),
        script="usr/lib/erlang/bin/erl",
        names="/usr/lib/erlang",
    ),
    # Not a server: a release is tried on it.
    "python": Newer(("python3.14",), "usr/bin", ("python3.14",)),
}


class CannotUnpack(Exception):
    """Why newer servers cannot be had here."""


def cache() -> Path:
    """The folder of all unpacked servers."""
    given = os.environ.get("WINDLASS_SERVERS")
    if given:
        return Path(given).resolve()
    if os.geteuid() == 0:
        # The servers run as users of their own, who cannot look into root's home.
        return Path("/var/cache/windlass/servers")
    cached = os.environ.get("XDG_CACHE_HOME")
    # Without $HOME, the user's entry in the list of accounts tells.
    return (Path(cached) if cached else Path.home() / ".cache") / "windlass" / "servers"


def root_of(name: str) -> Path:
    """The folder that stands for `/` of a server."""
    return cache() / name / "root"


def programs_of(name: str) -> Path:
    """The folder of a server's programs."""
    return root_of(name) / SERVERS[name].folder


def is_there(name: str) -> bool:
    """Whether a server was unpacked."""
    return (cache() / name / "version").exists()


def unpack(names: list[str], *, again: bool = False) -> None:
    """Unpack servers that are not there yet; each is there completely or not at all."""
    with _locked(cache()):
        missing = [name for name in names if again or not is_there(name)]
        if not missing:
            return
        work = cache() / "work"
        shutil.rmtree(work, ignore_errors=True)
        try:
            apt = _private_apt(work)
            for name in missing:
                _unpack_one(name, work, apt)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _unpack_one(name: str, work: Path, apt: list[str]) -> None:
    server = SERVERS[name]
    archives, folder = work / "cache" / "archives", work / name
    for left in archives.glob("*.deb"):
        left.unlink()
    (folder / "root").mkdir(parents=True)
    # dash: /bin/sh of programs that start others by a shell.
    fetch = ["install", "--download-only", "--no-install-recommends", "--yes"]
    _run([*apt, *fetch, "dash", *server.packages])
    for package in archives.glob("*.deb"):
        _run(["dpkg-deb", "--extract", str(package), str(folder / "root")])
    for unused in UNUSED:
        shutil.rmtree(folder / "root" / unused, ignore_errors=True)
    unpacked, final = folder / "root", root_of(name)
    for program in server.programs:
        _wrap(unpacked, final, f"{server.folder}/{program}")
    for pattern in server.helpers:
        for found in list(unpacked.glob(pattern)):
            _wrap(unpacked, final, str(found.relative_to(unpacked)))
    if server.script:
        script = unpacked / server.script
        script.write_text(script.read_text().replace(server.names, f"{final}{server.names}"))
    version = _version(archives, server.packages[0])
    (folder / "version").write_text(version + "\n")
    shutil.rmtree(cache() / name, ignore_errors=True)
    folder.rename(cache() / name)
    print(f"unpacked {name} {version} into {cache() / name}")


def _wrap(unpacked: Path, final: Path, program: str) -> None:
    """Put a script in the place of a program, which starts it by the loader beside it."""
    (loader,) = unpacked.glob("usr/lib/*-linux-*/ld-linux*.so.*")
    libraries = final / loader.relative_to(unpacked).parent
    script = unpacked / program
    script.rename(f"{script}.bin")
    script.write_text(
        WRAPPER.format(
            loader=libraries / loader.name, libraries=libraries, program=f"{final / program}.bin"
        )
    )
    script.chmod(0o755)


def _private_apt(work: Path) -> list[str]:
    """apt-get with a state of its own, and a list of what unstable has."""
    if not all(map(shutil.which, ("apt-get", "dpkg-deb"))):
        raise CannotUnpack("this system has no apt")
    keyring = next((each for each in KEYRINGS if Path(each).exists()), None)
    if keyring is None:
        raise CannotUnpack("the package debian-archive-keyring is not installed")
    for folder in ("lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    sources = work / "sources.list"
    sources.write_text(f"deb [signed-by={keyring}] {_mirror()} unstable main\n")
    options = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::Etc::preferencesparts": "-",
        "Dir::State::lists": work / "lists",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "Acquire::Languages": "none",
        "Acquire::Retries": 3,
        # The user that apt would become cannot write below this folder.
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "--quiet=2"]
    for option, value in options.items():
        apt += ["-o", f"{option}={value}"]
    _run([*apt, "update", "--error-on=any"])
    return apt


def _mirror() -> str:
    """The mirror of Debian among the system's own package sources."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    for uri in _run(asked).split():
        if urlsplit(uri).path.rstrip("/").endswith("/debian"):
            return uri
    raise CannotUnpack("the package sources of this system name no mirror of Debian")


def _version(archives: Path, package: str) -> str:
    """The version of the server itself: 9.7.4 of mysql-server-core_9.7.4-2_amd64.deb."""
    (found,) = archives.glob(f"{package}_*.deb")
    full = _run(["dpkg-deb", "--field", str(found), "Version"]).strip()
    return full.rpartition(":")[2].split("-")[0].split("+")[0]


def _run(command: list[str]) -> str:
    plain = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=plain)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-5:]
        raise CannotUnpack("\n".join([f"{command[0]} failed:", *said]))
    return done.stdout


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Inside the block, no other process changes the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / "lock").open("w")
    except OSError as problem:
        raise CannotUnpack(f"{folder} cannot be written; set $WINDLASS_SERVERS") from problem
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def main() -> None:
    os.umask(0o022)
    parser = argparse.ArgumentParser(prog="newer_servers", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=SERVERS, metavar="NAME")
    parser.add_argument("--again", action="store_true", help="unpack also what is there already")
    asked = parser.parse_args()
    try:
        unpack(asked.names, again=asked.again)
    except CannotUnpack as problem:
        missing = " ".join(name for name in asked.names if not is_there(name))
        print(f"not unpacked: {missing or 'a newer one'}: {problem}", file=sys.stderr)
        print("the tests that need it will be skipped", file=sys.stderr)


if __name__ == "__main__":
    main()
