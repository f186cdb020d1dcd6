/** Tables; on a narrow screen each row becomes a small card. */
import type { ReactNode } from "react";
import { Link } from "../route/router";

export interface Column<T> {
  /** A column of buttons has none. */
  readonly label: string;
  readonly render: (row: T) => ReactNode;
  readonly isNumber?: boolean;
  /** Left out on narrow screens. */
  readonly isExtra?: boolean;
  /** Takes the room that is left. */
  readonly isWide?: boolean;
}

interface TableProps<T> {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string | number;
  /** Where a row leads; its first cell is the link. */
  to?: (row: T) => string;
  tone?: (row: T) => string | undefined;
}

export function Table<T>({ label, columns, rows, rowKey, to, tone }: TableProps<T>) {
  return (
    <div className="table-frame">
      <table aria-label={label} className={to ? "linked" : undefined}>
        <thead>
          <tr>
            {columns.map((column, index) => (
              <th key={index} scope="col" className={classOf(column)}>
                {column.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)} className={tone?.(row)}>
              {columns.map((column, index) => (
                <td key={index} className={classOf(column)} data-label={column.label || undefined}>
                  {to && index === 0 ? (
                    <Link className="row-link" to={to(row)}>
                      {column.render(row)}
                    </Link>
                  ) : (
                    column.render(row)
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function classOf<T>(column: Column<T>): string | undefined {
  const names = [
    column.isNumber && "number",
    column.isExtra && "extra",
    column.isWide && "wide",
    column.label === "" && "act",
  ].filter(Boolean);
  return names.length > 0 ? names.join(" ") : undefined;
}
