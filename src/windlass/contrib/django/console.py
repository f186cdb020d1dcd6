"""The console behind Django's login: for the staff, with what their permissions allow."""

from __future__ import annotations

import threading
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch
from django.utils.module_loading import import_string

from windlass.contrib.bridge import Bridge, Scope, Start, scope_of
from windlass.contrib.console import ConsoleUser, Hosted, check_user
from windlass.contrib.django.begin import the_app

_lock = threading.Lock()
_hosted: list[Hosted] = []
_bridge = Bridge()
# As the console itself allows.
LARGEST_BODY = 1024 * 1024


async def console(request: HttpRequest, rest: str) -> HttpResponseBase:
    """A page of the console, or an answer of its API."""
    user = await sync_to_async(_user_of)(request, rest)
    if isinstance(user, HttpResponseBase):
        return user
    if int(request.headers.get("content-length") or 0) > LARGEST_BODY:
        return HttpResponse(status=413)
    root = request.path.removesuffix(rest).rstrip("/")
    hosted = await sync_to_async(_hosted_console)()

    async def serve(scope: Scope, receive: Any, send: Any) -> None:
        await hosted.serve((scope, receive, send), root=root, user=user)

    if isinstance(request, ASGIRequest):
        later = await _bridge.acall(serve, dict(request.scope), request.body)
        return _response(later.start, later.chunks())
    answer = await sync_to_async(_bridge.call)(serve, scope_of(request.META, root), request.body)
    return _response(answer.start, answer.chunks())


# The console's own page proves itself in another way than by Django's token, and its requests
# are no transactions of Django's.
vars(console)["csrf_exempt"] = True
vars(console)["_non_atomic_requests"] = set(settings.DATABASES)


def _response(start: Start, chunks: Any) -> StreamingHttpResponse:
    response = StreamingHttpResponse(chunks, status=start.status)
    del response["Content-Type"]
    for name, value in start.headers:
        response[name] = value
    return response


def _hosted_console() -> Hosted:
    with _lock:
        if not _hosted:
            _hosted.append(Hosted(the_app()))
        return _hosted[0]


def _user_of(request: HttpRequest, rest: str) -> ConsoleUser | HttpResponseBase:
    """Who may see the console, and with which role; or the answer to a user who may not."""
    chosen = the_app().django.console_user
    given = _staff(request) if chosen is None else import_string(chosen)(request)
    if isinstance(given, HttpResponseBase):
        return given
    user = check_user(given)
    if user is not None:
        return user
    if request.user.is_authenticated:
        raise PermissionDenied
    if rest.startswith("api/"):
        return HttpResponse("log in", status=401, content_type="text/plain")
    return redirect_to_login(request.get_full_path(), _login_page())


def _staff(request: HttpRequest) -> ConsoleUser | None:
    """The staff may look; those with the permission `windlass.operate` may act."""
    user: Any = request.user
    if not user.is_active or not user.is_staff:
        return None
    if user.is_superuser:
        return ConsoleUser(user.get_username(), "admin")
    role = "operator" if user.has_perm("windlass.operate") else "viewer"
    return ConsoleUser(user.get_username(), role)


def _login_page() -> str:
    try:
        return str(resolve_url("admin:login"))
    except NoReverseMatch:
        return str(resolve_url(settings.LOGIN_URL))
