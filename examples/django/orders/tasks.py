"""What is done for an order in the background."""

import django
from django.utils import timezone

from orders.models import Order
from windlass.contrib.django import app

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task


@app.task(retries=3, keep="1d", timeout="10s")
def confirm(number: str) -> None:
    """A task of Windlass: with all its options."""
    Order.objects.filter(number=number).update(state="confirmed")


@task(queue_name="mail")
def send_mail(number: str) -> str:
    """A task of Django's own framework: it needs nothing of Windlass."""
    if number.startswith("lost"):
        raise ConnectionError(f"no mail server for {number}")
    Order.objects.filter(number=number).update(mailed_at=timezone.now())
    return f"mailed {number}"


@app.rolling(every="1h")
def check_stock(code: str) -> str:
    """Every code at least once an hour."""
    return f"{len(code)} of {code}"
