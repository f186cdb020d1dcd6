/** Controls: tabs, segments, selects, filters and search fields. The choice is in the URL. */
import { useEffect, useRef, useState, type ReactNode } from "react";
import { useQuery } from "../route/router";
import { useText } from "../text";
import { Button } from "./basic";
import { Icon } from "./icon";

export interface Choice<T extends string> {
  readonly value: T;
  readonly label: ReactNode;
}

interface ChooseProps<T extends string> {
  label: string;
  value: T;
  choices: readonly Choice<T>[];
  onChoose: (value: T) => void;
}

export function Segments<T extends string>({ label, value, choices, onChoose }: ChooseProps<T>) {
  return (
    <div className="segments" role="group" aria-label={label}>
      {choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          aria-pressed={choice.value === value}
          onClick={() => onChoose(choice.value)}
        >
          {choice.label}
        </button>
      ))}
    </div>
  );
}

export function Tabs<T extends string>({ label, value, choices, onChoose }: ChooseProps<T>) {
  return (
    <div className="tabs" role="tablist" aria-label={label}>
      {choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          role="tab"
          aria-selected={choice.value === value}
          onClick={() => onChoose(choice.value)}
        >
          {choice.label}
        </button>
      ))}
    </div>
  );
}

export function Select<T extends string>({ label, value, choices, onChoose }: ChooseProps<T>) {
  return (
    <label className="select">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChoose(event.target.value as T)}>
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.label}
          </option>
        ))}
      </select>
    </label>
  );
}

interface FilterProps {
  /** The name in the URL. */
  name: string;
  label: string;
  /** The word for no choice. */
  all?: string;
  values: readonly string[];
  /** What the values are called; else they are shown as they are. */
  words?: Readonly<Record<string, string>>;
  isSelect?: boolean;
}

/** Chooses one value in the URL's query, or all; lists start again at their first page. */
export function Filter({ name, label, all, values, words = {}, isSelect = false }: FilterProps) {
  const { t } = useText();
  const [query, change] = useQuery();
  const Part = isSelect ? Select<string> : Segments<string>;
  return (
    <Part
      label={label}
      value={query[name] ?? ""}
      choices={[
        { value: "", label: all ?? t.common.all },
        ...values.map((value) => ({ value, label: words[value] ?? value })),
      ]}
      onChoose={(value) => change({ [name]: value, after: null })}
    />
  );
}

/** Searches for a text in the URL's query; lists start again at their first page. */
export function Find({ name, label }: { name: string; label: string }) {
  const [query, change] = useQuery();
  return (
    <Search
      label={label}
      value={query[name] ?? ""}
      onSearch={(text) => change({ [name]: text, after: null })}
    />
  );
}

interface SearchProps {
  label: string;
  value: string;
  onSearch: (text: string) => void;
}

const PAUSE_MILLISECONDS = 300;

/** A field that searches when the user stops typing; the key `/` focuses it. */
function Search({ label, value, onSearch }: SearchProps) {
  const [text, setText] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => setText(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const change = (now: string) => {
    setText(now);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onSearch(now.trim()), PAUSE_MILLISECONDS);
  };
  return (
    <label className="search">
      <Icon name="search" />
      <input
        type="search"
        data-search
        aria-label={label}
        placeholder={label}
        value={text}
        maxLength={255}
        onChange={(event) => change(event.target.value)}
      />
      <kbd>/</kbd>
    </label>
  );
}

/** The pages of a list; the place is in the URL as `after`, so the browser's Back works. */
export function Pager({ next }: { next: string | null }) {
  const { t } = useText();
  const [{ after }, change] = useQuery();
  const isFirst = !after;
  const go = (place: string | null) => change({ after: place }, false);
  if (isFirst && next === null) return null;
  return (
    <nav className="pager" aria-label={t.common.pages}>
      <Button icon="first" onClick={() => go(null)} disabled={isFirst}>
        {t.common.firstPage}
      </Button>
      <Button onClick={() => go(next)} disabled={next === null}>
        {t.common.nextPage}
      </Button>
    </nav>
  );
}
