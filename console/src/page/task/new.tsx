/** Enqueue a task or start a flow by hand: a form of what the handler takes. The address has it all. */
import { useState } from "react";
import type { Answer } from "../../api/call";
import { post, problemOf, type Problem } from "../../api/client";
import { cache } from "../../data/cache";
import { useLive } from "../../data/hook";
import { ArgumentField, readArguments, type Problems, type Typed } from "../../part/argument";
import { Button, Card, Note, Page } from "../../part/basic";
import { Select } from "../../part/control";
import { Empty, Faces, wordsOf } from "../../part/faces";
import { Field } from "../../part/form";
import { useTell } from "../../part/toast";
import { pathOf } from "../../route/address";
import { navigate, useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";

type FormView = Answer<"kinds/{kind}/form">;

const FAMILIES = new Set(["task", "cron", "external", "flow"]);
/** Arguments in the address begin with this, so that none can be taken for something else. */
const ARGUMENT = "a.";
const MORE = ["key", "delay", "lane", "priority"] as const;

type More = (typeof MORE)[number];

export function NewTaskPage() {
  const { t } = useText();
  const { canAct } = useSession();
  const [query, change] = useQuery();
  const kinds = useLive("kinds");
  return (
    <Page up={{ to: "tasks", label: t.menu.tasks }} title={t.form.title} lead={t.form.lead}>
      <Faces
        resource={kinds}
        isEmpty={(all) => !all.some((kind) => kind.is_declared)}
        empty={
          <Card>
            <Empty title={t.form.noApp}>
              {t.form.noAppText} <code>windlass console shop:app</code>
            </Empty>
          </Card>
        }
      >
        {(all) => {
          const offered = all.filter((kind) => kind.is_declared && FAMILIES.has(kind.family));
          const names = offered.map((kind) => kind.kind);
          const chosen = query.kind ?? names[0] ?? "";
          return (
            <Card>
              {!canAct && <Note tone="warn">{t.form.notAllowed}</Note>}
              <Select
                label={t.field.kind}
                value={chosen}
                choices={(names.includes(chosen) ? names : [chosen, ...names]).map((value) => ({
                  value,
                  label: value,
                }))}
                onChoose={(kind) => change(cleared(query, kind))}
              />
              {chosen && <KindForm key={chosen} kind={chosen} />}
            </Card>
          );
        }}
      </Faces>
    </Page>
  );
}

/** Another kind has other arguments. */
function cleared(query: Readonly<Record<string, string>>, kind: string) {
  const gone = Object.keys(query).filter((name) => name.startsWith(ARGUMENT));
  return { ...Object.fromEntries(gone.map((name) => [name, null])), kind };
}

function KindForm({ kind }: { kind: string }) {
  const resource = useLive("kinds/{kind}/form", { params: { kind } });
  return (
    <Faces resource={resource} lines={4}>
      {(form) => <Fields form={form} />}
    </Faces>
  );
}

function Fields({ form }: { form: FormView }) {
  const { t } = useText();
  const { canAct } = useSession();
  const tell = useTell();
  const [query, change] = useQuery();
  const [problems, setProblems] = useState<Problems>({});
  const [refusal, setRefusal] = useState("");
  const [isBusy, setBusy] = useState(false);
  const typed: Typed = Object.fromEntries(
    Object.entries(query)
      .filter(([name]) => name.startsWith(ARGUMENT))
      .map(([name, text]) => [name.slice(ARGUMENT.length), text]),
  );
  if (form.why_not !== null) return <Note tone="warn">{form.why_not}</Note>;
  const isFlow = form.does === "start";

  const type = (name: string, text: string) => {
    setProblems((before) =>
      Object.fromEntries(Object.entries(before).filter(([place]) => place !== name)),
    );
    change({ [ARGUMENT + name]: text });
  };
  const refuse = (problem: Problem) => {
    const words = wordsOf(problem, t);
    const place = problem.facts.argument;
    const isField = form.parameters.some((each) => each.name === place);
    if (typeof place === "string" && isField) setProblems({ [place]: words });
    else setRefusal(words);
    tell("bad", words);
  };
  const said = ({ id, isNew }: { id: number; isNew: boolean }) => {
    if (!isNew) return t.form.known(id);
    return isFlow ? t.flow.started(id) : t.form.enqueued(id);
  };
  const submit = async () => {
    const read = readArguments(form.parameters, typed, t);
    setProblems(read.problems);
    setRefusal("");
    if (Object.keys(read.problems).length > 0) return;
    setBusy(true);
    try {
      const made = await send(form, read.given, query);
      tell("good", said(made));
      navigate(pathOf(isFlow ? "flows" : "tasks", made.id));
    } catch (cause) {
      refuse(problemOf(cause));
    } finally {
      setBusy(false);
      cache.changed();
    }
  };

  return (
    <form
      className="new-task"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      {form.summary && <p>{form.summary}</p>}
      {form.parameters.length === 0 && <p className="faint">{t.flow.noArguments}</p>}
      {form.parameters.map((each) => (
        <ArgumentField
          key={each.name}
          parameter={each}
          typed={typed[each.name]}
          problem={problems[each.name]}
          onType={(text) => type(each.name, text)}
        />
      ))}
      {form.takes_more && <p className="faint">{t.form.takesMore}</p>}
      <details open={MORE.some((name) => query[name])}>
        <summary>{t.form.more}</summary>
        {(isFlow ? (["key"] as const) : MORE).map((name) => (
          <Field
            key={name}
            label={t.form.labels[name]}
            hint={t.form.hints[name]}
            inputMode={name === "priority" ? "numeric" : undefined}
            placeholder={name === "priority" ? String(form.priority) : ""}
            value={query[name] ?? ""}
            maxLength={255}
            onText={(text) => change({ [name]: text })}
          />
        ))}
      </details>
      {refusal && <Note tone="bad">{refusal}</Note>}
      <div className="form-actions">
        <Button type="submit" look="main" icon="play" isBusy={isBusy} disabled={!canAct}>
          {isFlow ? t.flow.start : t.form.enqueue}
        </Button>
      </div>
    </form>
  );
}

async function send(
  form: FormView,
  given: Record<string, unknown>,
  query: Readonly<Partial<Record<More, string>>>,
): Promise<{ id: number; isNew: boolean }> {
  const key = query.key ? { key: query.key } : {};
  if (form.does === "start") {
    const run = await post("flows", { body: { flow: form.kind, arguments: given, ...key } });
    return { id: run.id, isNew: run.created };
  }
  const { delay, lane, priority } = query;
  const made = await post("tasks", {
    body: {
      kind: form.kind,
      arguments: given,
      ...key,
      ...(delay ? { delay } : {}),
      ...(lane ? { lane } : {}),
      ...(priority ? { priority: Number(priority) } : {}),
    },
  });
  return { id: made.id, isNew: made.created };
}
