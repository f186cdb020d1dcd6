"""An order."""

from django.db import models


class Order(models.Model):
    number = models.CharField(max_length=50, unique=True)
    state = models.CharField(max_length=20, default="new")
    mailed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"order {self.number}"
