/** The deliveries of an alert: which channel was told what, whether it arrived, and a retry. */
import type { Answer, Row } from "../../api/call";
import { post } from "../../api/client";
import { useLive } from "../../data/hook";
import { Ago, Button, Card } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import { Status } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { useAction } from "../../part/toast";
import { pathOf } from "../../route/address";
import { Link } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";

type Delivery = Answer<"alerts/{number}">["deliveries"][number];

const ENDED_BADLY = ["failed", "cancelled"];

export function DeliveryCard({ alert, onClose }: { alert: Row<"alerts">; onClose: () => void }) {
  const { t, f } = useText();
  const resource = useLive("alerts/{number}", {
    params: { number: alert.id },
    topics: ["alerts", "tasks"],
  });
  const columns: readonly Column<Delivery>[] = [
    { label: t.alert.channel, render: (delivery) => <strong>{delivery.channel}</strong> },
    {
      label: t.alert.stage,
      render: (delivery) => t.alert.stages[delivery.stage] ?? delivery.stage,
    },
    { label: t.field.status, render: (delivery) => <Status status={delivery.status} /> },
    {
      label: t.alert.attempts,
      isNumber: true,
      render: (delivery) => f.count(delivery.attempts),
    },
    {
      label: t.field.when,
      render: (delivery) => <Ago at={delivery.finished_at ?? delivery.created_at} />,
    },
    {
      label: t.field.task,
      isNumber: true,
      render: (delivery) => (
        <Link className="id" to={pathOf("tasks", delivery.task_id)}>
          {delivery.task_id}
        </Link>
      ),
    },
    { label: "", render: (delivery) => <RetryButton delivery={delivery} /> },
  ];
  return (
    <Card
      title={t.alert.deliveriesOf(alert.what, alert.kind ?? "")}
      aside={
        <Button look="quiet" onClick={onClose}>
          {t.common.close}
        </Button>
      }
      isFlush
    >
      <Faces
        resource={resource}
        isEmpty={(detail) => detail.deliveries.length === 0}
        empty={<Empty title={t.alert.noDeliveries}>{t.alert.noDeliveriesText}</Empty>}
      >
        {(detail) => (
          <Table
            label={t.alert.deliveries}
            columns={columns}
            rows={detail.deliveries}
            rowKey={(delivery) => delivery.task_id}
          />
        )}
      </Faces>
    </Card>
  );
}

function RetryButton({ delivery }: { delivery: Delivery }) {
  const { t } = useText();
  const { canAct } = useSession();
  const action = useAction();
  if (!canAct || !ENDED_BADLY.includes(delivery.status)) return null;
  const retry = () =>
    action.run(
      () => post("tasks/{number}/retry", { params: { number: delivery.task_id } }),
      () => t.alert.wasRetried(delivery.channel),
    );
  return (
    <Button icon="retry" isBusy={action.isBusy} onClick={() => void retry()}>
      {t.task.retry}
    </Button>
  );
}
