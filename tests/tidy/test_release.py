"""What is given to users: the sdist and the wheel, and the checks that a release must pass."""

import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

import windlass
from scripts.manual import newest_of
from scripts.release import ReleaseProblem, build, pythons
from scripts.release.content import STATIC, check_sdist, check_wheel
from tests.tidy.source import ROOT

WHEEL = f"windlass-{windlass.__version__}-py3-none-any.whl"
SDIST = f"windlass-{windlass.__version__}.tar.gz"
INFO = f"windlass-{windlass.__version__}.dist-info"
IS_BUILT = (build.STATIC / "index.html").is_file()
NEEDS_CONSOLE = pytest.mark.skipif(not IS_BUILT, reason="the console is not built")


@NEEDS_CONSOLE
def test_the_sdist_and_the_wheel_are_complete_and_the_sdist_builds_the_same_wheel(tmp_path):
    sdist, wheel = build.build(tmp_path)

    assert [sdist.name, wheel.name] == [SDIST, WHEEL]
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"windlass/py.typed", f"{STATIC}index.html", f"{INFO}/licenses/LICENSE"} <= names
    assert any(name.startswith(f"{STATIC}assets/") for name in names)
    requires = zipfile.ZipFile(wheel).read(f"{INFO}/METADATA").decode()
    assert "Requires-Dist: fastapi>=" in requires
    assert "extra ==" not in next(line for line in requires.splitlines() if "fastapi" in line)
    with tarfile.open(sdist) as packed:
        assert f"windlass-{windlass.__version__}/console/package-lock.json" in packed.getnames()


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("tests/test_shop.py", b"", "has tests/test_shop.py, which git has not"),
        ("windlass/__pycache__/app.cpython-313.pyc", b"", "app.cpython-313.pyc is not for a rele"),
        ("windlass/secret.py", b"", "has windlass/secret.py, which git has not"),
        (f"{STATIC}index.html", b'<script src="./assets/x-1.js">', "assets/x-1.js, which is not"),
        (f"{STATIC}index.html", b"<html></html>", "the page of the console links no script"),
        ("windlass/app.py", str(ROOT / "src").encode(), "a folder of this machine"),
    ],
)
def test_a_wheel_with_what_should_not_be_there_is_refused(tmp_path, name, body, said):
    wheel = tmp_path / WHEEL
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr(name, body)

    found = check_wheel(wheel)

    assert [each for each in found if said in each]
    assert f"{WHEEL} lacks windlass/py.typed" in found
    assert f"{WHEEL} lacks {INFO}/licenses/LICENSE" in found


def test_an_sdist_with_what_should_not_be_there_is_refused(tmp_path):
    (tmp_path / "shop.db").write_bytes(b"")
    sdist = tmp_path / SDIST
    with tarfile.open(sdist, "w:gz") as packed:
        packed.add(tmp_path / "shop.db", f"windlass-{windlass.__version__}/src/shop.db")

    found = check_sdist(sdist)

    assert f"{SDIST} has src/shop.db, which is not for a release" in found
    assert f"{SDIST} lacks src/windlass/web/static/index.html" in found
    assert f"{SDIST} lacks LICENSE" in found


def test_without_the_built_console_nothing_is_built(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "STATIC", tmp_path)

    with pytest.raises(ReleaseProblem, match="the console is not built; run: make dist"):
        build.build(tmp_path)


def test_the_python_that_runs_the_tests_is_found():
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    on_path = shutil.which(f"python{own}")

    found = pythons.find(own)

    if on_path is None:
        return
    assert found is not None
    asked = [found, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip() == own


def test_every_python_that_is_declared_is_tried():
    declared = (ROOT / "pyproject.toml").read_text()

    for version in pythons.VERSIONS:
        assert f'"Programming Language :: Python :: {version}"' in declared


def test_the_manual_has_the_newest_patch_of_each_release_and_the_newest_release_first():
    found = newest_of(["v0.1.0", "v0.2.0", "v0.10.0", "v0.2.10", "v0.2.9", "v0.3.0rc1", "stable"])

    assert list(found.items()) == [("0.10", "v0.10.0"), ("0.2", "v0.2.10"), ("0.1", "v0.1.0")]
