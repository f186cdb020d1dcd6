"""One connection to one endpoint of etcd, with TLS and a user if the address says so."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from windlass.core.ring.member.address import Address, Tls

# Otherwise gRPC takes part in every fork, and some children die before they run another program.
# gRPC reads this once, when it is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# Our own events report connection problems; gRPC would print them again at each try.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
import grpc
from aetcd import rpc
from aetcd.utils import prefix_range_end

CALL_SECONDS = 1.0
# etcd makes passwords slow to check.
LOGIN_SECONDS = 3.0

CHANNEL = (
    # A new channel must not wait for the back-off of an earlier one.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)
DELETE = rpc.Event.DELETE
# Asks a watch for a sign of progress.
PROGRESS = rpc.WatchRequest(progress_request=rpc.WatchProgressRequest())


class EtcdClient:
    """The few calls that membership needs. Each raises gRPC's error if it fails."""

    def __init__(self, address: Address, host: str, port: int) -> None:
        self._address = address
        self._channel = _channel(address.tls, f"{host}:{port}")
        self._token: tuple[tuple[str, str], ...] | None = None

    async def grant_lease(self, seconds: int) -> tuple[int, int]:
        """A new lease, and for how many seconds it is good."""
        request = rpc.LeaseGrantRequest(TTL=seconds)
        reply = await self._ask(rpc.LeaseStub(self._channel).LeaseGrant, request)
        return reply.ID, reply.TTL

    async def renew_lease(self, lease: int) -> bool:
        """Whether the lease is good again; False if it has run out."""
        keep_alive = rpc.LeaseStub(self._channel).LeaseKeepAlive

        async def renew(request: Any, **options: Any) -> Any:
            async for reply in keep_alive([request], **options):
                return reply
            return None

        reply = await self._ask(renew, rpc.LeaseKeepAliveRequest(ID=lease))
        return reply is not None and reply.TTL > 0

    async def revoke_lease(self, lease: int) -> None:
        """End a lease, and with it its keys."""
        request = rpc.LeaseRevokeRequest(ID=lease)
        await self._ask(rpc.LeaseStub(self._channel).LeaseRevoke, request)

    async def put(self, key: bytes, *, lease: int) -> None:
        """Write a key that ends with its lease."""
        request = rpc.PutRequest(key=key, value=b"", lease=lease)
        await self._ask(rpc.KVStub(self._channel).Put, request)

    async def keys(self, prefix: bytes) -> tuple[list[str], int]:
        """The keys with this prefix, and the revision at which these were all."""
        end = prefix_range_end(prefix)
        request = rpc.RangeRequest(key=prefix, range_end=end, keys_only=True)
        reply = await self._ask(rpc.KVStub(self._channel).Range, request)
        return [pair.key.decode() for pair in reply.kvs], reply.header.revision

    async def watch(self, prefix: bytes, *, revision: int) -> Any:
        """The stream of changes of keys with this prefix from a revision on."""
        # Not aetcd's own watch: it does not report that the server cancelled or ended it.
        create = rpc.WatchCreateRequest(
            key=prefix, range_end=prefix_range_end(prefix), start_revision=revision
        )
        watch = rpc.WatchStub(self._channel).Watch(metadata=self._token)
        await watch.write(rpc.WatchRequest(create_request=create))
        return watch

    async def close(self) -> None:
        await self._channel.close()

    async def _ask(self, method: Callable[..., Awaitable[Any]], request: Any) -> Any:
        if self._address.user is not None and self._token is None:
            await self._log_in()
        try:
            return await method(request, timeout=CALL_SECONDS, metadata=self._token)
        except rpc.AioRpcError as problem:
            if self._token is None or problem.code() is not rpc.StatusCode.UNAUTHENTICATED:
                raise
        # The token has run out.
        await self._log_in()
        return await method(request, timeout=CALL_SECONDS, metadata=self._token)

    async def _log_in(self) -> None:
        request = rpc.AuthenticateRequest(name=self._address.user, password=self._address.password)
        login = rpc.AuthStub(self._channel).Authenticate
        reply = await login(request, timeout=LOGIN_SECONDS)
        self._token = (("token", reply.token),)


def _channel(tls: Tls | None, target: str) -> Any:
    if tls is None:
        return rpc.insecure_channel(target, options=CHANNEL)
    # Read for each connection: certificates are renewed.
    ca, cert, key = (
        None if path is None else Path(path).read_bytes() for path in (tls.ca, tls.cert, tls.key)
    )
    credentials = grpc.ssl_channel_credentials(
        root_certificates=ca, private_key=key, certificate_chain=cert
    )
    return rpc.secure_channel(target, credentials, options=CHANNEL)
