/** Returns: what came back, of which deduction. */
import type { ReturnOut, ReturnPage } from "../../api/model";
import { useLive } from "../../data/hook";
import { Ago, Card } from "../../part/basic";
import { Pager } from "../../part/control";
import { Faces } from "../../part/faces";
import { Table, type Column } from "../../part/table";
import { queryOf } from "../../route/address";
import { Link, useQuery } from "../../route/router";
import { useText } from "../../text";
import { LedgerFrame, PlaceSelect, useLedgerPath } from "./frame";
import { DeductionStatus, Lines, Movement, Nothing, refusalText } from "./part";

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
  const [query] = useQuery();
  const { shard, after } = query;
  const resource = useLive<ReturnPage>(`returns${queryOf({ shard, deduction, after })}`, [
    "ledger",
  ]);
  return (
    <>
      <Card isFlush {...(deduction === undefined ? {} : { title: t.ledger.returns })}>
        <Faces
          resource={resource}
          lines={deduction === undefined ? 10 : 3}
          isEmpty={(page) => page.items.length === 0}
          empty={
            <Nothing page={resource.data} isFiltered={Boolean(after)} title={t.ledger.noReturns}>
              {t.ledger.noReturnsText}
            </Nothing>
          }
        >
          {(page) => <Returns returns={page.items} isOfOne={deduction !== undefined} />}
        </Faces>
      </Card>
      <Pager next={resource.data?.next ?? null} />
    </>
  );
}

function Returns({ returns, isOfOne }: { returns: readonly ReturnOut[]; isOfOne: boolean }) {
  const { t } = useText();
  const to = useLedgerPath();
  const deduction: Column<ReturnOut> = {
    name: "deduction",
    label: t.ledger.deduction,
    render: (row) => (
      <Link className="name" to={to("deductions", row.deduction)}>
        {row.deduction}
      </Link>
    ),
  };
  const columns: readonly Column<ReturnOut>[] = [
    {
      name: "id",
      label: t.ledger.return,
      render: (row) =>
        row.movement === "return" ? (
          <span className="name">{row.id}</span>
        ) : (
          <span className="faint">–</span>
        ),
    },
    ...(isOfOne ? [] : [deduction]),
    {
      name: "movement",
      label: t.ledger.movement,
      render: (row) =>
        row.refusal ? <DeductionStatus status="refused" /> : <Movement movement={row.movement} />,
    },
    {
      name: "lines",
      label: t.ledger.back,
      isWide: true,
      render: (row) =>
        row.refusal ? (
          <span className="text-bad clip">{refusalText(row.refusal)}</span>
        ) : (
          <Lines lines={row.lines} hasMore={row.has_more_lines} />
        ),
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
      label={t.ledger.returns}
      columns={columns}
      rows={returns}
      rowKey={(row) => `${row.deduction}\n${row.id}`}
    />
  );
}
