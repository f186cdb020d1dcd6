/** Deductions: what went out, and what became of it. */
import type { DeductionOut, DeductionPage } from "../../api/model";
import { useLive } from "../../data/hook";
import { Ago, Card } from "../../part/basic";
import { Pager, Search, Segments } from "../../part/control";
import { Faces } from "../../part/faces";
import { Table, type Column } from "../../part/table";
import { queryOf } from "../../route/address";
import { useQuery } from "../../route/router";
import { useText } from "../../text";
import { LedgerFrame, PlaceSelect, useLedgerPath } from "./frame";
import { DEDUCTION_STATUSES, DeductionStatus, Lines, Nothing, refusalText } from "./part";

export function DeductionTab() {
  const { t } = useText();
  const [query, change] = useQuery();
  const { shard, status, prefix, after } = query;
  const path = `deductions${queryOf({ shard, status, prefix, after })}`;
  const resource = useLive<DeductionPage>(path, ["ledger"]);
  return (
    <LedgerFrame tab="deductions">
      <div className="filters" role="search">
        <div className="filter-row">
          <Segments
            label={t.field.status}
            value={status ?? ""}
            choices={[
              { value: "", label: t.common.all },
              ...DEDUCTION_STATUSES.map((value) => ({
                value: value as string,
                label: t.ledger.statuses[value],
              })),
            ]}
            onChoose={(value) => change({ status: value, after: null })}
          />
          <Search
            label={t.ledger.findDeduction}
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
              isFiltered={Boolean(status ?? prefix ?? after)}
              title={t.ledger.noDeductions}
            >
              {t.ledger.noDeductionsText}{" "}
              <code>ledger.deduct(&quot;order-7&quot;, {'{"bolt": 5}'})</code>
            </Nothing>
          }
        >
          {(page) => <Deductions deductions={page.items} />}
        </Faces>
      </Card>
      <Pager next={resource.data?.next ?? null} />
    </LedgerFrame>
  );
}

function Deductions({ deductions }: { deductions: readonly DeductionOut[] }) {
  const { t, f } = useText();
  const to = useLedgerPath();
  const columns: readonly Column<DeductionOut>[] = [
    {
      name: "id",
      label: t.ledger.deduction,
      render: (row) => <span className="name">{row.id}</span>,
    },
    {
      name: "status",
      label: t.field.status,
      render: (row) => <DeductionStatus status={row.status} />,
    },
    {
      name: "lines",
      label: t.ledger.lines,
      isWide: true,
      render: (row) =>
        row.refusal ? (
          <span className="text-bad clip">{refusalText(row.refusal)}</span>
        ) : (
          <Lines lines={row.lines} hasMore={row.has_more_lines} />
        ),
    },
    {
      name: "returned",
      label: t.ledger.returned,
      isNumber: true,
      render: (row) => {
        const back = row.lines.reduce((sum, line) => sum + line.returned, 0);
        if (row.has_more_lines) return back > 0 ? `${f.number(back)}+` : "…";
        return back === 0 ? <span className="faint">–</span> : f.number(back);
      },
    },
    {
      name: "held",
      label: t.ledger.heldUntil,
      isNumber: true,
      isExtra: true,
      render: (row) => <Ago at={row.status === "held" ? row.hold_until : null} />,
    },
    {
      name: "made",
      label: t.ledger.made,
      isNumber: true,
      render: (row) => <Ago at={row.created_at} />,
    },
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
