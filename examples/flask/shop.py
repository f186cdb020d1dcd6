"""Orders come in over HTTP; each is confirmed by a task that is committed with it.

flask --app examples.flask.shop:shop run
"""

import os
import secrets
from typing import Any

from flask import Flask, Response, abort, request
from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, scoped_session, sessionmaker
from sqlalchemy.types import String

from windlass import App, context
from windlass.contrib.flask import ConsoleUser, Windlass, console, join

URL = os.environ.get("WINDLASS_DATABASE_URL", "sqlite:///shop.db")

app = App(URL)
# The driver that Windlass uses, too.
engine = create_engine(app.database.url)
# As `db.session` of Flask-SQLAlchemy: a session for each request.
session = scoped_session(sessionmaker(engine))


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "shop_order"
    id: Mapped[str] = mapped_column(String(50), primary_key=True)
    state: Mapped[str] = mapped_column(String(20), default="new")


@app.task(retries=3, keep="1d", timeout="10s")
def confirm(order: str) -> None:
    """Ship the order; its new state is written in the transaction that ends the task."""
    change = Order.__table__.update().where(Order.id == order).values(state="confirmed")
    context().on_finish(lambda connection: connection.execute(change))


def staff() -> Any:
    """The login of this application; it guards the console, too."""
    login, expected = request.authorization, os.environ.get("SHOP_PASSWORD", "")
    given = (login.password if login else None) or ""
    if not login or not expected or not secrets.compare_digest(given.encode(), expected.encode()):
        return Response("log in", 401, {"WWW-Authenticate": "Basic"})
    return ConsoleUser(login.username or "staff", "operator")


shop = Flask(__name__)
shop.register_blueprint(console(app, user=staff), url_prefix="/windlass")
Base.metadata.create_all(engine)
Windlass(app, shop, worker=True)


@shop.teardown_appcontext
def end_session(_error: BaseException | None) -> None:
    session.remove()


@shop.post("/orders/<order>")
def take_order(order: str) -> tuple[dict[str, str], int]:
    session.add(Order(id=order))
    join(session)(confirm, key=order).enqueue(order)
    if order.startswith("bad"):
        # Neither the order nor its task was ever there.
        abort(409)
    session.commit()
    return {"order": order}, 201


@shop.get("/orders")
def orders() -> dict[str, str]:
    return {order.id: order.state for order in session.scalars(select(Order))}
