/** The audit: checks every rule of the ledger on every row, on request. */
import { useState } from "react";
import type { Answer } from "../../api/call";
import { get, problemOf, type Problem } from "../../api/client";
import { Button, Card } from "../../part/basic";
import { Empty, Skeleton, Trouble } from "../../part/faces";
import { Icon } from "../../part/icon";
import { useQuery } from "../../route/router";
import { useText } from "../../text";
import { LedgerFrame, PlaceSelect } from "./frame";

type Found = Answer<"ledger/audit">;

type Run =
  | { readonly is: "idle" | "busy" }
  | { readonly is: "done"; readonly found: Found; readonly seconds: number }
  | { readonly is: "failed"; readonly problem: Problem };

export function AuditTab() {
  const { t } = useText();
  const [{ shard }] = useQuery();
  return (
    <LedgerFrame tab="audit">
      <div className="filter-row spaced">
        <PlaceSelect />
      </div>
      <Audit key={shard ?? ""} shard={shard} label={t.ledger.auditRun} />
    </LedgerFrame>
  );
}

function Audit({ shard, label }: { shard: string | undefined; label: string }) {
  const { t, f } = useText();
  const [run, setRun] = useState<Run>({ is: "idle" });
  const start = async () => {
    const began = performance.now();
    setRun({ is: "busy" });
    try {
      const found = await get("ledger/audit", { query: { shard } });
      setRun({ is: "done", found, seconds: (performance.now() - began) / 1_000 });
    } catch (cause) {
      setRun({ is: "failed", problem: problemOf(cause) });
    }
  };
  const button = (
    <Button icon="audit" look="main" isBusy={run.is === "busy"} onClick={() => void start()}>
      {label}
    </Button>
  );
  return (
    <Card isFlush title={t.ledger.audit} aside={run.is === "done" && button}>
      {run.is === "idle" && (
        <Empty title={t.ledger.auditNever} action={button}>
          {t.ledger.auditLead} {t.ledger.auditNeverText}
        </Empty>
      )}
      {run.is === "busy" && (
        <>
          <p className="table-note">{t.ledger.auditRunning}</p>
          <Skeleton lines={4} />
        </>
      )}
      {run.is === "failed" && (
        <Trouble problem={run.problem} onRetry={() => void start()} isBusy={false} />
      )}
      {run.is === "done" && <Findings found={run.found} took={f.span(run.seconds)} />}
    </Card>
  );
}

function Findings({ found, took }: { found: Found; took: string }) {
  const { t, f } = useText();
  if (found.ok) {
    return (
      <div className="empty" role="status">
        <span className="seal tone-good">
          <Icon name="check" />
        </span>
        <p className="empty-title">{t.ledger.auditOk}</p>
        <p>{t.ledger.auditOkText(took)}</p>
      </div>
    );
  }
  return (
    <div className="findings" role="alert">
      <p className="text-bad">
        <b>{t.ledger.auditWrong(f.number(found.problems.length))}</b>
      </p>
      <ul className="feed">
        {found.problems.map((problem) => (
          <li key={problem} className="plain-text">
            {problem}
          </li>
        ))}
      </ul>
    </div>
  );
}
