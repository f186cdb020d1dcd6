/** The nodes of a run as a list, by name and state: also of a run that is too large to be drawn. */
import type { FlowNodeOut, FlowNodePage } from "../../../api/model";
import { useLive, useNow } from "../../../data/hook";
import { Pager, Search, Select } from "../../../part/control";
import { Empty, Faces } from "../../../part/faces";
import { Status } from "../../../part/status";
import { Table, type Column } from "../../../part/table";
import { pathOf, queryOf } from "../../../route/address";
import { useQuery } from "../../../route/router";
import { useText } from "../../../text";
import { secondsOf } from "../progress";

const STATUSES = [
  "failed",
  "running",
  "external",
  "waiting",
  "blocked",
  "succeeded",
  "cancelled",
] as const;

export function NodeTable({ run }: { run: number }) {
  const { t, f } = useText();
  const [query, change] = useQuery();
  const now = useNow();
  const { status, prefix, after } = query;
  const path = pathOf("flows", run, "nodes") + queryOf({ status, prefix, after, limit: 50 });
  const resource = useLive<FlowNodePage>(path, ["flows", "tasks"], 5);
  const columns: readonly Column<FlowNodeOut>[] = [
    {
      name: "name",
      label: t.flow.name,
      isWide: true,
      render: (node) => (
        <span className="stack">
          <button
            type="button"
            className="as-link name"
            onClick={() => change({ node: node.name })}
          >
            {node.name}
          </button>
          {node.error && <small className="clip">{node.error}</small>}
        </span>
      ),
    },
    {
      name: "kind",
      label: t.field.kind,
      isExtra: true,
      render: (node) => <span className="name">{node.kind}</span>,
    },
    { name: "status", label: t.field.status, render: (node) => <Status status={node.status} /> },
    {
      name: "slots",
      label: t.flow.slotsName,
      isNumber: true,
      isExtra: true,
      render: (node) =>
        node.status === "blocked" ? t.flow.slots(node.open_slots, node.slots) : "–",
    },
    {
      name: "took",
      label: t.flow.took,
      isNumber: true,
      render: (node) => f.span(secondsOf(node, now)),
    },
  ];
  return (
    <>
      <div className="filter-row in-card">
        <Search
          label={t.flow.findNode}
          value={prefix ?? ""}
          onSearch={(text) => change({ prefix: text, after: null })}
        />
        <Select
          label={t.field.status}
          value={status ?? ""}
          choices={[
            { value: "", label: t.common.all },
            ...STATUSES.map((value) => ({ value: value as string, label: t.status[value] })),
          ]}
          onChoose={(value) => change({ status: value, after: null })}
        />
      </div>
      <Faces
        resource={resource}
        isEmpty={(page) => page.items.length === 0}
        empty={<Empty title={t.flow.noNodes}>{t.flow.noNodesText}</Empty>}
      >
        {(page) => (
          <Table
            label={t.flow.nodes}
            columns={columns}
            rows={page.items}
            rowKey={(node) => node.id}
            tone={(node) => (node.name === query.node ? "chosen" : undefined)}
          />
        )}
      </Faces>
      <Pager next={resource.data?.next ?? null} />
    </>
  );
}
