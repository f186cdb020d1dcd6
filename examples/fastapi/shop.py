"""Orders come in over HTTP; each is confirmed by a task that is committed with it.

uvicorn examples.fastapi.shop:api
"""

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPBasic, HTTPBasicCredentials
from sqlalchemy import make_url, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import String

from windlass import App, context
from windlass.contrib.fastapi import ConsoleUser, Joined, console_router, join, lifespan

URL = make_url(os.environ.get("WINDLASS_DATABASE_URL", "sqlite:///shop.db"))
ASYNC = {"sqlite": "aiosqlite", "postgresql": "psycopg", "mysql": "aiomysql", "mariadb": "aiomysql"}

app = App(URL)
engine = create_async_engine(URL.set(drivername=f"{(b := URL.get_backend_name())}+{ASYNC[b]}"))
new_session = async_sessionmaker(engine)


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "shop_order"
    id: Mapped[str] = mapped_column(String(50), primary_key=True)
    state: Mapped[str] = mapped_column(String(20), default="new")


@app.task(retries=3, keep="1d", timeout="10s")
async def confirm(order: str) -> None:
    """Ship the order; its new state is written in the transaction that ends the task."""
    change = Order.__table__.update().where(Order.id == order).values(state="confirmed")
    context().on_finish(lambda connection: connection.execute(change))


async def get_session() -> AsyncIterator[AsyncSession]:
    async with new_session() as session:
        yield session


def staff(login: Annotated[HTTPBasicCredentials, Depends(HTTPBasic())]) -> ConsoleUser:
    """The login of this application; it guards the console, too."""
    expected = os.environ.get("SHOP_PASSWORD", "")
    if not expected or not secrets.compare_digest(login.password.encode(), expected.encode()):
        raise HTTPException(401, headers={"WWW-Authenticate": "Basic"})
    return ConsoleUser(login.username, "operator")


@asynccontextmanager
async def tables(_api: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield
    await engine.dispose()


api = FastAPI(lifespan=lifespan(app, worker=True, inner=tables))
api.include_router(console_router(app, user=staff), prefix="/windlass")
Session = Annotated[AsyncSession, Depends(get_session)]
Tasks = Annotated[Joined, Depends(join(get_session))]


@api.post("/orders/{order}", status_code=201)
async def take_order(order: str, session: Session, tasks: Tasks) -> dict[str, str]:
    session.add(Order(id=order))
    await tasks(confirm, key=order).aenqueue(order)
    if order.startswith("bad"):
        # Neither the order nor its task was ever there.
        raise HTTPException(409, "this order is refused")
    await session.commit()
    return {"order": order}


@api.get("/orders")
async def orders(session: Session) -> dict[str, str]:
    return {order.id: order.state for order in await session.scalars(select(Order))}
