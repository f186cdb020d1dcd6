// @vitest-environment jsdom
import { afterEach, expect, it } from "vitest";
import { EMPTY, withNode } from "../../../src/page/flow/editor/draft";
import { dropDraft, keepDraft, keptDraft } from "../../../src/page/flow/editor/kept";

const drawn = withNode(EMPTY, "fetch");

afterEach(() => localStorage.clear());

it("keeps one draft for each template", () => {
  keepDraft("evening", { at: 7, name: "evening", draft: drawn });
  expect(keptDraft("evening", EMPTY)).toEqual({ at: 7, name: "evening", draft: drawn });
  expect(keptDraft("morning", EMPTY)).toBeNull();
  dropDraft("evening");
  expect(keptDraft("evening", EMPTY)).toBeNull();
});

it("does not offer a draft that is saved already, or cannot be read", () => {
  keepDraft("evening", { at: 7, name: "evening", draft: drawn });
  expect(keptDraft("evening", withNode(EMPTY, "fetch"))).toBeNull();
  const [place = ""] = Object.keys(localStorage);
  for (const broken of ["{", "null", '{"at": 7}', '{"at": 7, "name": "x", "draft": {}}']) {
    localStorage.setItem(place, broken);
    expect(keptDraft("evening", EMPTY)).toBeNull();
  }
});
