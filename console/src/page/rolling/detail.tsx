/** One rolling kind: the ages of its items against the promise, and the items themselves. */
import { useState } from "react";
import type { Answer, Row } from "../../api/call";
import { post } from "../../api/client";
import { useLive } from "../../data/hook";
import { Ago, Button, Card, Figure, Figures, Missing, Page } from "../../part/basic";
import { AgeChart } from "../../part/picture/chart";
import { Find } from "../../part/control";
import { Dialog } from "../../part/dialog";
import { Empty, Faces } from "../../part/faces";
import { Form } from "../../part/form";
import { PagedList } from "../../part/list";
import { Status } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { useAsk } from "../../part/ask";
import { useAction } from "../../part/toast";
import { pathOf } from "../../route/address";
import { Link, useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import { Promise_, type Fresh } from ".";

type Item = Row<"rolling/{kind}/items">;

export function RollingDetailPage({ kind }: { kind: string }) {
  const { t } = useText();
  const { canAct } = useSession();
  const [isAdding, setAdding] = useState(false);
  const resource = useLive("rolling/{kind}", { params: { kind }, topics: ["tasks"], seconds: 5 });
  const fresh = resource.data?.freshness;
  return (
    <Page
      up={{ to: "rolling", label: t.menu.rolling }}
      title={kind}
      badge={fresh && <Promise_ fresh={fresh} />}
      lead={fresh?.forecast}
      actions={
        <>
          <Link className="button plain" to="promises">
            {t.promise.see}
          </Link>
          <Link className="button plain" to={pathOf("switches", kind)}>
            {t.switch.one}
          </Link>
          {canAct && (
            <Button icon="plus" look="main" onClick={() => setAdding(true)}>
              {t.rolling.add}
            </Button>
          )}
        </>
      }
    >
      <Faces resource={resource} lines={8}>
        {(data) => (
          <>
            <Missing shards={data.freshness.missing} />
            <Sums fresh={data.freshness} />
            <Ages data={data} />
          </>
        )}
      </Faces>
      <Items kind={kind} />
      {isAdding && <AddDialog kind={kind} onClose={() => setAdding(false)} />}
    </Page>
  );
}

function Sums({ fresh }: { fresh: Fresh }) {
  const { t, f } = useText();
  return (
    <Figures>
      <Figure
        label={t.rolling.items}
        value={f.number(fresh.total)}
        note={t.rolling.everySpan(fresh.every)}
      />
      <Figure
        label={t.rolling.overdue}
        value={f.number(fresh.overdue)}
        note={t.overview.dueNow(f.number(fresh.due))}
        tone={fresh.overdue > 0 && "bad"}
      />
      <Figure label={t.rolling.oldest} value={f.span(fresh.oldest_age)} />
      <Figure
        label={t.rolling.rate}
        value={t.common.perSecond(f.measure(fresh.actual_rate))}
        note={t.rolling.needed(f.measure(fresh.needed_rate))}
      />
      <Figure
        label={t.rolling.headRoom}
        value={fresh.head_room === null ? "–" : `× ${f.measure(fresh.head_room)}`}
        tone={fresh.head_room !== null && fresh.head_room < 1 && "warn"}
      />
    </Figures>
  );
}

function Ages({ data }: { data: Answer<"rolling/{kind}"> }) {
  const { t, f } = useText();
  const { histogram } = data;
  return (
    <Card
      title={t.rolling.ages}
      aside={
        <span className="faint">
          {t.rolling.never(f.number(histogram.never_visited))}
          {histogram.is_estimate && ` · ${t.rolling.estimate}`}
        </span>
      }
    >
      <AgeChart
        bars={histogram.bars}
        promise={histogram.promise_seconds}
        label={`${t.rolling.ages}: ${data.freshness.forecast}`}
      />
    </Card>
  );
}

function Items({ kind }: { kind: string }) {
  const { t } = useText();
  const [{ prefix, after }] = useQuery();
  const resource = useLive("rolling/{kind}/items", {
    params: { kind },
    query: { prefix, after },
    topics: ["tasks"],
    seconds: 10,
  });
  return (
    <PagedList
      resource={resource}
      title={t.rolling.items}
      aside={<Find name="prefix" label={t.rolling.find} />}
      empty={
        prefix ? (
          <Empty title={t.rolling.noItem(prefix)}>{t.rolling.noItemText}</Empty>
        ) : (
          <Empty title={t.rolling.noItems}>{t.rolling.noItemsText}</Empty>
        )
      }
    >
      {(page) => <ItemTable kind={kind} items={page.items} />}
    </PagedList>
  );
}

function ItemTable({ kind, items }: { kind: string; items: readonly Item[] }) {
  const { t } = useText();
  const { canAct } = useSession();
  const columns: readonly Column<Item>[] = [
    { label: t.rolling.item, render: (item) => <span className="name">{item.key}</span> },
    {
      label: t.rolling.lastVisit,
      render: (item) =>
        item.finished_at === null && item.status === "waiting" ? (
          <span className="faint">{t.rolling.notYet}</span>
        ) : (
          <Status status={item.status} />
        ),
    },
    {
      label: t.field.remark,
      isWide: true,
      render: (item) => <span className="clip">{item.remark}</span>,
    },
    { label: t.field.ended, isNumber: true, render: (item) => <Ago at={item.finished_at} /> },
    { label: t.field.due, isNumber: true, render: (item) => <Ago at={item.due_at} /> },
    { label: "", render: (item) => (canAct ? <ItemActions kind={kind} item={item} /> : null) },
  ];
  return (
    <Table label={t.rolling.items} columns={columns} rows={items} rowKey={(item) => item.key} />
  );
}

function ItemActions({ kind, item }: { kind: string; item: Item }) {
  const { t } = useText();
  const action = useAsk();
  const statuses: Readonly<Record<string, string>> = t.status;
  const visit = () =>
    action.run(
      () => post("rolling/{kind}/visit", { params: { kind }, body: { code: item.key } }),
      (done) => t.rolling.visited(done.key, statuses[done.status] ?? done.status),
    );
  const remove = () =>
    action.ask(
      {
        title: t.rolling.removeTitle(item.key),
        text: t.rolling.removeText,
        action: t.rolling.remove,
        isDanger: true,
      },
      () => post("rolling/{kind}/remove", { params: { kind }, body: { codes: [item.key] } }),
      () => t.rolling.removed(item.key),
    );
  return (
    <span className="row-actions">
      <Button icon="play" isBusy={action.isBusy} onClick={() => void visit()}>
        {t.rolling.visit}
      </Button>
      <Button
        icon="close"
        look="quiet"
        aria-label={t.rolling.remove}
        title={t.rolling.remove}
        onClick={() => void remove()}
      />
    </span>
  );
}

function AddDialog({ kind, onClose }: { kind: string; onClose: () => void }) {
  const { t, f } = useText();
  const action = useAction();
  const [text, setText] = useState("");
  const [isNow, setNow] = useState(false);
  const codes = [
    ...new Set(
      text
        .split(/[\n,]/)
        .map((code) => code.trim())
        .filter(Boolean),
    ),
  ];
  const submit = async () => {
    const done = await action.run(
      () => post("rolling/{kind}/add", { params: { kind }, body: { codes, now: isNow } }),
      (result) => t.rolling.added(f.number(result.changed), f.number(codes.length)),
    );
    if (done) onClose();
  };
  return (
    <Dialog title={t.rolling.addTitle(kind)} onClose={onClose}>
      <Form
        action={t.rolling.add}
        isBusy={action.isBusy}
        isReady={codes.length > 0 && codes.length <= 1_000}
        problem={action.problem}
        onSubmit={() => void submit()}
        onClose={onClose}
      >
        <label className="field">
          <span>{t.rolling.codes}</span>
          <textarea
            rows={6}
            autoFocus
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <small>{t.rolling.codesHint}</small>
        </label>
        <label className="check">
          <input
            type="checkbox"
            checked={isNow}
            onChange={(event) => setNow(event.target.checked)}
          />
          {t.rolling.addNow}
        </label>
      </Form>
    </Dialog>
  );
}
