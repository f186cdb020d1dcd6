"""Orders come in, and are listed."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from orders.models import Order
from orders.tasks import confirm, send_mail


@csrf_exempt
def take_order(_request: HttpRequest, number: str) -> HttpResponse:
    """The order and its tasks are committed together, or not at all."""
    with transaction.atomic():
        Order.objects.create(number=number)
        confirm.using(key=number).enqueue(number)
        result = send_mail.enqueue(number)
        if number.startswith("bad"):
            transaction.set_rollback(True)
            return JsonResponse({"error": "this order is refused"}, status=409)
    return JsonResponse({"order": number, "mail": result.id}, status=201)


def orders(_request: HttpRequest) -> JsonResponse:
    return JsonResponse({order.number: order.state for order in Order.objects.all()})
