/** One SKU: how much there is, how that changed, and every change. */
import type { Answer } from "../../api/call";
import { useLive } from "../../data/hook";
import { Card, Figure, Figures, Page } from "../../part/basic";
import { BalanceChart } from "../../part/picture/balance";
import { Filter } from "../../part/control";
import { Faces } from "../../part/faces";
import { useQuery } from "../../route/router";
import { useText } from "../../text";
import { MoveButtons } from "./act";
import { EntryList } from "./entry";
import { useLedgerPath } from "./frame";
import { MOVEMENT_NAMES } from "./part";

const CHANGES_DRAWN = 100;

export function SkuPage({ sku }: { sku: string }) {
  const { t } = useText();
  const to = useLedgerPath();
  const [{ shard }] = useQuery();
  const resource = useLive("ledger/stocks/{sku}", {
    params: { sku },
    query: { shard },
    topics: ["ledger"],
  });
  return (
    <Page up={{ to: to(), label: t.ledger.stock }} title={sku} actions={<MoveButtons sku={sku} />}>
      <Faces resource={resource} lines={3}>
        {(stock) => (
          <>
            <Sums stock={stock} />
            <Balance sku={sku} shard={shard} />
            <EntryList
              sku={sku}
              title={t.ledger.entries}
              aside={
                <Filter
                  isSelect
                  name="movement"
                  label={t.ledger.movement}
                  values={MOVEMENT_NAMES}
                  words={t.ledger.movements}
                />
              }
            />
          </>
        )}
      </Faces>
    </Page>
  );
}

function Sums({ stock }: { stock: Answer<"ledger/stocks/{sku}"> }) {
  const { t, f } = useText();
  return (
    <Figures>
      <Figure
        label={t.ledger.available}
        value={f.number(stock.available)}
        tone={stock.available === 0 && "bad"}
        note={stock.available === 0 ? t.ledger.soldOut : undefined}
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
  const { data } = useLive("entries", {
    query: { sku, shard, limit: CHANGES_DRAWN },
    topics: ["ledger"],
  });
  if (data === undefined || data.items.length < 2) return null;
  const title = t.ledger.balanceTitle(f.number(data.items.length));
  return (
    <Card title={title}>
      <BalanceChart entries={[...data.items].reverse()} label={title} />
    </Card>
  );
}
