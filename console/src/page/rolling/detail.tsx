/** One rolling kind: the ages of its items against the promise, and the items themselves. */
import { useState, type FormEvent } from "react";
import { post } from "../../api/client";
import type { Done, FreshnessOut, ItemOut, Page_ItemOut_, RollingDetail } from "../../api/model";
import { useLive } from "../../data/hook";
import { Ago, Button, Card, Figure, Figures, Missing, Note, Page } from "../../part/basic";
import { AgeChart } from "../../part/picture/chart";
import { Pager, Search } from "../../part/control";
import { Dialog, useConfirm } from "../../part/dialog";
import { Empty, Faces } from "../../part/faces";
import { Status } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { useAction } from "../../part/toast";
import { pathOf, queryOf } from "../../route/address";
import { Link, useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import { Promise_ } from ".";

export function RollingDetailPage({ kind }: { kind: string }) {
  const { t } = useText();
  const { canAct } = useSession();
  const [isAdding, setAdding] = useState(false);
  const resource = useLive<RollingDetail>(pathOf("rolling", kind), ["tasks"], 5);
  const fresh = resource.data?.freshness;
  return (
    <Page
      up={{ to: "rolling", label: t.menu.rolling }}
      title={
        <span className="title-row">
          {kind}
          {fresh && <Promise_ fresh={fresh} />}
        </span>
      }
      lead={fresh?.forecast}
      actions={
        <>
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

function Sums({ fresh }: { fresh: FreshnessOut }) {
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
        {...(fresh.overdue > 0 ? { tone: "bad" as const } : {})}
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
        {...(fresh.head_room !== null && fresh.head_room < 1 ? { tone: "warn" as const } : {})}
      />
    </Figures>
  );
}

function Ages({ data }: { data: RollingDetail }) {
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
  const [query, change] = useQuery();
  const path =
    pathOf("rolling", kind, "items") + queryOf({ prefix: query.prefix, after: query.after });
  const resource = useLive<Page_ItemOut_>(path, ["tasks"], 10);
  return (
    <>
      <Card
        isFlush
        title={t.rolling.items}
        aside={
          <Search
            label={t.rolling.find}
            value={query.prefix ?? ""}
            onSearch={(prefix) => change({ prefix, after: null })}
          />
        }
      >
        <Faces
          resource={resource}
          isEmpty={(page) => page.items.length === 0}
          empty={
            query.prefix ? (
              <Empty title={t.rolling.noItem(query.prefix)}>{t.rolling.noItemText}</Empty>
            ) : (
              <Empty title={t.rolling.noItems}>{t.rolling.noItemsText}</Empty>
            )
          }
        >
          {(page) => <ItemTable kind={kind} items={page.items} />}
        </Faces>
      </Card>
      <Pager next={resource.data?.next ?? null} />
    </>
  );
}

function ItemTable({ kind, items }: { kind: string; items: readonly ItemOut[] }) {
  const { t } = useText();
  const { canAct } = useSession();
  const columns: readonly Column<ItemOut>[] = [
    {
      name: "key",
      label: t.rolling.item,
      render: (item) => <span className="name">{item.key}</span>,
    },
    {
      name: "status",
      label: t.rolling.lastVisit,
      render: (item) =>
        item.finished_at === null && item.status === "waiting" ? (
          <span className="faint">{t.rolling.notYet}</span>
        ) : (
          <Status status={item.status} />
        ),
    },
    {
      name: "remark",
      label: t.field.remark,
      isWide: true,
      render: (item) => <span className="clip">{item.remark}</span>,
    },
    {
      name: "ended",
      label: t.field.ended,
      isNumber: true,
      render: (item) => <Ago at={item.finished_at} />,
    },
    { name: "due", label: t.field.due, isNumber: true, render: (item) => <Ago at={item.due_at} /> },
    {
      name: "act",
      label: "",
      render: (item) => (canAct ? <ItemActions kind={kind} item={item} /> : null),
    },
  ];
  return (
    <Table label={t.rolling.items} columns={columns} rows={items} rowKey={(item) => item.key} />
  );
}

function ItemActions({ kind, item }: { kind: string; item: ItemOut }) {
  const { t } = useText();
  const action = useAction();
  const confirm = useConfirm();
  const statuses: Readonly<Record<string, string>> = t.status;
  const visit = () =>
    action.run(
      () => post<ItemOut>(pathOf("rolling", kind, "visit"), { code: item.key }),
      (done) => t.rolling.visited(done.key, statuses[done.status] ?? done.status),
    );
  const remove = async () => {
    const isSure = await confirm({
      title: t.rolling.removeTitle(item.key),
      text: t.rolling.removeText,
      action: t.rolling.remove,
      isDanger: true,
    });
    if (isSure === null) return;
    await action.run(
      () => post<Done>(pathOf("rolling", kind, "remove"), { codes: [item.key] }),
      () => t.rolling.removed(item.key),
    );
  };
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
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const done = await action.run(
      () => post<Done>(pathOf("rolling", kind, "add"), { codes, now: isNow }),
      (result) => t.rolling.added(f.number(result.changed), f.number(codes.length)),
    );
    if (done) onClose();
  };
  return (
    <Dialog title={t.rolling.addTitle(kind)} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
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
        {action.problem && <Note tone="bad">{action.problem}</Note>}
        <div className="dialog-actions">
          <Button onClick={onClose}>{t.common.keep}</Button>
          <Button
            type="submit"
            look="main"
            isBusy={action.isBusy}
            disabled={codes.length === 0 || codes.length > 1000}
          >
            {t.rolling.add}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
