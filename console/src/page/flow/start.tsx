/** The dialog that starts a flow: which flow, its arguments, and an optional key. */
import { useState } from "react";
import type { Row } from "../../api/call";
import { post } from "../../api/client";
import { useLive } from "../../data/hook";
import { Dialog } from "../../part/dialog";
import { Empty, Faces } from "../../part/faces";
import { Field, Form } from "../../part/form";
import { useAction } from "../../part/toast";
import { pathOf } from "../../route/address";
import { navigate } from "../../route/router";
import { useText } from "../../text";
import { parseValue } from "./value";

interface StartProps {
  /** The flow to start; without it the user chooses one. */
  name?: string;
  onClose: () => void;
}

export function StartDialog({ name, onClose }: StartProps) {
  const { t } = useText();
  const resource = useLive("flows/startable");
  const [chosen, setChosen] = useState(name ?? "");
  const title = name === undefined ? t.flow.startFlow : t.flow.startTitle(name);
  return (
    <Dialog title={title} onClose={onClose}>
      <Faces
        resource={resource}
        lines={3}
        isEmpty={(rows) => rows.length === 0}
        empty={<Empty title={t.flow.noFlows}>{t.flow.noFlowsText}</Empty>}
      >
        {(rows) => {
          const flow = rows.find((row) => row.name === chosen) ?? rows[0];
          return flow === undefined ? null : (
            <>
              {name === undefined && (
                <label className="field">
                  <span>{t.flow.flow}</span>
                  <select value={flow.name} onChange={(event) => setChosen(event.target.value)}>
                    {rows.map((row) => (
                      <option key={row.name}>{row.name}</option>
                    ))}
                  </select>
                </label>
              )}
              <StartForm key={flow.name} flow={flow} onClose={onClose} />
            </>
          );
        }}
      </Faces>
    </Dialog>
  );
}

function StartForm({ flow, onClose }: { flow: Row<"flows/startable">; onClose: () => void }) {
  const { t } = useText();
  const action = useAction();
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState("");

  const submit = async () => {
    const given: Record<string, unknown> = {};
    for (const { name, type, required } of flow.arguments) {
      const text = texts[name] ?? "";
      if (text === "" && !(isText(type) && required)) continue;
      const value = parseValue(text, type);
      if (value === undefined) {
        setProblem(t.flow.badValue(name));
        return;
      }
      given[name] = value;
    }
    setProblem("");
    const run = await action.run(
      () =>
        post("flows", {
          body: { flow: flow.name, arguments: given, ...(key === "" ? {} : { key }) },
        }),
      (done) => t.flow.started(done.id),
    );
    if (run) navigate(pathOf("flows", run.id));
  };
  return (
    <Form
      action={t.flow.start}
      icon="play"
      isBusy={action.isBusy}
      problem={problem || action.problem}
      onSubmit={() => void submit()}
      onClose={onClose}
    >
      {flow.summary && <p>{flow.summary}</p>}
      {flow.arguments.length === 0 && <p className="faint">{t.flow.noArguments}</p>}
      {flow.arguments.map((each) => (
        <Field
          key={each.name}
          label={
            <>
              {each.name} <small>{each.type}</small>
            </>
          }
          value={texts[each.name] ?? ""}
          required={each.required && !isText(each.type)}
          maxLength={10_000}
          placeholder={each.required ? "" : t.flow.leftOut}
          onText={(text) => setTexts({ ...texts, [each.name]: text })}
        />
      ))}
      <Field
        label={t.flow.key}
        value={key}
        maxLength={255}
        placeholder={t.flow.keyHint}
        onText={setKey}
      />
    </Form>
  );
}

function isText(type: string): boolean {
  return type === "str";
}
