/** One argument of a node: not set, a value, the result of another node, or a start argument. */
import { useState } from "react";
import { useText } from "../../../text";
import type { Argument } from "./palette";
import { sourceOf, valueOf, type Source } from "../value";

interface ArgumentProps {
  argument: Argument;
  value: unknown;
  /** The nodes whose results can be used. */
  above: readonly string[];
  /** Whether it can be a start argument; not in a flow run that has started. */
  hasStart: boolean;
  onChange: (value: unknown) => void;
}

export function ArgumentField({ argument, value, above, hasStart, onChange }: ArgumentProps) {
  const { t } = useText();
  const { name, type, required } = argument;
  const [source, setSource] = useState<Source>(() => sourceOf(value, type));
  const made = valueOf(source, type);
  const isBad = source.from === "value" && source.text !== "" && made === undefined;
  const change = (next: Source) => {
    setSource(next);
    onChange(valueOf(next, type));
  };
  const choose = (chosen: string) => {
    if (chosen === "value") change({ from: "value", text: "" });
    else if (chosen === "argument") change({ from: "argument", name });
    else if (chosen.startsWith("result:"))
      change({ from: "result", node: chosen.slice("result:".length), path: "" });
    else change({ from: "none" });
  };
  const chosen = source.from === "result" ? `result:${source.node}` : source.from;
  const nodes =
    source.from === "result" && !above.includes(source.node) ? [source.node, ...above] : above;
  return (
    <fieldset className="argument">
      <legend>
        {name} <small>{type}</small>
        {required && source.from === "none" && <small className="text-bad"> *</small>}
      </legend>
      <select aria-label={name} value={chosen} onChange={(event) => choose(event.target.value)}>
        <option value="none">{t.flow.leftOut}</option>
        <option value="value">{t.flow.value}</option>
        {hasStart && <option value="argument">{t.flow.argument}</option>}
        {nodes.map((node) => (
          <option key={node} value={`result:${node}`}>
            {t.flow.resultOf(node)}
          </option>
        ))}
      </select>
      {source.from === "value" && (
        <input
          aria-label={`${name}: ${t.flow.value}`}
          aria-invalid={isBad}
          value={source.text}
          maxLength={10_000}
          placeholder={type}
          onChange={(event) => change({ from: "value", text: event.target.value })}
        />
      )}
      {source.from === "argument" && (
        <input
          aria-label={`${name}: ${t.flow.argument}`}
          value={source.name}
          maxLength={100}
          onChange={(event) => change({ from: "argument", name: event.target.value })}
        />
      )}
      {source.from === "result" && (
        <input
          aria-label={`${name}: ${t.flow.resultOf(source.node)}`}
          value={source.path}
          maxLength={300}
          placeholder="rows.0.id"
          onChange={(event) => change({ ...source, path: event.target.value })}
        />
      )}
      {isBad && <small className="text-bad">{t.flow.badValue(name)}</small>}
    </fieldset>
  );
}
