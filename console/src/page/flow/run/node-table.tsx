/** The nodes of a flow run as a list, by name and status; it works for runs too large to draw. */
import { useLive, useNow } from "../../../data/hook";
import { Filter, Find, Pager } from "../../../part/control";
import { Empty, Faces } from "../../../part/faces";
import { Status } from "../../../part/status";
import { Table, type Column } from "../../../part/table";
import { oneOf } from "../../../route/address";
import { useQuery } from "../../../route/router";
import { useText } from "../../../text";
import { secondsOf, type FlowNode } from "../progress";

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
  const resource = useLive("flows/{number}/nodes", {
    params: { number: run },
    query: { status: oneOf(STATUSES, status), prefix, after, limit: 50 },
    topics: ["flows", "tasks"],
    seconds: 5,
  });
  const columns: readonly Column<FlowNode>[] = [
    {
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
      label: t.field.kind,
      isExtra: true,
      render: (node) => <span className="name">{node.kind}</span>,
    },
    { label: t.field.status, render: (node) => <Status status={node.status} /> },
    {
      label: t.flow.slotsName,
      isNumber: true,
      isExtra: true,
      render: (node) =>
        node.status === "blocked" ? t.flow.slots(node.open_slots, node.slots) : "–",
    },
    { label: t.flow.took, isNumber: true, render: (node) => f.span(secondsOf(node, now)) },
  ];
  return (
    <>
      <div className="filter-row in-card">
        <Find name="prefix" label={t.flow.findNode} />
        <Filter isSelect name="status" label={t.field.status} values={STATUSES} words={t.status} />
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
