/** Entries: every change of what is available, newest first. */
import type { ReactNode } from "react";
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago } from "../../part/basic";
import { Filter, Find } from "../../part/control";
import { PagedList } from "../../part/list";
import { Table, type Column } from "../../part/table";
import { oneOf } from "../../route/address";
import { Link, useQuery } from "../../route/router";
import { useText } from "../../text";
import { LedgerFilters, LedgerFrame, useLedgerPath } from "./frame";
import { Movement, MOVEMENT_NAMES, Nothing, Signed } from "./part";

type Entry = Row<"entries">;

export function EntryTab() {
  const { t } = useText();
  const [{ sku }] = useQuery();
  return (
    <LedgerFrame tab="entries">
      <LedgerFilters>
        <Filter
          name="movement"
          label={t.ledger.movement}
          values={MOVEMENT_NAMES}
          words={t.ledger.movements}
        />
        <Find name="sku" label={t.ledger.findEntry} />
      </LedgerFilters>
      <EntryList sku={sku} lines={10} isFiltered={Boolean(sku)} />
    </LedgerFrame>
  );
}

interface ListProps {
  sku: string | undefined;
  lines?: number;
  isFiltered?: boolean;
  title?: string;
  aside?: ReactNode;
}

/** The entries of all SKUs, or of one. */
export function EntryList({ sku, lines = 6, isFiltered = false, title, aside }: ListProps) {
  const { t } = useText();
  const [{ shard, movement, after }] = useQuery();
  const resource = useLive("entries", {
    query: { shard, sku, movement: oneOf(MOVEMENT_NAMES, movement), after },
    topics: ["ledger"],
  });
  return (
    <PagedList
      resource={resource}
      title={title}
      aside={aside}
      lines={lines}
      empty={
        <Nothing
          page={resource.data}
          isFiltered={isFiltered || Boolean(movement ?? after)}
          title={t.ledger.noEntries}
        >
          {t.ledger.noEntriesText}
        </Nothing>
      }
    >
      {(page) => <Entries entries={page.items} isOfOneSku={Boolean(sku)} />}
    </PagedList>
  );
}

interface EntriesProps {
  entries: readonly Entry[];
  isOfOneSku: boolean;
}

function Entries({ entries, isOfOneSku }: EntriesProps) {
  const { t, f } = useText();
  const to = useLedgerPath();
  const sku: Column<Entry> = {
    label: t.ledger.sku,
    render: (entry) => (
      <Link className="name" to={to("stock", entry.sku)}>
        {entry.sku}
      </Link>
    ),
  };
  const balance: Column<Entry> = {
    label: t.ledger.balance,
    isNumber: true,
    render: (entry) => f.number(entry.balance),
  };
  const columns: readonly Column<Entry>[] = [
    { label: t.ledger.entry, render: (entry) => <span className="id">{entry.id}</span> },
    { label: t.ledger.movement, render: (entry) => <Movement movement={entry.movement} /> },
    ...(isOfOneSku ? [] : [sku]),
    {
      label: t.ledger.change,
      isNumber: true,
      render: (entry) => <Signed value={entry.quantity} />,
    },
    ...(isOfOneSku ? [balance] : []),
    { label: t.ledger.reference, isWide: true, render: (entry) => <Reference entry={entry} /> },
    { label: t.ledger.made, isNumber: true, render: (entry) => <Ago at={entry.created_at} /> },
  ];
  return (
    <Table label={t.ledger.entries} columns={columns} rows={entries} rowKey={(entry) => entry.id} />
  );
}

/** What an entry belongs to: a deduction has a page, a restock does not. */
function Reference({ entry }: { entry: Entry }) {
  const to = useLedgerPath();
  const isReceipt = entry.movement === "restock" || entry.movement === "adjust";
  const isOwn = entry.movement === "void" || entry.movement === "lapse";
  return (
    <span className="stack">
      {isReceipt ? (
        <span className="name clip">{entry.reference}</span>
      ) : (
        <Link className="name clip" to={to("deductions", entry.reference)}>
          {entry.reference}
        </Link>
      )}
      {entry.return_id !== null && !isOwn && <small className="clip">{entry.return_id}</small>}
    </span>
  );
}
