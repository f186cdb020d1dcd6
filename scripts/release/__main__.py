"""The commands of `python -m scripts.release`."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from scripts.release import DIST, ROOT, ReleaseProblem, attempt, pythons
from scripts.release.build import build
from scripts.release.content import check_wheel

WORK = ROOT / "build" / "release"


def main() -> None:
    parser = argparse.ArgumentParser(prog="release")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the sdist and the wheel into dist/")
    check = commands.add_parser("check", help="try dist/'s wheel on each Python")
    check.add_argument("versions", nargs="*", metavar="VERSION", help="such as 3.13; all without")
    check.add_argument("--jobs", type=int, default=2, help="tests at a time")
    check.add_argument("--no-tests", action="store_true", help="install and demo only")
    asked = parser.parse_args()
    # What was started is ended, and folders are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        if asked.command == "build":
            for path in build(DIST):
                print(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")
        else:
            _check(asked.versions or pythons.VERSIONS, jobs=asked.jobs, tests=not asked.no_tests)
    except ReleaseProblem as problem:
        print(problem, file=sys.stderr)
        sys.exit(1)


def _check(versions: tuple[str, ...] | list[str], *, jobs: int, tests: bool) -> None:
    wheel = _wheel()
    told, failed = [], False
    for version in versions:
        python = pythons.find(version)
        if python is None:
            told.append(f"Python {version}: not on this machine, not tried")
            continue
        began = time.monotonic()
        try:
            attempt.as_user(python, wheel, WORK / version / "user")
            if tests:
                attempt.as_tester(python, wheel, WORK / version / "tester", jobs=jobs)
        except ReleaseProblem as problem:
            failed = True
            told.append(f"Python {version}: {problem}")
        else:
            what = "installed, demo, quick tests" if tests else "installed, demo"
            told.append(f"Python {version}: {what}: {time.monotonic() - began:.0f} s")
        print(told[-1], flush=True)
    print("\n".join(["", f"{wheel.name} was tried:", *told]))
    if failed:
        raise ReleaseProblem("this wheel must not be released")


def _wheel() -> Path:
    found = list(DIST.glob("windlass-*.whl"))
    if len(found) != 1:
        raise ReleaseProblem("dist/ must have one wheel; run: make dist")
    wrong = check_wheel(found[0])
    if wrong:
        raise ReleaseProblem("\n".join(wrong))
    return found[0]


main()
