"""Build a release, look into it, and try it on every Python that is here.

    python -m scripts.release build             # the sdist and the wheel, into dist/
    python -m scripts.release check             # install and try them on each Python
    python -m scripts.release check 3.12 3.14   # on some

`make dist` and `make release-check` do it. `docs/internals/release.md` has the whole checklist.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"


class ReleaseProblem(Exception):
    """Why this must not be released."""
