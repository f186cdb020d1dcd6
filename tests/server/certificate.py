"""Throw-away certificates for servers that speak TLS."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.server.process import find_program

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class Certificates:
    """A CA, and certificates that it signed; every file can be read by every user."""

    def __init__(self, name: str = "windlass") -> None:
        self._openssl = str(find_program("openssl"))
        self.directory = Path(tempfile.mkdtemp(prefix="windlass-certificates-"))
        self.directory.chmod(0o755)
        self.ca = self.directory / "ca.pem"
        self._run(
            "req", "-x509", *KEY, "-keyout", "ca.key", "-out", "ca.pem", "-subj", f"/CN={name}"
        )

    def make(self, name: str, *, of: str = "IP:127.0.0.1") -> tuple[Path, Path]:
        """The certificate of `of` under that name, and its key."""
        given = ("-subj", f"/CN={name}", "-addext", f"subjectAltName={of}")
        self._run(
            "req", "-x509", *KEY, *given, "-CA", "ca.pem", "-CAkey", "ca.key",
            "-addext", "basicConstraints=critical,CA:false",
            "-keyout", f"{name}.key", "-out", f"{name}.pem",
        )  # fmt: skip
        key = self.directory / f"{name}.key"
        key.chmod(0o644)
        return self.directory / f"{name}.pem", key

    def joined(self, name: str) -> Path:
        """The certificate and the key of a name in one file, as ZooKeeper reads them."""
        both = self.directory / f"{name}-both.pem"
        parts = [(self.directory / f"{name}.{end}").read_text() for end in ("key", "pem")]
        both.write_text("".join(parts))
        return both

    def close(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, *command: str) -> None:
        subprocess.run(
            [self._openssl, *command], cwd=self.directory, check=True, capture_output=True
        )
