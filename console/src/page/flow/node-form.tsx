/** What may be said of a node of a template. */
import { Button, Card } from "../../part/basic";
import { useText } from "../../text";
import type { DraftNode } from "./draft";

interface NodeFormProps {
  node: DraftNode;
  onChange: (change: Partial<DraftNode>) => void;
  onRemove: () => void;
}

export function NodeForm({ node, onChange, onRemove }: NodeFormProps) {
  const { t } = useText();
  return (
    <Card title={node.kind}>
      <form onSubmit={(event) => event.preventDefault()}>
        <label className="field">
          <span>{t.flow.name}</span>
          <input
            value={node.name}
            maxLength={100}
            onChange={(event) => onChange({ name: event.target.value })}
          />
        </label>
        <label className="field">
          <span>{t.flow.arguments}</span>
          <textarea
            rows={5}
            value={node.kwargs}
            onChange={(event) => onChange({ kwargs: event.target.value })}
          />
        </label>
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
          <input value={node.when} onChange={(event) => onChange({ when: event.target.value })} />
        </label>
        <Button look="danger" icon="close" onClick={onRemove}>
          {t.flow.remove}
        </Button>
      </form>
    </Card>
  );
}
