/** Changing a flow run: add nodes, add and remove edges, as long as the nodes have not started. */
import { useState } from "react";
import { post } from "../../../api/client";
import type { Post } from "../../../api/path";
import { useAsk } from "../../../part/ask";
import { Button, Card, Note } from "../../../part/basic";
import { Graph } from "../../../part/picture/graph";
import { circleIn, type Edge } from "../../../part/picture/graph-shape";
import { useText } from "../../../text";
import { above, isSame, kwargsOf, newNode, type DraftNode, type Trigger } from "../editor/draft";
import type { Detail } from ".";
import { useGraphNodes } from "./graph-node";
import { NodeForm } from "../editor/node-form";
import { Palette, useUsable } from "../editor/palette";

export interface Changes {
  readonly add: readonly DraftNode[];
  readonly link: readonly Edge[];
  readonly unlink: readonly Edge[];
}

export const NO_CHANGES: Changes = { add: [], link: [], unlink: [] };

/** The changes after drawing an edge; an edge marked for removal is kept instead. */
export function linked(changes: Changes, edges: readonly Edge[], edge: Edge): Changes {
  if (changes.unlink.some((each) => isSame(each, edge)))
    return { ...changes, unlink: changes.unlink.filter((each) => !isSame(each, edge)) };
  const isThere = [...edges, ...changes.link].some((each) => isSame(each, edge));
  return isThere || edge[0] === edge[1] ? changes : { ...changes, link: [...changes.link, edge] };
}

/** The changes after removing an edge; a new edge is just dropped. */
export function unlinked(changes: Changes, edge: Edge): Changes {
  const isNew = changes.link.some((each) => isSame(each, edge));
  if (isNew) return { ...changes, link: changes.link.filter((each) => !isSame(each, edge)) };
  return { ...changes, unlink: [...changes.unlink, edge] };
}

/** The body to send: edges to new nodes become their `after`. */
export function bodyOf(changes: Changes): Post["flows/{number}/edit"]["body"] {
  const isNew = (name: string) => changes.add.some((node) => node.name === name);
  return {
    add: changes.add.map((node) => ({
      name: node.name,
      kind: node.kind,
      kwargs: kwargsOf(node.kwargs) ?? {},
      after: changes.link.filter(([, to]) => to === node.name).map(([from]) => from),
      trigger: node.trigger as Trigger,
      ...(node.when.trim() === "" ? {} : { when: node.when.trim() }),
    })),
    link: changes.link.filter(([, to]) => !isNew(to)),
    unlink: changes.unlink,
  };
}

export function RunChange({ data, onDone }: { data: Detail; onDone: () => void }) {
  const { t } = useText();
  const usable = useUsable();
  const shown = useGraphNodes(data.nodes);
  const [changes, setChanges] = useState(NO_CHANGES);
  const [selected, setSelected] = useState<string | null>(null);
  const open = new Set(data.nodes.filter((node) => node.status === "blocked").map((n) => n.name));
  const node = changes.add.find((each) => each.name === selected);
  const edges = [
    ...data.edges.filter((edge) => !changes.unlink.some((each) => isSame(each, edge))),
    ...changes.link,
  ];
  const names = [...data.nodes, ...changes.add].map((each) => each.name);
  const circle = circleIn(names, edges);
  const rename = (before: string, change: Partial<DraftNode>) => {
    const now = change.name ?? before;
    const renamed = (each: string) => (each === before ? now : each);
    setChanges((all) => ({
      ...all,
      add: all.add.map((each) => (each.name === before ? { ...each, ...change } : each)),
      link: all.link.map(([from, to]): Edge => [renamed(from), renamed(to)]),
    }));
    setSelected(now);
  };
  return (
    <>
      <Note tone="calm">{t.flow.changeHint}</Note>
      <div className="editor">
        <Card>
          <Palette
            usable={usable}
            onAdd={(kind) => {
              const made = newNode(names, kind);
              setChanges((all) => ({ ...all, add: [...all.add, made] }));
              setSelected(made.name);
            }}
          />
          <Graph
            label={t.flow.graph}
            nodes={[
              ...shown.map((each) => ({ ...each, isFixed: !open.has(each.name) })),
              ...changes.add.map((each) => ({ name: each.name, kind: each.kind, isNew: true })),
            ]}
            edges={edges}
            inside={data.inside}
            selected={selected}
            onSelect={setSelected}
            onConnect={(edge) => setChanges((all) => linked(all, data.edges, edge))}
            onDisconnect={(edge) => {
              const isOpen = open.has(edge[1]) || changes.add.some((each) => each.name === edge[1]);
              if (isOpen) setChanges((all) => unlinked(all, edge));
            }}
          />
        </Card>
        <div className="side-column">
          <Pending
            run={data.run.id}
            changes={changes}
            problem={circle.length > 0 ? t.flow.circle([...circle, circle[0]].join(" → ")) : ""}
            onDone={onDone}
          />
          {node && (
            <NodeForm
              key={changes.add.indexOf(node)}
              node={node}
              takes={usable.find((each) => each.kind === node.kind)?.takes ?? []}
              above={above(edges, node.name)}
              hasStart={false}
              onChange={(change) => rename(node.name, change)}
              onRemove={() => {
                setChanges((all) => ({
                  ...all,
                  add: all.add.filter((each) => each.name !== node.name),
                  link: all.link.filter((edge) => !edge.includes(node.name)),
                }));
                setSelected(null);
              }}
            />
          )}
        </div>
      </div>
    </>
  );
}

interface PendingProps {
  run: number;
  changes: Changes;
  problem: string;
  onDone: () => void;
}

function Pending({ run, changes, problem, onDone }: PendingProps) {
  const { t } = useText();
  const action = useAsk();
  const isEmpty = changes.add.length + changes.link.length + changes.unlink.length === 0;
  const apply = async () => {
    const done = await action.ask(
      { title: t.flow.applyTitle(run), text: t.flow.applyText, action: t.flow.apply },
      () => post("flows/{number}/edit", { params: { number: run }, body: bodyOf(changes) }),
      () => t.flow.applied(run),
    );
    if (done) onDone();
  };
  return (
    <Card title={t.flow.changes}>
      {isEmpty && <p className="faint">{t.flow.noChanges}</p>}
      <ul className="pending">
        {changes.add.map((node) => (
          <li key={`add ${node.name}`}>{t.flow.willAdd(node.name)}</li>
        ))}
        {changes.link.map(([from, to]) => (
          <li key={`link ${from} ${to}`}>{t.flow.willLink(to, from)}</li>
        ))}
        {changes.unlink.map(([from, to]) => (
          <li key={`unlink ${from} ${to}`}>{t.flow.willUnlink(to, from)}</li>
        ))}
      </ul>
      {(problem || action.problem) && <Note tone="bad">{problem || action.problem}</Note>}
      <div className="panel-actions">
        <Button onClick={onDone}>{isEmpty ? t.common.keep : t.flow.discard}</Button>
        <Button
          look="main"
          disabled={isEmpty || problem !== ""}
          isBusy={action.isBusy}
          onClick={() => void apply()}
        >
          {t.flow.apply}
        </Button>
      </div>
    </Card>
  );
}
