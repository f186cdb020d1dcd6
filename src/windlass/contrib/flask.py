"""Windlass in Flask: a worker beside the application, sessions, the console.

Windlass(app, worker=True).init_app(flask_app)
flask_app.register_blueprint(console(app, user=current_admin), url_prefix="/windlass")
join(db.session)(send_mail, key="order-7").enqueue(...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from windlass.clock import SECOND
from windlass.contrib.bridge import Bridge, Scope, scope_of
from windlass.contrib.console import ConsoleUser, Hosted, check_user
from windlass.contrib.join import Joined
from windlass.contrib.keep import WorkerThread

if TYPE_CHECKING:
    from flask import Blueprint, Flask

    from windlass.app import App

__all__ = ["ConsoleUser", "Joined", "Windlass", "console", "join"]

METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]
# As the console itself allows.
LARGEST_BODY = 1024 * 1024


class Windlass:
    """The extension: an application that enqueues tasks; with `worker`, it also runs them.

    The worker runs on a thread, in each process of the application. When a process ends by itself
    it waits for running tasks, up to the grace of the app.
    """

    def __init__(
        self,
        app: App,
        flask_app: Flask | None = None,
        *,
        worker: bool = False,
        kinds: Sequence[str] | None = None,
        concurrency: int | None = None,
    ) -> None:
        self.app = app
        self._thread: WorkerThread | None = None
        if worker:
            self._thread = WorkerThread(
                lambda: app.worker(kinds=kinds, concurrency=concurrency),
                grace_seconds=app.settings.grace / SECOND,
            )
        if flask_app is not None:
            self.init_app(flask_app)

    def init_app(self, flask_app: Flask) -> None:
        """Make sure that the tables are there, and start the worker."""
        self.app.prepare()
        flask_app.extensions["windlass"] = self
        if self._thread is not None:
            self._thread.start()

    def stop(self) -> None:
        """Stop the worker, and close all connections."""
        if self._thread is not None:
            self._thread.stop()
        self.app.close()


def join(session: object) -> Joined:
    """Enqueues in the transaction of this session, such as `db.session` of Flask-SQLAlchemy."""
    return Joined(session)


def console(
    app: App,
    *,
    user: Callable[[], ConsoleUser | None],
    read_only: bool = False,
    name: str = "windlass",
) -> Blueprint:
    """A blueprint with the console, to be registered under a `url_prefix` of your choice.

    `user()` runs in the context of the request and returns a ConsoleUser, or None for a person
    who may not see the console; it may `abort(...)`, or answer with a response of its own.
    """
    from flask import Blueprint, Response, abort, request

    hosted, bridge = Hosted(app, read_only=read_only), Bridge()
    blueprint = Blueprint(name, __name__)

    @blueprint.route("/", defaults={"rest": ""}, methods=METHODS)
    @blueprint.route("/<path:rest>", methods=METHODS)
    def serve(rest: str) -> Any:
        given: Any = user()
        if isinstance(given, Response) or hasattr(given, "headers"):
            return given
        known = check_user(given)
        if known is None:
            abort(403)
        if (request.content_length or 0) > LARGEST_BODY:
            abort(413)
        root = f"{request.root_path}{request.path.removesuffix(rest)}".rstrip("/")
        scope = scope_of(request.environ, root)

        async def answer(scope: Scope, receive: Any, send: Any) -> None:
            await hosted.serve((scope, receive, send), root=root, user=known)

        answered = bridge.call(answer, scope, request.get_data())
        return Response(
            answered.chunks(),
            answered.start.status,
            answered.start.headers,
            direct_passthrough=True,
        )

    return blueprint
