// @vitest-environment jsdom
import { cleanup, render, screen, within } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { WindowDays, WindowStrip } from "../../../src/part/picture/window";
import {
  beginsWeek,
  hoursOf,
  isWeekend,
  isWhole,
  nowPart,
  openParts,
  type Ahead,
} from "../../../src/part/picture/window-shape";
import { TextProvider } from "../../../src/text";

const night = [{ begin: 60, end: 420 }];
const ahead: Ahead = {
  zone: "Asia/Shanghai",
  now: 720,
  is_open: false,
  opens_at: "2026-11-18T17:00:00Z",
  days: [
    { date: "2026-11-20", open: night },
    { date: "2026-11-21", open: [] },
    { date: "2026-11-22", open: [{ begin: 0, end: 1_440 }] },
    { date: "2026-11-23", open: [...night, { begin: 1_320, end: 1_440 }] },
  ],
};

function show(picture: React.ReactNode) {
  render(<TextProvider>{picture}</TextProvider>);
}

afterEach(() => {
  cleanup();
  localStorage.clear();
});

it("knows where a day is open, and where now is", () => {
  const [friday, saturday, sunday, monday] = ahead.days;
  if (!friday || !saturday || !sunday || !monday) throw new Error("four days");

  expect(openParts(friday)).toEqual([{ from: 60 / 1_440, to: 420 / 1_440 }]);
  expect(hoursOf(monday)).toBe("01:00–07:00, 22:00–24:00");
  expect([friday, saturday, sunday].map(isWeekend)).toEqual([false, true, true]);
  expect([isWhole(sunday), isWhole(monday), beginsWeek(monday)]).toEqual([true, false, true]);
  expect(nowPart(ahead)).toBe(0.5);
  expect(nowPart({ ...ahead, now: 2_000 })).toBe(1);
});

it("draws a column for each day, and says in words what it shows", () => {
  show(<WindowStrip ahead={ahead} />);

  const strip = screen.getByRole("img", {
    name: "Open on 3 of the next 4 days (Asia/Shanghai)",
  });
  expect(strip.querySelectorAll("rect.closed")).toHaveLength(4);
  expect(strip.querySelectorAll("rect.open")).toHaveLength(4);
  expect(strip.querySelectorAll("line.now")).toHaveLength(1);
  expect([...strip.querySelectorAll("title")].map((each) => each.textContent)).toEqual(
    [
      "Fri 20 Nov: 01:00–07:00",
      "Sat 21 Nov: closed",
      "Sun 22 Nov: all day",
      "Mon 23 Nov: 01:00–07:00, 22:00–24:00",
    ].map((text) => expect.stringMatching(text.replace(" ", ",? "))),
  );
});

it("lists the days with their hours", () => {
  show(<WindowDays ahead={ahead} />);

  const list = screen.getByRole("list", { name: "The next two weeks" });
  const days = within(list).getAllByRole("listitem");
  expect(days.map((day) => day.querySelector(".hours")?.textContent)).toEqual([
    "01:00–07:00",
    "closed",
    "all day",
    "01:00–07:00, 22:00–24:00",
  ]);
  expect(days[0]?.textContent).toContain("today");
  expect(days[0]?.querySelectorAll(".now")).toHaveLength(1);
  expect(days[1]?.querySelectorAll(".now")).toHaveLength(0);
  expect(screen.getByText("Times in Asia/Shanghai.")).toBeDefined();
});

it("speaks Chinese", () => {
  localStorage.setItem("windlass.language", "zh");
  show(<WindowDays ahead={ahead} />);

  expect(screen.getByText("今天")).toBeDefined();
  expect(screen.getByText("关闭")).toBeDefined();
});
