/** Fields for the arguments of a handler, one for each parameter, by its type. */
import type { ChangeEvent } from "react";
import type { Answer } from "../api/call";
import {
  fieldOf,
  parseSchema,
  readField,
  typedOf,
  type FieldType,
  type Refusal,
} from "../data/schema";
import { useText } from "../text";
import type { Dictionary } from "../text/en";

type Parameter = Answer<"kinds/{kind}/form">["parameters"][number];
export type Typed = Readonly<Record<string, string>>;
export type Problems = Readonly<Record<string, string>>;

/** The arguments of what was typed, or what is wrong with which. */
export function readArguments(
  parameters: readonly Parameter[],
  typed: Typed,
  t: Dictionary,
): { given: Record<string, unknown>; problems: Problems } {
  const given: Record<string, unknown> = {};
  const problems: Record<string, string> = {};
  for (const each of parameters) {
    const field = fieldOf(parseSchema(each.accepts));
    const read = readField(field, typed[each.name] ?? firstOf(each, field), each.required);
    if (read === "left out") continue;
    if ("refusal" in read) problems[each.name] = wordsOf(read.refusal, field, t);
    else given[each.name] = read.value;
  }
  return { given, problems };
}

function wordsOf(refusal: Refusal, field: FieldType, t: Dictionary): string {
  if (refusal === "range") return t.form.range(field.min, field.max);
  return t.form.refused[refusal];
}

/** What stands in a field at first: a checkbox that must have a value has one. */
function firstOf(parameter: Parameter, field: FieldType): string {
  if (field.kind !== "flag") return "";
  return parameter.default === "true" ? "true" : parameter.required ? "false" : "";
}

interface ArgumentProps {
  parameter: Parameter;
  typed: string | undefined;
  problem: string | undefined;
  onType: (text: string) => void;
}

export function ArgumentField({ parameter, typed, problem, onType }: ArgumentProps) {
  const { t } = useText();
  const field = fieldOf(parseSchema(parameter.accepts));
  const id = `problem-${parameter.name}`;
  const label = (
    <span className="argument-label">
      <span className="name">{parameter.name}</span> <small>{parameter.type}</small>
      {parameter.required && <span className="required">{t.form.required}</span>}
    </span>
  );
  const told = {
    "aria-invalid": problem !== undefined || undefined,
    "aria-describedby": problem === undefined ? undefined : id,
  };
  const notes = (
    <>
      {parameter.doc && <small>{parameter.doc}</small>}
      {problem !== undefined && (
        <small id={id} className="text-bad" role="alert">
          {problem}
        </small>
      )}
    </>
  );
  const text = typed ?? "";
  if (field.kind === "flag") {
    return (
      <div className="field argument">
        <label className="check">
          <input
            type="checkbox"
            checked={(typed ?? firstOf(parameter, field)) === "true"}
            onChange={(event) => onType(event.target.checked ? "true" : "false")}
            {...told}
          />
          {label}
        </label>
        {notes}
      </div>
    );
  }
  const left = parameter.default === null ? "" : typedOf(field, parameter.default);
  const change = (event: ChangeEvent<HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement>) =>
    onType(event.target.value);
  return (
    <label className="field argument">
      {label}
      {field.kind === "choice" ? (
        <select value={text} onChange={change} {...told}>
          <option value="">
            {parameter.required && !field.isNullable ? t.form.choose : t.form.leftOut(left)}
          </option>
          {field.choices.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.label}
            </option>
          ))}
        </select>
      ) : field.kind === "json" ? (
        <textarea
          rows={3}
          spellCheck={false}
          value={text}
          placeholder={left || t.form.json}
          onChange={change}
          {...told}
        />
      ) : (
        <input
          type={TYPES[field.kind]}
          inputMode={
            field.kind === "number" ? (field.isInteger ? "numeric" : "decimal") : undefined
          }
          step={field.kind === "moment" ? 1 : undefined}
          maxLength={field.kind === "text" ? (field.longest ?? undefined) : undefined}
          value={text}
          placeholder={parameter.required ? "" : left}
          onChange={change}
          {...told}
        />
      )}
      {notes}
    </label>
  );
}

// A field of type number hides what is not a number, and rounds large ones.
const TYPES = { text: "text", number: "text", moment: "datetime-local", day: "date" } as const;
