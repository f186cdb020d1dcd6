/** The form for one node of a draft. */
import { useState } from "react";
import { Button, Card } from "../../../part/basic";
import { useText } from "../../../text";
import { ArgumentField } from "./argument";
import { kwargsOf, withArgument, type DraftNode } from "./draft";
import type { Argument } from "./palette";

interface NodeFormProps {
  node: DraftNode;
  /** The arguments of its kind; empty if they are not known. */
  takes: readonly Argument[];
  above: readonly string[];
  hasStart: boolean;
  onChange: (change: Partial<DraftNode>) => void;
  onRemove: () => void;
}

export function NodeForm({ node, takes, above, hasStart, onChange, onRemove }: NodeFormProps) {
  const { t } = useText();
  const kwargs = kwargsOf(node.kwargs);
  // Typing JSON resets the fields to what it says.
  const [typed, setTyped] = useState(0);
  return (
    <Card title={<span className="name">{node.kind}</span>}>
      <form onSubmit={(event) => event.preventDefault()}>
        <label className="field">
          <span>{t.flow.name}</span>
          <input
            value={node.name}
            maxLength={255}
            onChange={(event) => onChange({ name: event.target.value })}
          />
        </label>
        {kwargs !== null &&
          takes.map((argument) => (
            <ArgumentField
              key={`${argument.name} ${typed}`}
              argument={argument}
              value={kwargs[argument.name]}
              above={above}
              hasStart={hasStart}
              onChange={(value) =>
                onChange({ kwargs: withArgument(node.kwargs, argument.name, value) })
              }
            />
          ))}
        <details open={takes.length === 0 || kwargs === null}>
          <summary>{t.flow.asJson}</summary>
          <textarea
            rows={5}
            aria-label={t.flow.arguments}
            aria-invalid={kwargs === null}
            maxLength={100_000}
            value={node.kwargs}
            onChange={(event) => {
              onChange({ kwargs: event.target.value });
              setTyped((before) => before + 1);
            }}
          />
        </details>
        <label className="field">
          <span>{t.flow.rule}</span>
          <select
            value={node.trigger}
            onChange={(event) => onChange({ trigger: event.target.value })}
          >
            {Object.entries(t.flow.triggers).map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <label className="field">
          <span>{t.flow.when}</span>
          <input
            value={node.when}
            maxLength={1_000}
            placeholder="load.result.rows > 0"
            onChange={(event) => onChange({ when: event.target.value })}
          />
        </label>
        <Button look="danger" icon="close" onClick={onRemove}>
          {t.flow.remove}
        </Button>
      </form>
    </Card>
  );
}
