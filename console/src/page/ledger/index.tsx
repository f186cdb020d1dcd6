/** The pages of the ledger, and which of them an address shows. */
import type { ReactNode } from "react";
import { AuditTab } from "./audit";
import { DeductionTab } from "./deduction";
import { DeductionPage } from "./deduction-detail";
import { EntryTab } from "./entry";
import { ReturnTab } from "./return";
import { StockTab } from "./stock";
import { SkuPage } from "./stock-detail";

export function ledgerList(): ReactNode {
  return <StockTab />;
}

/** `ledger/stock/SKU` is a SKU, `ledger/deductions/ID` a deduction; the rest are lists. */
export function ledgerDetail([first = "", second]: readonly string[]): ReactNode | undefined {
  if (first === "stock" && second !== undefined) return <SkuPage key={second} sku={second} />;
  if (first === "deductions" && second !== undefined)
    return <DeductionPage key={second} id={second} />;
  if (second !== undefined) return undefined;
  if (first === "deductions") return <DeductionTab />;
  if (first === "returns") return <ReturnTab />;
  if (first === "entries") return <EntryTab />;
  if (first === "audit") return <AuditTab />;
  return undefined;
}
