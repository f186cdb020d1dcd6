/** Texts, numbers and times in the user's language. */
import { createContext, useContext, useEffect, useMemo, useState, type ReactNode } from "react";
import { Format, type Language } from "../format/format";
import { recall, store } from "../data/memory";
import { en, type Dictionary } from "./en";
import { zh } from "./zh";

export const DICTIONARIES: Readonly<Record<Language, Dictionary>> = { en, zh };

interface Words {
  readonly t: Dictionary;
  readonly f: Format;
  readonly language: Language;
  readonly setLanguage: (language: Language) => void;
}

const Context = createContext<Words | null>(null);

export function TextProvider({ children }: { children: ReactNode }) {
  const [language, setLanguage] = useState<Language>(firstLanguage);
  useEffect(() => {
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
    store("language", language);
  }, [language]);
  const words = useMemo(
    () => ({ t: DICTIONARIES[language], f: new Format(language), language, setLanguage }),
    [language],
  );
  return <Context value={words}>{children}</Context>;
}

export function useText(): Words {
  const words = useContext(Context);
  if (words === null) throw new Error("useText needs a TextProvider around it");
  return words;
}

function firstLanguage(): Language {
  const known = recall("language");
  if (known === "en" || known === "zh") return known;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}
