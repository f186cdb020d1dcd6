/** Entries: every change of what is available, newest first. */
import type { EntryOut, EntryPage } from "../../api/model";
import { useLive } from "../../data/hook";
import { Ago, Card } from "../../part/basic";
import { Pager, Search, Segments } from "../../part/control";
import { Faces } from "../../part/faces";
import { Table, type Column } from "../../part/table";
import { queryOf } from "../../route/address";
import { Link, useQuery } from "../../route/router";
import { useText } from "../../text";
import { LedgerFrame, PlaceSelect, useLedgerPath } from "./frame";
import { Movement, MOVEMENT_NAMES, Nothing, Signed } from "./part";

export function EntryTab() {
  const { t } = useText();
  const [query, change] = useQuery();
  const { shard, sku, movement, after } = query;
  const resource = useLive<EntryPage>(`entries${queryOf({ shard, sku, movement, after })}`, [
    "ledger",
  ]);
  return (
    <LedgerFrame tab="entries">
      <div className="filters" role="search">
        <div className="filter-row">
          <Segments
            label={t.ledger.movement}
            value={movement ?? ""}
            choices={[
              { value: "", label: t.common.all },
              ...MOVEMENT_NAMES.map((value) => ({
                value: value as string,
                label: t.ledger.movements[value],
              })),
            ]}
            onChoose={(value) => change({ movement: value, after: null })}
          />
          <Search
            label={t.ledger.findEntry}
            value={sku ?? ""}
            onSearch={(text) => change({ sku: text, after: null })}
          />
          <PlaceSelect />
        </div>
      </div>
      <Card isFlush>
        <Faces
          resource={resource}
          lines={10}
          isEmpty={(page) => page.items.length === 0}
          empty={
            <Nothing
              page={resource.data}
              isFiltered={Boolean(sku ?? movement ?? after)}
              title={t.ledger.noEntries}
            >
              {t.ledger.noEntriesText}
            </Nothing>
          }
        >
          {(page) => <Entries entries={page.items} isOfOneSku={Boolean(sku)} />}
        </Faces>
      </Card>
      <Pager next={resource.data?.next ?? null} />
    </LedgerFrame>
  );
}

interface EntriesProps {
  entries: readonly EntryOut[];
  isOfOneSku?: boolean;
}

export function Entries({ entries, isOfOneSku = false }: EntriesProps) {
  const { t, f } = useText();
  const to = useLedgerPath();
  const sku: Column<EntryOut> = {
    name: "sku",
    label: t.ledger.sku,
    render: (entry) => (
      <Link className="name" to={to("stock", entry.sku)}>
        {entry.sku}
      </Link>
    ),
  };
  const balance: Column<EntryOut> = {
    name: "balance",
    label: t.ledger.balance,
    isNumber: true,
    render: (entry) => f.number(entry.balance),
  };
  const columns: readonly Column<EntryOut>[] = [
    {
      name: "id",
      label: t.ledger.entry,
      render: (entry) => <span className="id">{entry.id}</span>,
    },
    {
      name: "movement",
      label: t.ledger.movement,
      render: (entry) => <Movement movement={entry.movement} />,
    },
    ...(isOfOneSku ? [] : [sku]),
    {
      name: "change",
      label: t.ledger.change,
      isNumber: true,
      render: (entry) => <Signed value={entry.quantity} />,
    },
    ...(isOfOneSku ? [balance] : []),
    {
      name: "reference",
      label: t.ledger.reference,
      isWide: true,
      render: (entry) => <Reference entry={entry} />,
    },
    {
      name: "made",
      label: t.ledger.made,
      isNumber: true,
      render: (entry) => <Ago at={entry.created_at} />,
    },
  ];
  return (
    <Table label={t.ledger.entries} columns={columns} rows={entries} rowKey={(entry) => entry.id} />
  );
}

/** What an entry belongs to: a deduction has a page, a restock has none. */
function Reference({ entry }: { entry: EntryOut }) {
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
