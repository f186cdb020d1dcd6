import { describe, expect, it } from "vitest";
import { en } from "../../src/text/en";
import { zh } from "../../src/text/zh";

/** Every leaf of a dictionary, by its path. */
function leaves(value: unknown, path = ""): [string, unknown][] {
  if (typeof value !== "object" || value === null) return [[path, value]];
  return Object.entries(value).flatMap(([key, each]) => leaves(each, `${path}.${key}`));
}

describe("the dictionaries", () => {
  it("have the same keys", () => {
    expect(
      leaves(zh)
        .map(([path]) => path)
        .sort(),
    ).toEqual(
      leaves(en)
        .map(([path]) => path)
        .sort(),
    );
  });

  it("leave nothing empty", () => {
    for (const [path, leaf] of [...leaves(en), ...leaves(zh)]) {
      expect(leaf === "" ? path : "").toBe("");
    }
  });

  it("take the same number of arguments", () => {
    const other = new Map(leaves(zh));
    for (const [path, leaf] of leaves(en)) {
      if (typeof leaf !== "function") continue;
      const translated = other.get(path);
      expect(typeof translated, path).toBe("function");
      expect((translated as { length: number }).length, path).toBeLessThanOrEqual(leaf.length);
    }
  });

  it("are translated: Chinese has Chinese in it", () => {
    const alike = leaves(zh).filter(
      ([, leaf]) => typeof leaf === "string" && !/[\u4e00-\u9fff]/.test(leaf),
    );
    expect(alike).toEqual([]);
  });
});
