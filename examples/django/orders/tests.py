"""The tests of the project: python manage.py test."""

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

from orders.models import Order
from orders.tasks import check_stock, confirm, send_mail
from windlass.contrib.django.test import WindlassMixin


class OrderTest(WindlassMixin, TestCase):
    def test_an_order_is_confirmed_and_mailed(self) -> None:
        answer = self.client.post("/orders/order-7")
        self.assertEnqueued(confirm, number="order-7")
        waiting = send_mail.get_result(answer.json()["mail"])

        assert self.run_tasks() == 2

        order = Order.objects.get()
        assert order.state == "confirmed"
        assert order.mailed_at is not None
        assert str(waiting.status) == "READY"
        waiting.refresh()
        assert (str(waiting.status), waiting.return_value) == ("SUCCESSFUL", "mailed order-7")

    def test_a_refused_order_leaves_no_task(self) -> None:
        self.client.post("/orders/bad-8")

        self.assertNotEnqueued(confirm)
        self.assertNotEnqueued(send_mail)
        assert not Order.objects.exists()

    def test_an_error_of_a_task_fails_the_test(self) -> None:
        send_mail.enqueue("lost-9")

        with self.assertRaisesMessage(ConnectionError, "no mail server"):
            self.run_tasks()


class WorkerTest(WindlassMixin, TransactionTestCase):
    def test_what_a_worker_does(self) -> None:
        with transaction.atomic():
            Order.objects.create(number="order-7")
            confirm.using(conn=connection).enqueue("order-7")
            lost = send_mail.enqueue("lost-9")
        check_stock.add(["bolt"], now=True)

        self.drain()

        assert Order.objects.get().state == "confirmed"
        lost.refresh()
        assert str(lost.status) == "FAILED"
        assert lost.errors[0].exception_class is ConnectionError
        assert check_stock.item("bolt").remark == "4 of bolt"
