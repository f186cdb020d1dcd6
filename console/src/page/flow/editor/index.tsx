/** The template editor: draw nodes and edges, set arguments, save a version, start it. */
import { useEffect, useMemo, useRef, useState } from "react";
import { post, problemOf } from "../../../api/client";
import { useLive } from "../../../data/hook";
import { Button, Card, Note, Page } from "../../../part/basic";
import { Select } from "../../../part/control";
import { Faces } from "../../../part/faces";
import { Graph } from "../../../part/picture/graph";
import { useConfirm } from "../../../part/dialog";
import { useAction } from "../../../part/toast";
import { pathOf } from "../../../route/address";
import { navigate, setGuard, useQuery } from "../../../route/router";
import { useSession } from "../../../shell/session";
import { useText } from "../../../text";
import {
  above,
  draftOf,
  EMPTY,
  isEqual,
  problemsOf,
  specOf,
  withChange,
  withEdge,
  withNode,
  withoutEdge,
  withoutNode,
  type Draft,
  type Spec,
} from "./draft";
import { TemplateExport } from "../export";
import { dropDraft, keepDraft, keptDraft, type Kept } from "./kept";
import { NodeForm } from "./node-form";
import { Palette, useUsable } from "./palette";
import { StartDialog } from "../start";

const CHECK_AFTER_MILLISECONDS = 500;

export function TemplatePage({ name }: { name: string }) {
  if (name === "") return <Editor name="" first={EMPTY} version={0} />;
  return <Saved name={name} />;
}

function Saved({ name }: { name: string }) {
  const { t } = useText();
  const [{ version: asked }] = useQuery();
  const resource = useLive("templates/{name}", { params: { name }, query: { version: asked } });
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
  const usable = useUsable();
  const [name, setName] = useState(firstName);
  // Reading the template again gives a new object, though nothing has changed.
  const [saved] = useState(first);
  const [draft, setDraft] = useState(saved);
  const [selected, setSelected] = useState<string | null>(null);
  const [dialog, setDialog] = useState<"start" | "export">();
  const isChanged = !isEqual(draft, saved) || name !== firstName;
  const [kept, setKept] = useState(() => (canAct ? keptDraft(firstName, saved) : null));
  useKeeping(firstName, name, draft, isChanged && kept === null);
  useLeaving(isChanged);
  const checked = useCheck(name, draft, isChanged && canAct);
  const node = draft.nodes.find((each) => each.name === selected);
  const isReady = checked.problems.length === 0 && name.trim() !== "";

  const save = async () => {
    const done = await action.run(
      () => post("templates/{name}", { params: { name: name.trim() }, body: specOf(draft) }),
      (made) => t.flow.saved(made.name, f.number(made.version)),
    );
    if (!done) return;
    dropDraft(firstName);
    navigate(pathOf("flows", "template", done.name), { replace: true, isFree: true });
  };

  return (
    <Page
      up={{ to: "flows?tab=templates", label: t.flow.templates }}
      title={firstName || t.flow.newTemplate}
      lead={t.flow.addEdge}
      actions={
        <>
          {firstName !== "" && (
            <Button icon="copy" onClick={() => setDialog("export")}>
              {t.flow.export}
            </Button>
          )}
          {canAct && (
            <Button
              look={firstName === "" || isChanged ? "main" : "plain"}
              disabled={!isReady || !isChanged}
              isBusy={action.isBusy}
              onClick={() => void save()}
            >
              {t.flow.save}
            </Button>
          )}
          {canAct && firstName !== "" && !isChanged && (
            <Button icon="play" look="main" onClick={() => setDialog("start")}>
              {t.flow.start}
            </Button>
          )}
        </>
      }
    >
      {kept && (
        <KeptNote
          kept={kept}
          onGoOn={() => {
            setName(firstName || kept.name);
            setDraft(kept.draft);
            setSelected(null);
            setKept(null);
          }}
          onDrop={() => {
            dropDraft(firstName);
            setKept(null);
          }}
        />
      )}
      <div className="editor">
        <Card>
          {canAct && (
            <Palette
              usable={usable}
              onAdd={(kind) => {
                const next = withNode(draft, kind);
                setDraft(next);
                setSelected(next.nodes.at(-1)?.name ?? null);
              }}
            />
          )}
          <Graph
            label={t.flow.graph}
            nodes={draft.nodes.map((each) => ({ name: each.name, kind: each.kind }))}
            edges={draft.edges}
            selected={selected}
            onSelect={setSelected}
            {...(canAct
              ? {
                  onConnect: (edge) => setDraft((before) => withEdge(before, edge)),
                  onDisconnect: (edge) => setDraft((before) => withoutEdge(before, edge)),
                }
              : {})}
          />
        </Card>
        <div className="side-column">
          <Card title={t.flow.template}>
            <form onSubmit={(event) => event.preventDefault()}>
              {firstName === "" ? (
                <label className="field">
                  <span>{t.flow.name}</span>
                  <input
                    value={name}
                    maxLength={100}
                    onChange={(event) => setName(event.target.value)}
                  />
                </label>
              ) : (
                <Versions name={firstName} version={version} />
              )}
              <State checked={checked} isChanged={isChanged} />
            </form>
          </Card>
          {node ? (
            <NodeForm
              key={draft.nodes.indexOf(node)}
              node={node}
              takes={usable.find((each) => each.kind === node.kind)?.takes ?? []}
              above={above(draft.edges, node.name)}
              hasStart
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
              <p className="faint">{t.flow.pickDraft}</p>
            </Card>
          )}
        </div>
      </div>
      {dialog === "start" && <StartDialog name={firstName} onClose={() => setDialog(undefined)} />}
      {dialog === "export" && (
        <TemplateExport name={firstName} version={version} onClose={() => setDialog(undefined)} />
      )}
    </Page>
  );
}

/** Keep the draft until it is saved or unchanged again. */
function useKeeping(template: string, name: string, draft: Draft, isWanted: boolean) {
  const isKept = useRef(false);
  useEffect(() => {
    if (isWanted) keepDraft(template, { at: Date.now(), name, draft });
    else if (isKept.current) dropDraft(template);
    isKept.current = isWanted;
  }, [template, name, draft, isWanted]);
}

/** Ask before the user leaves an unsaved draft. */
function useLeaving(isChanged: boolean) {
  const { t } = useText();
  const confirm = useConfirm();
  useEffect(() => {
    if (!isChanged) return undefined;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", warn);
    setGuard((leave) => {
      const question = { title: t.flow.leaveTitle, text: t.flow.leaveText, action: t.flow.leave };
      void confirm(question).then((said) => {
        if (said !== null) leave();
      });
    });
    return () => {
      window.removeEventListener("beforeunload", warn);
      setGuard(null);
    };
  }, [isChanged, confirm, t]);
}

interface KeptNoteProps {
  kept: Kept;
  onGoOn: () => void;
  onDrop: () => void;
}

function KeptNote({ kept, onGoOn, onDrop }: KeptNoteProps) {
  const { t, f } = useText();
  return (
    <Note tone="warn">
      <span className="kept">
        {t.flow.kept(f.near(kept.at))}
        <span className="row-actions">
          <Button look="main" onClick={onGoOn}>
            {t.flow.keptGoOn}
          </Button>
          <Button onClick={onDrop}>{t.flow.keptDrop}</Button>
        </span>
      </span>
    </Note>
  );
}

interface CheckState {
  readonly problems: readonly string[];
  readonly arguments: readonly string[];
  readonly isKnown: boolean;
}

/** What the app says about a template, and about which one. */
interface Checked {
  readonly problems: readonly string[];
  readonly arguments: readonly string[];
  readonly spec: Spec;
  readonly named: string;
}

/** What is wrong with a draft: first what can be checked here, a moment later what the app says. */
function useCheck(name: string, draft: Draft, isWanted: boolean): CheckState {
  const { t } = useText();
  const here = useMemo(() => problemsOf(draft, t.flow), [draft, t]);
  const spec = useMemo(() => (here.length === 0 ? specOf(draft) : null), [draft, here]);
  const named = name.trim();
  const [answer, setAnswer] = useState<Checked>();
  useEffect(() => {
    if (!isWanted || spec === null || named === "") return undefined;
    const timer = setTimeout(() => {
      post("templates/{name}/check", { params: { name: named }, body: spec }).then(
        (checked) => setAnswer({ ...checked, spec, named }),
        (cause: unknown) => {
          const problems = [problemOf(cause).message];
          setAnswer({ problems, arguments: [], spec, named });
        },
      );
    }, CHECK_AFTER_MILLISECONDS);
    return () => clearTimeout(timer);
  }, [spec, named, isWanted]);
  if (here.length > 0) return { problems: here, arguments: [], isKnown: true };
  if (answer?.spec !== spec || answer?.named !== named)
    return { problems: [], arguments: [], isKnown: false };
  return { ...answer, isKnown: true };
}

function State({ checked, isChanged }: { checked: CheckState; isChanged: boolean }) {
  const { t } = useText();
  if (!isChanged || !checked.isKnown) return null;
  if (checked.problems.length === 0)
    return (
      <>
        <Note tone="good">{t.flow.isReady}</Note>
        {checked.arguments.length > 0 && (
          <p className="inline">
            <span className="faint">{t.flow.arguments}</span>
            {checked.arguments.map((each) => (
              <span key={each} className="chip">
                {each}
              </span>
            ))}
          </p>
        )}
      </>
    );
  return (
    <ul className="problems" role="status">
      {checked.problems.map((problem) => (
        <li key={problem}>{problem}</li>
      ))}
    </ul>
  );
}

function Versions({ name, version }: { name: string; version: number }) {
  const { t, f } = useText();
  const [, change] = useQuery();
  const resource = useLive("templates/{name}/versions", {
    params: { name },
    topics: ["flows"],
  });
  const rows = resource.data ?? [];
  const numbers = rows.map((row) => row.version);
  if (!numbers.includes(version)) numbers.push(version);
  return (
    <Select
      label={t.flow.versionName}
      value={String(version)}
      choices={numbers.map((each) => {
        const saved = rows.find((row) => row.version === each)?.saved_at;
        return { value: String(each), label: `${f.number(each)} · ${f.moment(saved)}` };
      })}
      onChoose={(chosen) =>
        change({ version: Number(chosen) === Math.max(...numbers) ? null : chosen }, false)
      }
    />
  );
}
