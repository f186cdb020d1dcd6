// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Problem } from "../../src/api/client";
import type { Resource } from "../../src/data/hook";
import { Plain } from "../../src/part/basic";
import { Empty, Faces } from "../../src/part/faces";
import { Table } from "../../src/part/table";
import { TextProvider } from "../../src/text";

afterEach(cleanup);

function show(resource: Partial<Resource<string[]>>) {
  const whole = {
    data: undefined,
    problem: undefined,
    isBusy: false,
    reload: vi.fn(),
    ...resource,
  };
  render(
    <TextProvider>
      <Faces
        resource={whole}
        isEmpty={(rows) => rows.length === 0}
        empty={<Empty title="No tasks">Enqueue one.</Empty>}
      >
        {(rows) => (
          <Table
            label="Tasks"
            columns={[{ label: "Row", render: (row: string) => row }]}
            rows={rows}
            rowKey={(row) => row}
          />
        )}
      </Faces>
    </TextProvider>,
  );
  return whole;
}

describe("a list", () => {
  it("has a loading face", () => {
    show({ isBusy: true });
    expect(screen.getByRole("status", { name: "Loading" })).toBeTruthy();
  });

  it("has an empty face that says what to do", () => {
    show({ data: [] });
    expect(screen.getByText("Enqueue one.")).toBeTruthy();
  });

  it("has an error face that says what happened, and tries again", () => {
    const { reload } = show({ problem: new Problem(503, "Down", "the database does not answer") });
    expect(screen.getByRole("alert").textContent).toContain("the database does not answer");
    fireEvent.click(screen.getByRole("button", { name: "Try again" }));
    expect(reload).toHaveBeenCalledOnce();
  });

  it("has a full face, which stays when reading again fails", () => {
    show({ data: ["one", "two"], problem: new Problem(0, "Unreachable", "") });
    expect(screen.getAllByRole("row")).toHaveLength(3);
    expect(screen.getByRole("alert").textContent).toContain("not up to date");
  });
});

describe("text from users", () => {
  it("is shown as text", () => {
    const evil = "<img src=x onerror=alert(1)>";
    const { container } = render(<Plain text={evil} />);
    expect(container.querySelector("img")).toBeNull();
    expect(screen.getByText(evil)).toBeTruthy();
  });
});
