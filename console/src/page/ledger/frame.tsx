/** What every list of the ledger has around it: tabs, and the choice of a database. */
import type { ReactNode } from "react";
import { useLive } from "../../data/hook";
import { Page } from "../../part/basic";
import { Select, Tabs } from "../../part/control";
import { pathOf, queryOf } from "../../route/address";
import { navigate, useQuery } from "../../route/router";
import { useText } from "../../text";

const TABS = ["stock", "deductions", "returns", "entries", "audit"] as const;
export type Tab = (typeof TABS)[number];

/** An address of the ledger that keeps the chosen database. */
export function useLedgerPath(): (...parts: readonly string[]) => string {
  const [{ shard }] = useQuery();
  return (...parts) => pathOf("ledger", ...parts) + queryOf({ shard });
}

interface FrameProps {
  tab: Tab;
  actions?: ReactNode;
  children: ReactNode;
}

export function LedgerFrame({ tab, actions, children }: FrameProps) {
  const { t } = useText();
  const to = useLedgerPath();
  return (
    <Page title={t.menu.ledger} lead={t.ledger.lead} actions={actions}>
      <Tabs
        label={t.menu.ledger}
        value={tab}
        choices={TABS.map((value) => ({ value, label: t.ledger[value] }))}
        onChoose={(value) => navigate(value === "stock" ? to() : to(value))}
      />
      {children}
    </Page>
  );
}

/** The filters of a list, and the choice of a database. */
export function LedgerFilters({ children }: { children: ReactNode }) {
  return (
    <div className="filters" role="search">
      <div className="filter-row">
        {children}
        <PlaceSelect />
      </div>
    </div>
  );
}

/** Which database; shown only where there are several. */
export function PlaceSelect() {
  const { t } = useText();
  const [query, change] = useQuery();
  const places = useLive("ledgers").data ?? [];
  if (places.length < 2) return null;
  return (
    <Select
      label={t.ledger.database}
      value={query.shard ?? places[0]?.shard ?? ""}
      choices={places.map((place) => ({ value: place.shard, label: place.name }))}
      onChoose={(shard) => change({ shard, after: null })}
    />
  );
}
