import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const css = readFileSync(new URL("../../src/style/base.css", import.meta.url), "utf8");
const PAIR = /--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g;
const colours = new Map([...css.matchAll(PAIR)].map(([, name, ...pair]) => [name ?? "", pair]));

const READABLE = 4.5;
const PAIRS = [
  ...["calm", "busy", "good", "bad", "warn", "away", "idle"].map((tone) => [tone, `${tone}-soft`]),
  ...["text", "soft", "faint", "accent", "bad", "warn", "good"].map((name) => [name, "surface"]),
  ...["text", "soft", "faint"].map((name) => [name, "ground"]),
  ["soft", "sunk"],
  ...["bad", "busy", "accent", "away"].map((tone) => ["soft", `${tone}-soft`]),
  ["on-accent", "accent"],
  ["accent-strong", "accent-soft"],
] as [string, string][];

describe.each(["light", "dark"])("in the %s theme", (theme) => {
  it.each(PAIRS)("%s can be read on %s", (front, back) => {
    const at = theme === "light" ? 0 : 1;
    const [one, other] = [colours.get(front)?.[at], colours.get(back)?.[at]];
    expect(contrast(one ?? "", other ?? "")).toBeGreaterThanOrEqual(READABLE);
  });
});

it.each([...css.matchAll(/--member: (#[0-9a-f]{6})/g)].map(([, colour]) => colour ?? ""))(
  "a white letter can be read on a member of the colour %s",
  (colour) => {
    expect(contrast("#ffffff", colour)).toBeGreaterThanOrEqual(READABLE);
  },
);

/** The contrast of two colours, as WCAG counts it. */
function contrast(one: string, other: string): number {
  const [dark = 0, light = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(colour: string): number {
  const part = (from: number) => {
    const value = parseInt(colour.slice(from, from + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
}
