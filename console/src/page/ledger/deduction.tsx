/** Deductions and their status. */
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago } from "../../part/basic";
import { Filter, Find } from "../../part/control";
import { PagedList } from "../../part/list";
import { Table, type Column } from "../../part/table";
import { oneOf } from "../../route/address";
import { useQuery } from "../../route/router";
import { useText } from "../../text";
import { LedgerFilters, LedgerFrame, useLedgerPath } from "./frame";
import { DEDUCTION_STATUSES, DeductionStatus, Lines, Nothing } from "./part";

export function DeductionTab() {
  const { t } = useText();
  const [{ shard, status, prefix, after }] = useQuery();
  const resource = useLive("deductions", {
    query: { shard, status: oneOf(DEDUCTION_STATUSES, status), prefix, after },
    topics: ["ledger"],
  });
  return (
    <LedgerFrame tab="deductions">
      <LedgerFilters>
        <Filter
          name="status"
          label={t.field.status}
          values={DEDUCTION_STATUSES}
          words={t.ledger.statuses}
        />
        <Find name="prefix" label={t.ledger.findDeduction} />
      </LedgerFilters>
      <PagedList
        resource={resource}
        lines={10}
        empty={
          <Nothing
            page={resource.data}
            isFiltered={Boolean(status ?? prefix ?? after)}
            title={t.ledger.noDeductions}
          >
            {t.ledger.noDeductionsText}{" "}
            <code>ledger.deduct(&quot;order-7&quot;, {'{"bolt": 5}'})</code>
          </Nothing>
        }
      >
        {(page) => <Deductions deductions={page.items} />}
      </PagedList>
    </LedgerFrame>
  );
}

function Deductions({ deductions }: { deductions: readonly Row<"deductions">[] }) {
  const { t, f } = useText();
  const to = useLedgerPath();
  const columns: readonly Column<Row<"deductions">>[] = [
    { label: t.ledger.deduction, render: (row) => <span className="name">{row.id}</span> },
    { label: t.field.status, render: (row) => <DeductionStatus status={row.status} /> },
    { label: t.ledger.lines, isWide: true, render: (row) => <Lines row={row} /> },
    {
      label: t.ledger.returned,
      isNumber: true,
      render: (row) => {
        const back = row.lines.reduce((sum, line) => sum + line.returned, 0);
        if (row.has_more_lines) return back > 0 ? `${f.number(back)}+` : "…";
        return back === 0 ? <span className="faint">–</span> : f.number(back);
      },
    },
    {
      label: t.ledger.heldUntil,
      isNumber: true,
      isExtra: true,
      render: (row) => <Ago at={row.status === "held" ? row.hold_until : null} />,
    },
    { label: t.ledger.made, isNumber: true, render: (row) => <Ago at={row.created_at} /> },
  ];
  return (
    <Table
      label={t.ledger.deductions}
      columns={columns}
      rows={deductions}
      rowKey={(row) => row.id}
      to={(row) => to("deductions", row.id)}
    />
  );
}
