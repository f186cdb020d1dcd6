/** What nodes can be: declared tasks, flows and external systems, and templates. */
import { useState } from "react";
import type { ArgumentOut, KindOut, StartableOut } from "../../../api/model";
import { useLive } from "../../../data/hook";
import { Button } from "../../../part/basic";
import { useText } from "../../../text";

const FAMILIES: readonly string[] = ["task", "external", "flow"];

export interface Usable {
  readonly kind: string;
  readonly family: "task" | "external" | "flow" | "template";
  readonly takes: readonly ArgumentOut[];
}

/** The kinds that a node can have, with what they take. */
export function useUsable(): readonly Usable[] {
  const kinds = useLive<readonly KindOut[]>("kinds", []);
  const startable = useLive<readonly StartableOut[]>("flows/startable", ["flows"]);
  const declared = (kinds.data ?? [])
    .filter((kind) => kind.is_declared && FAMILIES.includes(kind.family))
    .map((kind) => ({
      kind: kind.kind,
      family: kind.family as Usable["family"],
      takes: kind.declared?.arguments ?? [],
    }));
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
