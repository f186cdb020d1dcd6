/** Parts of the ledger's pages: statuses, movements, lines and signed numbers. */
import type { ReactNode } from "react";
import type { Row } from "../../api/call";
import type { IconName } from "../../part/icon";
import { Empty } from "../../part/faces";
import { Badge, type Tone } from "../../part/status";
import { useText } from "../../text";
import type { Line } from "./line";

type DeductionStatus = Row<"deductions">["status"];
type MovementName = Row<"entries">["movement"];

const STATUSES: Readonly<Record<DeductionStatus, readonly [Tone, IconName]>> = {
  held: ["busy", "clock"],
  deducted: ["good", "check"],
  refused: ["bad", "close"],
  voided: ["idle", "cancel"],
  lapsed: ["warn", "clock"],
};

const MOVEMENTS: Readonly<Record<MovementName, readonly [Tone, IconName]>> = {
  restock: ["good", "plus"],
  adjust: ["away", "settings"],
  deduct: ["calm", "leave"],
  return: ["busy", "retry"],
  exchange: ["away", "retry"],
  void: ["idle", "cancel"],
  lapse: ["warn", "clock"],
};

export const DEDUCTION_STATUSES = Object.keys(STATUSES) as readonly DeductionStatus[];
export const MOVEMENT_NAMES = Object.keys(MOVEMENTS) as readonly MovementName[];

export function DeductionStatus({ status }: { status: string }) {
  const { t } = useText();
  const [tone, icon] = STATUSES[status as DeductionStatus] ?? (["idle", "dot"] as const);
  const names: Readonly<Record<string, string>> = t.ledger.statuses;
  return (
    <Badge tone={tone} icon={icon}>
      {names[status] ?? status}
    </Badge>
  );
}

export function Movement({ movement }: { movement: MovementName }) {
  const { t } = useText();
  const [tone, icon] = MOVEMENTS[movement];
  return (
    <Badge tone={tone} icon={icon}>
      {t.ledger.movements[movement]}
    </Badge>
  );
}

/** A difference with its sign. */
export function Signed({ value }: { value: number }) {
  const { f } = useText();
  return (
    <span className={value > 0 ? "text-good" : "text-bad"}>
      {value > 0 ? "+" : "−"}
      {f.number(Math.abs(value))}
    </span>
  );
}

interface Movements {
  readonly lines: readonly Line[];
  readonly has_more_lines: boolean;
  readonly refusal: object | null;
}

/** The first lines of a deduction or a return, or why it was refused. */
export function Lines({ row }: { row: Movements }) {
  const { t, f } = useText();
  if (row.refusal) return <span className="text-bad clip">{refusalText(row.refusal)}</span>;
  if (row.lines.length === 0) return <span className="faint">–</span>;
  return (
    <span className="inline">
      {row.lines.map((line) => (
        <span key={line.sku} className="chip sku-chip">
          <span>{line.sku}</span> × {f.number(line.quantity)}
        </span>
      ))}
      {row.has_more_lines && <small className="faint">{t.ledger.more}</small>}
    </span>
  );
}

/** Why something was refused, as text. */
export function refusalText(refusal: object): string {
  const { error, ...facts } = refusal as Readonly<Record<string, unknown>>;
  const told = Object.entries(facts).map(([name, value]) => `${name} ${String(value)}`);
  return [String(error), ...told].join(" · ");
}

interface NothingProps {
  page: { readonly next: string | null; readonly looked_at: number } | undefined;
  isFiltered: boolean;
  title: string;
  children: ReactNode;
}

/** An empty list: more may follow, nothing matches, or there are no rows. */
export function Nothing({ page, isFiltered, title, children }: NothingProps) {
  const { t, f } = useText();
  if (page?.next) {
    return <Empty title={t.ledger.notYet}>{t.ledger.notYetText(f.number(page.looked_at))}</Empty>;
  }
  if (isFiltered) return <Empty title={t.ledger.noMatch}>{t.ledger.noMatchText}</Empty>;
  return <Empty title={title}>{children}</Empty>;
}
