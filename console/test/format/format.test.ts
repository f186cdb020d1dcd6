import { describe, expect, it } from "vitest";
import { Format, prettyJson } from "../../src/format/format";

const en = new Format("en");
const zh = new Format("zh");

describe("numbers", () => {
  it("are grouped, and an unknown one is a dash", () => {
    expect(en.number(1234567)).toBe("1,234,567");
    expect(en.number(null)).toBe("–");
  });

  it("above the limit of the API are shown as more", () => {
    expect(en.count(10_001)).toBe("10,000+");
    expect(en.count(10_000)).toBe("10,000");
  });

  it("never say 100 % before the end", () => {
    expect(en.percent(99.99)).toBe("99.9 %");
    expect(en.percent(100)).toBe("100 %");
    expect(en.percent(0)).toBe("0 %");
  });

  it("of rates have three digits", () => {
    expect(en.measure(6.66666)).toBe("6.67");
    expect(en.measure(1234.5)).toBe("1,235");
  });
});

describe("spans of time", () => {
  it.each([
    [0.0123, "12 ms"],
    [1.25, "1.3s"],
    [59.6, "1m"],
    [62, "1m 2s"],
    [3_600, "1h"],
    [3_660, "1h 1m"],
    [90_000, "1d 1h"],
    [864_000, "10d"],
  ])("%f seconds are %s", (seconds, text) => {
    expect(en.span(seconds)).toBe(text);
  });

  it("are formatted in Chinese too", () => {
    expect(zh.span(62)).toBe("1 分 2 秒");
  });
});

describe("moments", () => {
  const now = Date.parse("2026-11-16T12:00:00Z");

  it("are relative to now", () => {
    expect(en.relative("2026-11-16T11:58:00Z", now)).toBe("2m ago");
    expect(en.relative("2026-11-16T12:00:30Z", now)).toBe("in 30s");
    expect(en.relative("2026-11-16T12:00:00.5Z", now)).toBe("just now");
    expect(zh.relative("2026-11-16T11:58:00Z", now)).toBe("2 分前");
    expect(en.relative(null, now)).toBe("–");
  });
});

it("a near moment has no date", () => {
  const noon = new Date(2026, 10, 16, 12, 3).getTime();
  expect(new Format("en").near(noon, noon + 3_600_000)).toBe("12:03");
  expect(new Format("en").near(noon, noon + 86_400_000)).toContain("16 Nov 2026");
});

describe("JSON", () => {
  it("is indented", () => {
    expect(prettyJson('{"a":1}')).toBe('{\n  "a": 1\n}');
  });

  it("keeps numbers that a browser cannot hold", () => {
    expect(prettyJson('{"id":12345678901234567890}')).toBe('{"id":12345678901234567890}');
  });

  it("is left alone if it is not JSON", () => {
    expect(prettyJson("<b>")).toBe("<b>");
  });
});
