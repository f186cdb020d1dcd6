/** Drawing a template: nodes of declared kinds, edges, arguments; save it as a version, start it. */
import { useState, type FormEvent } from "react";
import { post } from "../../api/client";
import type { TemplateOut } from "../../api/flow";
import type { KindOut } from "../../api/model";
import { useLive } from "../../data/hook";
import { Button, Card, Note, Page } from "../../part/basic";
import { Dialog } from "../../part/dialog";
import { Faces } from "../../part/faces";
import { Graph } from "../../part/graph";
import { useAction } from "../../part/toast";
import { pathOf } from "../../route/address";
import { navigate } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import {
  draftOf,
  EMPTY,
  problemsOf,
  specOf,
  withChange,
  withEdge,
  withNode,
  withoutEdge,
  withoutNode,
  type Draft,
} from "./draft";
import { NodeForm } from "./node-form";

export function TemplatePage({ name }: { name: string }) {
  if (name === "") return <Editor name="" first={EMPTY} version={0} />;
  return <Saved name={name} />;
}

function Saved({ name }: { name: string }) {
  const { t } = useText();
  const resource = useLive<TemplateOut>(pathOf("templates", name), []);
  if (resource.data) {
    const { spec, version } = resource.data;
    return <Editor key={version} name={name} first={draftOf(spec)} version={version} />;
  }
  return (
    <Page title={name} up={{ to: "flows?tab=templates", label: t.flow.templates }}>
      <Faces resource={resource}>{() => null}</Faces>
    </Page>
  );
}

interface EditorProps {
  name: string;
  first: Draft;
  version: number;
}

function Editor({ name: firstName, first, version }: EditorProps) {
  const { t, f } = useText();
  const { canAct } = useSession();
  const action = useAction();
  const [name, setName] = useState(firstName);
  const [draft, setDraft] = useState(first);
  const [selected, setSelected] = useState<string | null>(null);
  const [isStarting, setStarting] = useState(false);
  const problems = problemsOf(draft, t.flow);
  const node = draft.nodes.find((each) => each.name === selected);
  const isChanged = draft !== first || name !== firstName;

  const save = async () => {
    const saved = await action.run(
      () => post<TemplateOut>(pathOf("templates", name), specOf(draft)),
      (done) => t.flow.saved(done.name, f.number(done.version)),
    );
    if (saved && firstName === "")
      navigate(pathOf("flows", "template", saved.name), { replace: true });
  };

  return (
    <Page
      up={{ to: "flows?tab=templates", label: t.flow.templates }}
      title={firstName || t.flow.newTemplate}
      lead={version > 0 ? t.flow.version(f.number(version)) : t.flow.addEdge}
      actions={
        canAct && (
          <>
            <Button
              disabled={problems.length > 0 || name.trim() === "" || !isChanged}
              isBusy={action.isBusy}
              onClick={() => void save()}
            >
              {t.flow.save}
            </Button>
            {firstName !== "" && (
              <Button
                icon="play"
                look="main"
                disabled={isChanged}
                onClick={() => setStarting(true)}
              >
                {t.flow.start}
              </Button>
            )}
          </>
        )
      }
    >
      <div className="editor">
        <Card>
          <Palette onAdd={(kind) => setDraft((before) => withNode(before, kind))} />
          <Graph
            label={t.flow.graph}
            nodes={draft.nodes.map((each) => ({ name: each.name, kind: each.kind }))}
            edges={draft.edges}
            selected={selected}
            onSelect={setSelected}
            onConnect={(edge) => setDraft((before) => withEdge(before, edge))}
            onDisconnect={(edge) => setDraft((before) => withoutEdge(before, edge))}
          />
        </Card>
        <div className="side-column">
          <Card title={t.flow.template}>
            <label className="field">
              <span>{t.flow.name}</span>
              <input
                value={name}
                maxLength={100}
                disabled={firstName !== ""}
                onChange={(event) => setName(event.target.value)}
              />
            </label>
            <ul className="problems">
              {problems.map((problem) => (
                <li key={problem}>{problem}</li>
              ))}
            </ul>
          </Card>
          {node ? (
            <NodeForm
              key={draft.nodes.indexOf(node)}
              node={node}
              onChange={(change) => {
                setDraft((before) => withChange(before, node.name, change));
                if (change.name !== undefined) setSelected(change.name);
              }}
              onRemove={() => {
                setDraft((before) => withoutNode(before, node.name));
                setSelected(null);
              }}
            />
          ) : (
            <Card title={t.flow.node}>
              <p className="faint">{t.flow.addEdge}</p>
            </Card>
          )}
        </div>
      </div>
      {isStarting && <StartDialog name={firstName} onClose={() => setStarting(false)} />}
    </Page>
  );
}

function Palette({ onAdd }: { onAdd: (kind: string) => void }) {
  const { t } = useText();
  const kinds = useLive<readonly KindOut[]>("kinds", []);
  const usable = kinds.data?.filter((kind) => kind.family === "task") ?? [];
  const [chosen, setChosen] = useState("");
  const kind = chosen || (usable[0]?.kind ?? "");
  return (
    <div className="filter-row palette">
      <label className="select">
        <span>{t.field.kind}</span>
        <select value={kind} onChange={(event) => setChosen(event.target.value)}>
          {usable.map((each) => (
            <option key={each.kind}>{each.kind}</option>
          ))}
        </select>
      </label>
      <Button icon="plus" disabled={kind === ""} onClick={() => onAdd(kind)}>
        {t.flow.add}
      </Button>
    </div>
  );
}

function StartDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const { t } = useText();
  const action = useAction();
  const [text, setText] = useState("{}");
  const [problem, setProblem] = useState("");
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    let given: unknown;
    try {
      given = JSON.parse(text);
    } catch {
      setProblem(t.flow.badJson(name));
      return;
    }
    const run = await action.run(
      () => post<{ id: number }>(pathOf("templates", name, "start"), { arguments: given }),
      (done) => t.flow.started(done.id),
    );
    if (run) navigate(pathOf("flows", run.id));
  };
  return (
    <Dialog title={t.flow.startTitle(name)} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <label className="field">
          <span>{t.flow.arguments}</span>
          <textarea rows={6} value={text} onChange={(event) => setText(event.target.value)} />
          {problem && <small className="text-bad">{problem}</small>}
        </label>
        {action.problem && <Note tone="bad">{action.problem}</Note>}
        <div className="dialog-actions">
          <Button onClick={onClose}>{t.common.keep}</Button>
          <Button type="submit" look="main" isBusy={action.isBusy}>
            {t.flow.start}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
