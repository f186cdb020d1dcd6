/** One SKU: how much there is, how that changed, and every change. */
import { useState } from "react";
import type { EntryPage, StockView } from "../../api/model";
import { useLive } from "../../data/hook";
import { Button, Card, Figure, Figures, Page } from "../../part/basic";
import { BalanceChart } from "../../part/picture/balance";
import { Pager, Select } from "../../part/control";
import { Faces } from "../../part/faces";
import { pathOf, queryOf } from "../../route/address";
import { useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import { MoveDialog, type Move } from "./act";
import { Entries } from "./entry";
import { useLedgerPath } from "./frame";
import { MOVEMENT_NAMES, Nothing } from "./part";

const CHANGES_DRAWN = 100;

export function SkuPage({ sku }: { sku: string }) {
  const { t } = useText();
  const { canAct } = useSession();
  const to = useLedgerPath();
  const [{ shard }] = useQuery();
  const [move, setMove] = useState<Move | null>(null);
  const resource = useLive<StockView>(pathOf("ledger", "stocks", sku) + queryOf({ shard }), [
    "ledger",
  ]);
  return (
    <Page
      up={{ to: to(), label: t.ledger.stock }}
      title={sku}
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
      <Faces resource={resource} lines={3}>
        {(stock) => (
          <>
            <Sums stock={stock} />
            <Balance sku={sku} shard={shard} />
            <SkuEntries sku={sku} />
          </>
        )}
      </Faces>
      {move && <MoveDialog move={move} sku={sku} shard={shard} onClose={() => setMove(null)} />}
    </Page>
  );
}

function Sums({ stock }: { stock: StockView }) {
  const { t, f } = useText();
  return (
    <Figures>
      <Figure
        label={t.ledger.available}
        value={f.number(stock.available)}
        {...(stock.available === 0 ? { tone: "bad" as const, note: t.ledger.soldOut } : {})}
      />
      <Figure label={t.ledger.out} value={f.number(stock.deducted - stock.returned)} />
      <Figure label={t.ledger.received} value={f.number(stock.received)} />
      <Figure label={t.ledger.deducted} value={f.number(stock.deducted)} />
      <Figure label={t.ledger.returned} value={f.number(stock.returned)} />
    </Figures>
  );
}

function Balance({ sku, shard }: { sku: string; shard: string | undefined }) {
  const { t, f } = useText();
  const path = `entries${queryOf({ sku, shard, limit: CHANGES_DRAWN })}`;
  const { data } = useLive<EntryPage>(path, ["ledger"]);
  if (data === undefined || data.items.length < 2) return null;
  const title = t.ledger.balanceTitle(f.number(data.items.length));
  return (
    <Card title={title}>
      <BalanceChart entries={[...data.items].reverse()} label={title} />
    </Card>
  );
}

function SkuEntries({ sku }: { sku: string }) {
  const { t } = useText();
  const [query, change] = useQuery();
  const { shard, movement, after } = query;
  const resource = useLive<EntryPage>(`entries${queryOf({ sku, shard, movement, after })}`, [
    "ledger",
  ]);
  return (
    <>
      <Card
        isFlush
        title={t.ledger.entries}
        aside={
          <Select
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
        }
      >
        <Faces
          resource={resource}
          isEmpty={(page) => page.items.length === 0}
          empty={
            <Nothing
              page={resource.data}
              isFiltered={Boolean(movement ?? after)}
              title={t.ledger.noEntries}
            >
              {t.ledger.noEntriesText}
            </Nothing>
          }
        >
          {(page) => <Entries entries={page.items} isOfOneSku />}
        </Faces>
      </Card>
      <Pager next={resource.data?.next ?? null} />
    </>
  );
}
