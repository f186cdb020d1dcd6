"""The tables, and what Django knows of them. Data migrations that enqueue depend on this one."""

from typing import Any, ClassVar

from django.db import migrations, models

from windlass.contrib.django.models import Document
from windlass.value.status import Status


def make_tables(_apps: Any, schema_editor: Any) -> None:
    """By Windlass's own migrations, if the settings leave the tables to Django."""
    from windlass.contrib.django import table

    table.make_tables(schema_editor.connection.alias)


def read_only(name: str, table: str, *fields: tuple[str, Any], **options: Any) -> Any:
    """A model of a table that Windlass makes."""
    key = ("id", models.BigIntegerField(primary_key=True, serialize=False))
    given = {"db_table": table, "ordering": ["-id"], "managed": False, **options}
    return migrations.CreateModel(name=name, fields=[key, *fields], options=given)


def number(**options: Any) -> Any:
    return models.BigIntegerField(**options)


class Migration(migrations.Migration):
    # Windlass has its own connections, which would wait for a transaction of this one.
    atomic = False
    initial = True
    dependencies: ClassVar[Any] = []
    operations: ClassVar[Any] = [
        migrations.RunPython(make_tables, migrations.RunPython.noop),
        read_only(
            "Failure",
            "windlass_failure",
            ("task_id", number()),
            ("kind", models.CharField(max_length=100)),
            ("attempt", models.IntegerField()),
            ("worker", number(null=True)),
            ("failed_at", number()),
            ("error", models.TextField()),
            ("trace", models.TextField()),
        ),
        read_only(
            "Task",
            "windlass_task",
            ("kind", models.CharField(max_length=100)),
            ("task_key", models.CharField(max_length=255, null=True, verbose_name="key")),
            (
                "status",
                models.SmallIntegerField(choices=[(each.value, str(each)) for each in Status]),
            ),
            ("priority", models.SmallIntegerField()),
            ("due_at", number(null=True)),
            ("attempt", models.IntegerField()),
            ("worker", number(null=True)),
            ("created_at", number()),
            ("started_at", number(null=True)),
            ("finished_at", number(null=True)),
            ("payload", Document()),
            ("result", Document(null=True)),
            ("remark", models.TextField(null=True)),
            permissions=[("operate", "Can act in the console of Windlass")],
        ),
        read_only(
            "Worker",
            "windlass_worker",
            ("host", models.CharField(max_length=255)),
            ("pid", models.IntegerField()),
            ("joined_at", number()),
            ("lease_until", number()),
            ("left_at", number(null=True)),
            ("left_why", models.TextField(null=True)),
        ),
    ]
