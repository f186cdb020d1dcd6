/** Stock: how much there is of each SKU. */
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Bar } from "../../part/basic";
import { Filter, Find } from "../../part/control";
import { PagedList } from "../../part/list";
import { Badge } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { useQuery } from "../../route/router";
import { useText } from "../../text";
import { MoveButtons } from "./act";
import { LedgerFilters, LedgerFrame, useLedgerPath } from "./frame";
import { Nothing } from "./part";

export function StockTab() {
  const { t } = useText();
  const [{ shard, prefix, sold_out, after }] = useQuery();
  const resource = useLive("stock", {
    query: { shard, prefix, sold_out: sold_out === "true" || null, after },
    topics: ["ledger"],
  });
  return (
    <LedgerFrame tab="stock" actions={<MoveButtons />}>
      <LedgerFilters>
        <Filter
          name="sold_out"
          label={t.ledger.stock}
          values={["true"]}
          words={{ true: t.ledger.soldOut }}
        />
        <Find name="prefix" label={t.ledger.findSku} />
      </LedgerFilters>
      <PagedList
        resource={resource}
        lines={10}
        empty={
          <Nothing
            page={resource.data}
            isFiltered={Boolean(prefix ?? sold_out ?? after)}
            title={t.ledger.noStock}
          >
            {t.ledger.noStockText}{" "}
            <code>ledger.restock(&quot;delivery-1&quot;, {'{"bolt": 10}'})</code>
          </Nothing>
        }
      >
        {(page) => <Stocks stocks={page.items} />}
      </PagedList>
    </LedgerFrame>
  );
}

function Stocks({ stocks }: { stocks: readonly Row<"stock">[] }) {
  const { t, f } = useText();
  const to = useLedgerPath();
  const columns: readonly Column<Row<"stock">>[] = [
    {
      label: t.ledger.sku,
      isWide: true,
      render: (row) => <span className="name clip">{row.sku}</span>,
    },
    {
      label: t.ledger.available,
      isNumber: true,
      render: (row) =>
        row.available === 0 ? (
          <Badge tone="bad">{t.ledger.soldOut}</Badge>
        ) : (
          <span className="with-bar">
            <b>{f.number(row.available)}</b>
            <Bar percent={(100 * row.available) / Math.max(1, row.received)} tone="good" />
          </span>
        ),
    },
    { label: t.ledger.out, isNumber: true, render: (row) => f.number(row.deducted - row.returned) },
    { label: t.ledger.received, isNumber: true, render: (row) => f.number(row.received) },
    {
      label: t.ledger.deducted,
      isNumber: true,
      isExtra: true,
      render: (row) => f.number(row.deducted),
    },
    {
      label: t.ledger.returned,
      isNumber: true,
      isExtra: true,
      render: (row) => f.number(row.returned),
    },
  ];
  return (
    <Table
      label={t.ledger.stock}
      columns={columns}
      rows={stocks}
      rowKey={(row) => row.sku}
      to={(row) => to("stock", row.sku)}
    />
  );
}
