/** Stock: how much there is of each SKU. */
import { useState } from "react";
import type { StockPage, StockView } from "../../api/model";
import { useLive } from "../../data/hook";
import { Bar, Button, Card } from "../../part/basic";
import { Pager, Search, Segments } from "../../part/control";
import { Faces } from "../../part/faces";
import { Badge } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { queryOf } from "../../route/address";
import { useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import { MoveDialog, type Move } from "./act";
import { LedgerFrame, PlaceSelect, useLedgerPath } from "./frame";
import { Nothing } from "./part";

export function StockTab() {
  const { t } = useText();
  const { canAct } = useSession();
  const [query, change] = useQuery();
  const [move, setMove] = useState<Move | null>(null);
  const { shard, prefix, sold_out, after } = query;
  const resource = useLive<StockPage>(`stock${queryOf({ shard, prefix, sold_out, after })}`, [
    "ledger",
  ]);
  return (
    <LedgerFrame
      tab="stock"
      actions={
        canAct && (
          <>
            <Button icon="settings" onClick={() => setMove("adjust")}>
              {t.ledger.adjust}
            </Button>
            <Button icon="plus" look="main" onClick={() => setMove("restock")}>
              {t.ledger.restock}
            </Button>
          </>
        )
      }
    >
      <div className="filters" role="search">
        <div className="filter-row">
          <Segments
            label={t.ledger.stock}
            value={sold_out ?? ""}
            choices={[
              { value: "", label: t.common.all },
              { value: "true", label: t.ledger.soldOut },
            ]}
            onChoose={(value) => change({ sold_out: value, after: null })}
          />
          <Search
            label={t.ledger.findSku}
            value={prefix ?? ""}
            onSearch={(text) => change({ prefix: text, after: null })}
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
              isFiltered={Boolean(prefix ?? sold_out ?? after)}
              title={t.ledger.noStock}
            >
              {t.ledger.noStockText}{" "}
              <code>ledger.restock(&quot;delivery-1&quot;, {'{"bolt": 10}'})</code>
            </Nothing>
          }
        >
          {(page) => <Stocks stocks={page.items} />}
        </Faces>
      </Card>
      <Pager next={resource.data?.next ?? null} />
      {move && <MoveDialog move={move} shard={shard} onClose={() => setMove(null)} />}
    </LedgerFrame>
  );
}

function Stocks({ stocks }: { stocks: readonly StockView[] }) {
  const { t, f } = useText();
  const to = useLedgerPath();
  const columns: readonly Column<StockView>[] = [
    {
      name: "sku",
      label: t.ledger.sku,
      isWide: true,
      render: (row) => <span className="name clip">{row.sku}</span>,
    },
    {
      name: "available",
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
    {
      name: "out",
      label: t.ledger.out,
      isNumber: true,
      render: (row) => f.number(row.deducted - row.returned),
    },
    {
      name: "received",
      label: t.ledger.received,
      isNumber: true,
      render: (row) => f.number(row.received),
    },
    {
      name: "deducted",
      label: t.ledger.deducted,
      isNumber: true,
      isExtra: true,
      render: (row) => f.number(row.deducted),
    },
    {
      name: "returned",
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
