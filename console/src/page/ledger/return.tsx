/** Returns, with their deductions. */
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago } from "../../part/basic";
import { PagedList } from "../../part/list";
import { Table, type Column } from "../../part/table";
import { Link, useQuery } from "../../route/router";
import { useText } from "../../text";
import { LedgerFrame, PlaceSelect, useLedgerPath } from "./frame";
import { DeductionStatus, Lines, Movement, Nothing } from "./part";

type Return = Row<"returns">;

export function ReturnTab() {
  return (
    <LedgerFrame tab="returns">
      <div className="filter-row spaced">
        <PlaceSelect />
      </div>
      <ReturnList />
    </LedgerFrame>
  );
}

/** The returns of all deductions, or of one. */
export function ReturnList({ deduction }: { deduction?: string }) {
  const { t } = useText();
  const [{ shard, after }] = useQuery();
  const resource = useLive("returns", { query: { shard, deduction, after }, topics: ["ledger"] });
  return (
    <PagedList
      resource={resource}
      title={deduction === undefined ? undefined : t.ledger.returns}
      lines={deduction === undefined ? 10 : 3}
      empty={
        <Nothing page={resource.data} isFiltered={Boolean(after)} title={t.ledger.noReturns}>
          {t.ledger.noReturnsText}
        </Nothing>
      }
    >
      {(page) => <Returns returns={page.items} isOfOne={deduction !== undefined} />}
    </PagedList>
  );
}

function Returns({ returns, isOfOne }: { returns: readonly Return[]; isOfOne: boolean }) {
  const { t } = useText();
  const to = useLedgerPath();
  const deduction: Column<Return> = {
    label: t.ledger.deduction,
    render: (row) => (
      <Link className="name" to={to("deductions", row.deduction)}>
        {row.deduction}
      </Link>
    ),
  };
  const out: Column<Return> = {
    label: t.ledger.outLines,
    isWide: true,
    render: (row) => (
      <Lines row={{ lines: row.out, has_more_lines: row.has_more_out, refusal: null }} />
    ),
  };
  const columns: readonly Column<Return>[] = [
    {
      label: t.ledger.return,
      render: (row) =>
        row.movement === "return" || row.movement === "exchange" ? (
          <span className="name">{row.id}</span>
        ) : (
          <span className="faint">–</span>
        ),
    },
    ...(isOfOne ? [] : [deduction]),
    {
      label: t.ledger.movement,
      render: (row) =>
        row.refusal ? <DeductionStatus status="refused" /> : <Movement movement={row.movement} />,
    },
    { label: t.ledger.back, isWide: true, render: (row) => <Lines row={row} /> },
    ...(returns.some((row) => row.out.length > 0) ? [out] : []),
    { label: t.ledger.made, isNumber: true, render: (row) => <Ago at={row.created_at} /> },
  ];
  return (
    <Table
      label={t.ledger.returns}
      columns={columns}
      rows={returns}
      rowKey={(row) => `${row.deduction}\n${row.id}`}
    />
  );
}
