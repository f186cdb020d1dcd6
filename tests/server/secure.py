"""etcd and ZooKeeper that want TLS, a user and a password, and perhaps a certificate."""

import base64
import contextlib
import http.client
import json
import socket
import ssl
from urllib.parse import quote, urlencode

from tests.server.certificate import Certificates
from tests.server.etcd import Etcd
from tests.server.process import Daemon
from tests.server.zookeeper import ZooKeeper

USER, PASSWORD = "shop", "it's/a:secret@"
TOKEN_SECONDS = 2

SECURE = """
secureClientPort={port}
secureClientPortAddress=127.0.0.1
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location={server}
ssl.trustStore.location={ca}
ssl.clientAuth={client_auth}
enforce.auth.enabled=true
enforce.auth.schemes=digest
"""


class Secure(Daemon):
    """What both share: certificates of a CA of their own."""

    def __init__(self, *, wants_certificate: bool) -> None:
        self.find()
        self.certificates = Certificates()
        self.server_files = self.certificates.make("server")
        self.client_files = self.certificates.make("client")
        self.wants_certificate = wants_certificate
        super().__init__()

    def url_with(
        self, *, host: str = "127.0.0.1", access: str | None = None, **options: str
    ) -> str:
        """The URL with these options, and the right user and password if no `access` is given."""
        if access is None:
            access = f"{USER}:{quote(PASSWORD, safe='')}@"
        kind = self.url.partition(":")[0]
        return f"{kind}://{access}{host}:{self.port}?{urlencode(options)}".rstrip("?")

    @property
    def files(self) -> dict[str, str]:
        """What a client needs, by the names of the options in the URL."""
        files = {"ca": str(self.certificates.ca)}
        if self.wants_certificate:
            files |= dict(zip(("cert", "key"), map(str, self.client_files), strict=True))
        return files

    def connect(self) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=self.certificates.ca)
        context.load_cert_chain(*self.client_files)
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=2)
        return context.wrap_socket(plain, server_hostname="127.0.0.1")

    def close(self) -> None:
        super().close()
        self.certificates.close()


class SecureEtcd(Secure, Etcd):
    def command(self) -> list[str]:
        certificate, key = self.server_files
        command = [
            part.replace(f"http://{self.address}", f"https://{self.address}")
            for part in super().command()
        ]
        token = f"jwt,pub-key={certificate},priv-key={key},sign-method=ES256,ttl={TOKEN_SECONDS}s"
        command += [f"--cert-file={certificate}", f"--key-file={key}", f"--auth-token={token}"]
        if self.wants_certificate:
            command += ["--client-cert-auth", f"--trusted-ca-file={self.certificates.ca}"]
        return command

    def prepare(self) -> None:
        """One user who may use the keys of Windlass, and nobody without a password."""
        for name, password in (("root", "root"), (USER, PASSWORD)):
            self.ask("auth/user/add", name=name, password=password)
            self.ask("auth/role/add", name=name)
            self.ask("auth/user/grant", user=name, role=name)
        first, end = (base64.b64encode(key).decode() for key in (b"/windlass/", b"/windlass0"))
        permission = {"permType": "READWRITE", "key": first, "range_end": end}
        self.ask("auth/role/grant", name=USER, perm=permission)
        self.ask("auth/enable")

    def ping(self) -> None:
        if self.request("GET", "/health")["health"] != "true":
            raise RuntimeError("it has no leader yet")

    def ask(self, what: str, **fields: object) -> None:
        self.request("POST", f"/v3/{what}", json.dumps(fields))

    def request(self, method: str, path: str, body: str | None = None) -> dict:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.sock = self.connect()
        with contextlib.closing(connection):
            connection.request(method, path, body)
            response = connection.getresponse()
            answer = json.load(response)
        if response.status != 200:
            raise RuntimeError(f"{method} {path}: {answer}")
        return answer


class SecureZooKeeper(Secure, ZooKeeper):
    def listens(self) -> str:
        return SECURE.format(
            port=self.port,
            server=self.certificates.joined("server"),
            ca=self.certificates.ca,
            client_auth="need" if self.wants_certificate else "none",
        )
