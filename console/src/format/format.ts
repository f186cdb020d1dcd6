/** Numbers, times and durations as people read them. */

export type Language = "en" | "zh";

const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;

const UNITS = {
  en: { d: "d", h: "h", m: "m", s: "s", ms: " ms", join: " " },
  zh: { d: " 天", h: " 小时", m: " 分", s: " 秒", ms: " 毫秒", join: " " },
} as const;

const RELATIVE = {
  en: { now: "just now", ago: (span: string) => `${span} ago`, in: (span: string) => `in ${span}` },
  zh: { now: "刚刚", ago: (span: string) => `${span}前`, in: (span: string) => `${span}后` },
} as const;

export class Format {
  private readonly whole: Intl.NumberFormat;
  private readonly short: Intl.NumberFormat;
  private readonly moment_: Intl.DateTimeFormat;
  private readonly clock_: Intl.DateTimeFormat;
  private readonly hour_: Intl.DateTimeFormat;
  private readonly day_: Intl.DateTimeFormat;

  constructor(readonly language: Language) {
    const locale = language === "zh" ? "zh-CN" : "en-GB";
    this.whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
    this.short = new Intl.NumberFormat(locale, { maximumSignificantDigits: 3 });
    const time = { hour: "2-digit", minute: "2-digit", second: "2-digit" } as const;
    this.moment_ = new Intl.DateTimeFormat(locale, {
      year: "numeric",
      month: "short",
      day: "numeric",
      ...time,
      hourCycle: "h23",
    });
    this.clock_ = new Intl.DateTimeFormat(locale, { ...time, hourCycle: "h23" });
    this.hour_ = new Intl.DateTimeFormat(locale, {
      hour: "2-digit",
      minute: "2-digit",
      hourCycle: "h23",
    });
    this.day_ = new Intl.DateTimeFormat(locale, {
      weekday: "short",
      day: "numeric",
      month: "short",
      timeZone: "UTC",
    });
  }

  /** A date such as "2026-11-18", with its weekday. */
  day(date: string): string {
    return this.day_.format(new Date(`${date}T00:00:00Z`));
  }

  /** A count; the API counts to 10,000 and says 10,001 for more. */
  count(value: number | null | undefined): string {
    if (value === null || value === undefined) return "–";
    return value === 10_001 ? `${this.whole.format(10_000)}+` : this.whole.format(value);
  }

  number(value: number | null | undefined): string {
    return value === null || value === undefined ? "–" : this.whole.format(value);
  }

  /** A rate or a measure with three digits. */
  measure(value: number | null | undefined): string {
    if (value === null || value === undefined) return "–";
    return Math.abs(value) >= 100 ? this.whole.format(value) : this.short.format(value);
  }

  percent(value: number | null | undefined): string {
    if (value === null || value === undefined) return "–";
    // Only what is finished is shown as 100.
    const shown = value < 100 ? Math.min(value, 99.9) : value;
    return `${shown.toFixed(shown >= 100 || shown === 0 ? 0 : 1)} %`;
  }

  milliseconds(value: number | null | undefined): string {
    if (value === null || value === undefined) return "–";
    return value < 1_000 ? `${this.short.format(value)}${this.units.ms}` : this.span(value / 1_000);
  }

  /** A span of time: its two largest units. */
  span(seconds: number | null | undefined): string {
    if (seconds === null || seconds === undefined) return "–";
    const { units } = this;
    const all = Math.max(0, seconds);
    if (all > 0 && all < 1) return `${Math.max(1, Math.round(all * 1_000))}${units.ms}`;
    if (all < 10 && !Number.isInteger(all)) return `${all.toFixed(1)}${units.s}`;
    const rest = Math.round(all);
    const day = Math.floor(rest / DAY);
    const hour = Math.floor((rest % DAY) / HOUR);
    const minute = Math.floor((rest % HOUR) / MINUTE);
    const second = rest % MINUTE;
    if (day >= 10) return `${this.number(day)}${units.d}`;
    if (day > 0) return this.two(day, units.d, hour, units.h);
    if (hour > 0) return this.two(hour, units.h, minute, units.m);
    if (minute > 0) return this.two(minute, units.m, second, units.s);
    return `${second}${units.s}`;
  }

  /** Things one after the other. */
  list(parts: readonly string[]): string {
    return parts.join(this.language === "zh" ? "、" : ", ");
  }

  /** How long ago, or in how long. */
  relative(moment: string | number | null | undefined, now: number): string {
    if (moment === null || moment === undefined) return "–";
    const seconds = (toMilliseconds(moment) - now) / 1_000;
    const words = RELATIVE[this.language];
    if (Math.abs(seconds) < 1.5) return words.now;
    const span = this.span(Math.round(Math.abs(seconds)));
    return seconds < 0 ? words.ago(span) : words.in(span);
  }

  /** A moment in the user's time zone. */
  moment(moment: string | null | undefined): string {
    return moment ? this.moment_.format(new Date(moment)) : "–";
  }

  clock(moment: string | number): string {
    return this.clock_.format(new Date(moment));
  }

  hour(moment: string | number): string {
    return this.hour_.format(new Date(moment));
  }

  /** The time of day if the moment is near, else date and time. */
  near(moment: string | number, now = Date.now()): string {
    const away = Math.abs(toMilliseconds(moment) - now) / 1_000;
    return away < 12 * HOUR ? this.hour(moment) : this.moment_.format(new Date(moment));
  }

  private get units() {
    return UNITS[this.language];
  }

  private two(large: number, largeUnit: string, small: number, smallUnit: string): string {
    const first = `${large}${largeUnit}`;
    return small === 0 ? first : `${first}${this.units.join}${small}${smallUnit}`;
  }
}

export function toMilliseconds(moment: string | number): number {
  return typeof moment === "number" ? moment : Date.parse(moment);
}

/** JSON with indentation; other text stays as it is. */
export function prettyJson(text: string): string {
  try {
    // JavaScript would round large numbers, so such a text is shown as it came.
    if (/\d{16,}/.test(text)) return text;
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
