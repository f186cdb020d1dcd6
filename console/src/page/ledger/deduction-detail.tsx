/** One deduction: its lines, its returns, and its actions. */
import { useState } from "react";
import type { Answer } from "../../api/call";
import { post } from "../../api/client";
import { useLive } from "../../data/hook";
import { Ago, Bar, Button, Card, Facts, Note, Page } from "../../part/basic";
import { Faces } from "../../part/faces";
import { Table, type Column } from "../../part/table";
import { useAsk } from "../../part/ask";
import { useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import { GiveBackDialog } from "./give-back";
import { useLedgerPath } from "./frame";
import { DeductionStatus, refusalText } from "./part";
import { ReturnList } from "./return";

type Deduction = Answer<"ledger/deductions/{id}">;
type Lines = Deduction["lines"];

export function DeductionPage({ id }: { id: string }) {
  const { t } = useText();
  const to = useLedgerPath();
  const [{ shard }] = useQuery();
  const resource = useLive("ledger/deductions/{id}", {
    params: { id },
    query: { shard },
    topics: ["ledger"],
  });
  const found = resource.data;
  return (
    <Page
      up={{ to: to("deductions"), label: t.ledger.deductions }}
      title={id}
      badge={found && <DeductionStatus status={found.status} />}
      actions={found && <Actions deduction={found} shard={shard} />}
    >
      <Faces resource={resource} lines={8}>
        {(deduction) => <Full deduction={deduction} />}
      </Faces>
    </Page>
  );
}

function Full({ deduction }: { deduction: Deduction }) {
  const { t } = useText();
  const { refusal, lines } = deduction;
  const neverCame = deduction.status === "voided" && lines.length === 0;
  const facts = [
    [t.ledger.made, <Ago key="made" at={deduction.created_at} />],
    [t.ledger.heldUntil, <Ago key="held" at={deduction.hold_until} />],
    [t.ledger.confirmedAt, <Ago key="confirmed" at={deduction.confirmed_at} />],
  ] as const;
  return (
    <div className="columns even">
      <div className="main-column">
        {refusal && (
          <Note tone="bad">
            {t.ledger.refusal}: {refusalText(refusal)}
          </Note>
        )}
        {neverCame && <Note tone="calm">{t.ledger.neverCame}</Note>}
        {lines.length > 0 && (
          <Card isFlush title={t.ledger.lines}>
            <LineTable lines={lines} />
          </Card>
        )}
        {!refusal && <ReturnList deduction={deduction.id} />}
      </div>
      <div className="side-column">
        <Card title={t.ledger.deduction}>
          <Facts facts={facts} />
        </Card>
      </div>
    </div>
  );
}

function LineTable({ lines }: { lines: Lines }) {
  const { t, f } = useText();
  const to = useLedgerPath();
  const columns: readonly Column<Lines[number]>[] = [
    {
      label: t.ledger.sku,
      isWide: true,
      render: (line) => <span className="name clip">{line.sku}</span>,
    },
    {
      label: t.ledger.quantity,
      isNumber: true,
      render: (line) => <b>{f.number(line.quantity)}</b>,
    },
    {
      label: t.ledger.returned,
      isNumber: true,
      render: (line) => (
        <span className="with-bar">
          {f.number(line.returned)}
          <Bar percent={(100 * line.returned) / line.quantity} />
        </span>
      ),
    },
    {
      label: t.ledger.left,
      isNumber: true,
      render: (line) => f.number(line.quantity - line.returned),
    },
  ];
  return (
    <Table
      label={t.ledger.lines}
      columns={columns}
      rows={lines}
      rowKey={(line) => line.sku}
      to={(line) => to("stock", line.sku)}
    />
  );
}

interface ActionProps {
  deduction: Deduction;
  shard: string | undefined;
}

function Actions({ deduction, shard }: ActionProps) {
  const { t } = useText();
  const { canAct } = useSession();
  const action = useAsk();
  const [isGiving, setGiving] = useState(false);
  const { id, status } = deduction;
  const isOut = status === "held" || status === "deducted";
  const left = deduction.lines.filter((line) => line.quantity > line.returned);
  if (!canAct || !isOut) return null;

  const given = { params: { id }, query: { shard } };
  // Both use the id of the deduction, so each takes effect once.
  const confirm = () =>
    action.ask(
      { title: t.ledger.confirmTitle(id), text: t.ledger.confirmText, action: t.ledger.confirm },
      () => post("ledger/deductions/{id}/confirm", given),
      () => t.ledger.confirmed(id),
    );
  const undo = () =>
    action.ask(
      {
        title: t.ledger.voidTitle(id),
        text: t.ledger.voidText,
        action: t.ledger.void,
        isDanger: true,
      },
      () => post("ledger/deductions/{id}/void", given),
      () => t.ledger.voided(id),
    );
  return (
    <>
      {status === "held" && (
        <Button icon="check" look="main" isBusy={action.isBusy} onClick={() => void confirm()}>
          {t.ledger.confirm}
        </Button>
      )}
      {left.length > 0 && (
        <Button icon="retry" onClick={() => setGiving(true)}>
          {t.ledger.giveBack}
        </Button>
      )}
      <Button icon="cancel" look="danger" isBusy={action.isBusy} onClick={() => void undo()}>
        {t.ledger.void}
      </Button>
      {isGiving && (
        <GiveBackDialog id={id} lines={left} shard={shard} onClose={() => setGiving(false)} />
      )}
    </>
  );
}
