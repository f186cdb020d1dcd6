"""Private servers that tests and measurements start, stop and kill.

Each object is one server with its own directory, port and data:

    with PostgreSQL() as server:
        App(server.url).migrate()
        server.kill()       # as a power cut would: every process, at once
        server.start()      # recovers on the same port with the same data
"""

from tests.server.etcd import Etcd, EtcdCluster
from tests.server.mariadb import MariaDB
from tests.server.mysql import MySQL
from tests.server.pgbouncer import PgBouncer
from tests.server.postgresql import PostgreSQL
from tests.server.process import Daemon, Server, ServerMissing
from tests.server.rabbitmq import RabbitMQ
from tests.server.redis import Redis
from tests.server.secure import SecureEtcd, SecureZooKeeper
from tests.server.zookeeper import ZooKeeper

__all__ = [
    "Daemon",
    "Etcd",
    "EtcdCluster",
    "MariaDB",
    "MySQL",
    "PgBouncer",
    "PostgreSQL",
    "RabbitMQ",
    "Redis",
    "SecureEtcd",
    "SecureZooKeeper",
    "Server",
    "ServerMissing",
    "ZooKeeper",
]
