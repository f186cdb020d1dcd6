import { afterEach, expect, expectTypeOf, it, vi } from "vitest";
import { addressOf, type Answer, type Row } from "../../src/api/call";
import { get, post } from "../../src/api/client";
import { useLive } from "../../src/data/hook";

afterEach(() => void vi.unstubAllGlobals());

it("fills the parameters of a path in, whatever characters they have, and adds the query", () => {
  const params = { kind: "a/b ?中" };
  expect(addressOf("sweeps/{kind}/rounds", { params, query: { limit: 5 } })).toBe(
    "sweeps/a%2Fb%20%3F%E4%B8%AD/rounds?limit=5",
  );
});

it("repeats a query's name for each value of a list, and leaves out what is empty", () => {
  const query = { status: ["failed", "ready"], name: "", after: null };
  expect(addressOf("control", { query })).toBe("control?status=failed&status=ready");
});

it("sends the body to the address of the path", async () => {
  const sent: [string, RequestInit][] = [];
  vi.stubGlobal("document", { baseURI: "http://here/ops/" });
  vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
    sent.push([url, init]);
    return Promise.resolve(new Response("{}"));
  });

  await post("sweeps/{kind}/split", { params: { kind: "offer" }, body: { ranges: 60 } });

  expect(sent[0]?.[0]).toBe("http://here/ops/api/sweeps/offer/split");
  expect(sent[0]?.[1].body).toBe('{"ranges":60}');
});

// These are never run: the compiler reads them, and fails if one of them becomes right.
export function useWrongCalls() {
  const params = { kind: "offer" };
  // @ts-expect-error there is no such path
  void get("sweep");
  // @ts-expect-error this path can only be read
  void post("sweeps/{kind}/audit", { params });
  // @ts-expect-error a parameter is missing
  void get("sweeps/{kind}");
  // @ts-expect-error the parameter has another name
  void get("sweeps/{kind}", { params: { name: "offer" } });
  // @ts-expect-error the query has no such field
  void get("sweeps/{kind}/rounds", { params, query: { most: 5 } });
  // @ts-expect-error the query has no such value
  void get("flows", { query: { status: "paused" } });
  // @ts-expect-error the body is missing
  void post("sweeps/{kind}/split", { params });
  // @ts-expect-error the body has no such field
  void post("sweeps/{kind}/split", { params, body: { pieces: 60 } });
  // @ts-expect-error the field has another type
  void post("sweeps/{kind}/split", { params, body: { ranges: "60" } });
  // @ts-expect-error there is no such path
  useLive("sweeps/{name}", { params: { name: "offer" } });
  // @ts-expect-error there is no such topic
  useLive("sweeps", { topics: ["sweep"] });
  // @ts-expect-error the answer has no such field
  void get("sweeps/{kind}", { params }).then((sweep) => sweep.name);
}

it("has the types of the API's answers", () => {
  expectTypeOf<Answer<"sweeps/{kind}">["ranges"][number]["breakpoint"]>().toEqualTypeOf<
    string | null
  >();
  expectTypeOf<Row<"tasks">>().toEqualTypeOf<Answer<"tasks">["items"][number]>();
  expectTypeOf<Row<"kinds">["kind"]>().toEqualTypeOf<string>();
});
