"""How a database is reached: TLS, the schema and the password.

Each comes from an argument of App or Ledger, from the URL, or from the environment, in this order.
All but the password become a part of the URL, so every connection to a database has them.
"""

from __future__ import annotations

import inspect
import os
import re
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import URL

from windlass.database.url import normalise, show
from windlass.errors import BadDatabase, BadInput, DatabaseUnavailable

# Called with the URL of a database, without secrets, for each new connection to it.
Password = Callable[[str], str]

VARIABLES = {
    "ca": "WINDLASS_DATABASE_CA",
    "cert": "WINDLASS_DATABASE_CERT",
    "key": "WINDLASS_DATABASE_KEY",
}
SCHEMA_VARIABLE = "WINDLASS_SCHEMA"
OPTIONS = (*VARIABLES, "sslmode", "schema")

# The names that the drivers have for the files.
OWN_NAMES = {
    "postgresql": {"ca": "sslrootcert", "cert": "sslcert", "key": "sslkey"},
    "mysql": {"ca": "ssl_ca", "cert": "ssl_cert", "key": "ssl_key"},
}
# libpq's word for the CAs of the system.
SYSTEM = "system"

# The modes of libpq, whose words work for all servers, and what MySQL calls them.
MODES = {
    "disable": "DISABLED",
    "allow": None,
    "prefer": "PREFERRED",
    "require": "REQUIRED",
    "verify-ca": "VERIFY_CA",
    "verify-full": "VERIFY_IDENTITY",
}
CHECKED = ("verify-ca", "verify-full")
# Options of PyMySQL, which `ssl_arguments` replaces.
SSL_OPTIONS = (
    "ssl",
    "ssl_ca",
    "ssl_cert",
    "ssl_key",
    "ssl_capath",
    "ssl_cipher",
    "ssl_key_password",
    "ssl_mode",
    "ssl-mode",
    "ssl_disabled",
    "ssl_verify_cert",
    "ssl_verify_identity",
    "ssl_check_hostname",
)

# A schema is named in statements and in text literals, so quotes are not allowed in it.
SCHEMA = re.compile(r"[^\W\d][\w$-]*")
LONGEST_SCHEMA = 63


def family_of(url: URL) -> str:
    """sqlite, postgresql or mysql."""
    return url.get_backend_name().replace("mariadb", "mysql")


def reach(
    given: str | URL, *, schema: str | None = None, environment: Mapping[str, str] = os.environ
) -> URL:
    """The URL with everything that belongs to it; BadDatabase if that cannot be right."""
    url = normalise(given)
    family = family_of(url)
    for name in OPTIONS:
        if not isinstance(url.query.get(name, ""), str):
            raise BadDatabase(f"database {show(url)!r}: {name} is given twice")
    if family == "sqlite":
        _refuse_on_sqlite(url, schema)
        return url
    if mode := _text(url, "sslmode"):
        _check_mode(url, mode)
    return _with_schema(_with_files(url, family, environment), family, schema, environment)


def check_password(url: URL, password: object) -> Password | None:
    """The function that gives the password, or BadInput."""
    if password is None:
        return None
    if not callable(password):
        raise BadInput(
            "password= is not a function; write a password into the URL or the environment, and "
            "give a function to get a new one for each connection"
        )
    if inspect.iscoroutinefunction(password):
        raise BadInput(
            "password= is an async function; give a plain one, which is called on a thread"
        )
    if family_of(url) == "sqlite":
        raise BadDatabase(f"{show(url)}: a SQLite file has no password; leave password= out")
    given: Password = password
    return given


def ask_password(url: URL, password: Password) -> str:
    """A password for the next connection."""
    name = show(url)
    try:
        answer: object = password(name)
    except Exception as problem:
        # Not its text, in which the function may have put a secret.
        raise DatabaseUnavailable(
            f"{name}: the function given as password= raised {type(problem).__name__}"
        ) from problem
    if not isinstance(answer, str):
        raise DatabaseUnavailable(
            f"{name}: the function given as password= returned {type(answer).__name__}, not text"
        )
    return answer


def libpq_url(url: URL) -> URL:
    """The URL in the words of libpq."""
    names = OWN_NAMES["postgresql"]
    renamed = {names[name]: path for name in names if (path := _text(url, name))}
    given = {**renamed, **{name: value for name, value in url.query.items() if name not in names}}
    given.pop("schema", None)
    # libpq itself would encrypt without knowing to whom, or not at all.
    asks = "ca" in url.query or "PGSSLMODE" not in os.environ
    if "sslrootcert" in given and "sslmode" not in given and asks:
        given["sslmode"] = "verify-full"
    elif "sslcert" in renamed and "sslmode" not in given:
        given["sslmode"] = "require"
    return url.set(query=given)


def pymysql_url(url: URL) -> URL:
    """The URL without the options that `ssl_arguments` reads."""
    return url.difference_update_query([*VARIABLES, "sslmode", *SSL_OPTIONS])


def ssl_arguments(url: URL) -> dict[str, Any]:
    """What PyMySQL needs to know of TLS. Without any option it encrypts if the server can."""
    mode = _mysql_mode(url)
    names = OWN_NAMES["mysql"]
    files = {name: path for name in names if (path := _text(url, name) or _text(url, names[name]))}
    for name in ("capath", "cipher"):
        if value := _text(url, f"ssl_{name}"):
            files[name] = value
    if secret := _text(url, "ssl_key_password"):
        files["password"] = secret
    is_trusting = "ca" in files or "capath" in files
    if mode is None:
        if _text(url, "unix_socket"):
            # It does not leave the machine.
            return {"ssl_disabled": True}
        if not files and not _flag(url, "ssl"):
            return {}
        mode = "verify-full" if is_trusting else "require"
    if mode == "disable":
        return {"ssl_disabled": True}
    if mode in ("allow", "prefer"):
        return {}
    if mode in CHECKED and not is_trusting:
        raise BadDatabase(
            f"database {show(url)!r}: sslmode={mode} needs to know the CA; "
            f"add ca=/path/ca.pem, or set ${VARIABLES['ca']}"
        )
    checks = {"check_hostname": mode == "verify-full", "verify_mode": mode in CHECKED}
    return {"ssl": {**files, **checks}}


def _mysql_mode(url: URL) -> str | None:
    """The mode that the URL asks for, in any of the ways in which drivers write it."""
    if mode := _text(url, "sslmode"):
        return mode
    if theirs := _text(url, "ssl_mode") or _text(url, "ssl-mode"):
        known = {words: mode for mode, words in MODES.items() if words}
        if theirs.upper() not in known:
            raise BadDatabase(
                f"database {show(url)!r}: ssl_mode={theirs} is not one of {', '.join(known)}"
            )
        return known[theirs.upper()]
    if _flag(url, "ssl_disabled") or _flag(url, "ssl") is False:
        return "disable"
    identity, certificate = _flag(url, "ssl_verify_identity"), _flag(url, "ssl_verify_cert")
    if identity:
        return "verify-full"
    if certificate is False:
        return "require"
    if identity is False or certificate or _flag(url, "ssl_check_hostname") is False:
        return "verify-ca"
    return None


def _flag(url: URL, name: str) -> bool | None:
    given = _text(url, name)
    return None if given is None else given.lower() in ("true", "1", "yes", "on")


def _text(url: URL, name: str) -> str | None:
    given = url.query.get(name)
    return given if isinstance(given, str) else None


def _refuse_on_sqlite(url: URL, schema: str | None) -> None:
    if url.host:
        path = "/".join(part for part in (url.host, url.database) if part)
        raise BadDatabase(
            f"database 'sqlite://{path}': the path of a file follows three slashes: write "
            f"sqlite:///{path}, or sqlite:////{path} for one at the root"
        )
    given = [name for name in OPTIONS if name in url.query]
    if schema is not None and "schema" not in given:
        given.append("schema")
    if given == ["schema"]:
        raise BadDatabase(
            f"database {show(url)!r}: SQLite has no schemas; give Windlass a file of its own"
        )
    if given:
        raise BadDatabase(
            f"database {show(url)!r}: {', '.join(given)} cannot be used with SQLite, which is a "
            "file on this machine"
        )


def _check_mode(url: URL, mode: str) -> None:
    if mode not in MODES:
        raise BadDatabase(
            f"database {show(url)!r}: sslmode={mode} is not one of {', '.join(MODES)}"
        )


def _with_files(url: URL, family: str, environment: Mapping[str, str]) -> URL:
    own = OWN_NAMES[family]
    is_off = _text(url, "sslmode") == "disable" or bool(_flag(url, "ssl_disabled"))
    found: dict[str, str] = {}
    for name, variable in VARIABLES.items():
        if path := _text(url, name):
            _check_file(url, f"{name}={path}", path)
        elif name not in url.query and own[name] not in url.query and not is_off:
            path = environment.get(variable)
            if path:
                _check_file(url, f"${variable} {path!r}", path)
                found[name] = path
    full = url.update_query_dict(found)
    given = [name for name in ("cert", "key") if name in full.query]
    if len(given) == 1 and own["cert"] not in url.query and own["key"] not in url.query:
        other = "key" if given == ["cert"] else "cert"
        raise BadDatabase(
            f"database {show(url)!r}: a {given[0]} without a {other}; "
            f"add {other}=/path/file.pem, or set ${VARIABLES[other]}"
        )
    if found or given or "ca" in full.query:
        _check_pem(full)
    return full


def _check_file(url: URL, what: str, path: str) -> None:
    if path == SYSTEM and family_of(url) == "postgresql":
        return
    try:
        open(path, "rb").close()
    except OSError as problem:
        raise BadDatabase(
            f"database {show(url)!r}: {what} cannot be read: {problem.strerror}"
        ) from problem


def _check_pem(url: URL) -> None:
    """Read the files as the drivers will: PyMySQL would tell only the error of OpenSSL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ca, cert, key = (_text(url, name) for name in VARIABLES)
    try:
        if ca is not None and ca != SYSTEM:
            context.load_verify_locations(ca)
    except OSError as problem:
        raise BadDatabase(f"database {show(url)!r}: ca={ca} has no certificate") from problem
    has_password = any("pass" in name for name in url.query)
    try:
        if cert is not None and key is not None and not has_password:
            # Without the function, OpenSSL would ask the terminal for the password of the key.
            context.load_cert_chain(cert, key, lambda: "")
    except OSError as problem:
        raise BadDatabase(
            f"database {show(url)!r}: cert={cert} and key={key} are not a certificate and its "
            f"key: {getattr(problem, 'reason', None) or 'they cannot be read'}"
        ) from problem


def _with_schema(url: URL, family: str, schema: str | None, environment: Mapping[str, str]) -> URL:
    asked = schema if schema is not None else _text(url, "schema")
    if asked is None:
        asked = environment.get(SCHEMA_VARIABLE) or None
    if asked is None:
        return url
    if family != "postgresql":
        raise BadDatabase(
            f"database {show(url)!r}: schema={asked} is only for PostgreSQL, because a schema of "
            "MySQL and MariaDB is a database; name a database of its own in the URL"
        )
    is_name = isinstance(asked, str) and SCHEMA.fullmatch(asked) is not None
    if not is_name or len(asked.encode()) > LONGEST_SCHEMA:
        raise BadDatabase(
            f"schema={asked!r} is not the name of a schema: use letters, digits, _, - and $, not a "
            f"digit first, and at most {LONGEST_SCHEMA} bytes"
        )
    if asked.startswith("pg_") or asked == "information_schema":
        raise BadDatabase(f"schema={asked!r} belongs to PostgreSQL itself; take another name")
    return url.update_query_dict({"schema": asked})
