/** The kinds that a node can have: declared tasks, flows, external systems, and templates. */
import { useState } from "react";
import type { Row } from "../../../api/call";
import { useLive } from "../../../data/hook";
import { Button } from "../../../part/basic";
import { oneOf } from "../../../route/address";
import { useText } from "../../../text";

/** An argument of a handler: its name, its type, and whether it must be given. */
export type Argument = Row<"flows/startable">["arguments"][number];

const FAMILIES = ["task", "external", "flow"] as const;

export interface Usable {
  readonly kind: string;
  readonly family: "task" | "external" | "flow" | "template";
  readonly takes: readonly Argument[];
}

/** The kinds that a node can have, with their arguments. */
export function useUsable(): readonly Usable[] {
  const kinds = useLive("kinds").data ?? [];
  const startable = useLive("flows/startable", { topics: ["flows"] });
  const declared = kinds.flatMap((kind) => {
    const family = oneOf(FAMILIES, kind.family);
    const takes = kind.declared?.arguments ?? [];
    return family && kind.is_declared ? [{ kind: kind.kind, family, takes }] : [];
  });
  const templates = (startable.data ?? [])
    .filter((each) => each.version !== null)
    .map((each) => ({ kind: each.name, family: "template" as const, takes: each.arguments }));
  return [...declared, ...templates];
}

interface PaletteProps {
  usable: readonly Usable[];
  onAdd: (kind: string) => void;
}

export function Palette({ usable, onAdd }: PaletteProps) {
  const { t } = useText();
  const [chosen, setChosen] = useState("");
  const kind = chosen || (usable[0]?.kind ?? "");
  const words = { ...t.family, template: t.flow.template };
  const families = ["task", "external", "flow", "template"] as const;
  return (
    <div className="filter-row palette">
      <label className="select">
        <span>{t.field.kind}</span>
        <select value={kind} onChange={(event) => setChosen(event.target.value)}>
          {families.map((family) => {
            const some = usable.filter((each) => each.family === family);
            return some.length === 0 ? null : (
              <optgroup key={family} label={words[family]}>
                {some.map((each) => (
                  <option key={each.kind}>{each.kind}</option>
                ))}
              </optgroup>
            );
          })}
        </select>
      </label>
      <Button icon="plus" disabled={kind === ""} onClick={() => onAdd(kind)}>
        {t.flow.add}
      </Button>
    </div>
  );
}
