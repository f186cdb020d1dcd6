/** Starting a flow: which one, with what, and maybe under a key. */
import { useState, type FormEvent } from "react";
import { post } from "../../api/client";
import type { FlowStarted, StartableOut } from "../../api/model";
import { useLive } from "../../data/hook";
import { Button, Note } from "../../part/basic";
import { Dialog } from "../../part/dialog";
import { Empty, Faces } from "../../part/faces";
import { useAction } from "../../part/toast";
import { pathOf } from "../../route/address";
import { navigate } from "../../route/router";
import { useText } from "../../text";
import { parseValue } from "./value";

interface StartProps {
  /** The flow to start; without one it is chosen. */
  name?: string;
  onClose: () => void;
}

export function StartDialog({ name, onClose }: StartProps) {
  const { t } = useText();
  const resource = useLive<readonly StartableOut[]>("flows/startable", []);
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

function StartForm({ flow, onClose }: { flow: StartableOut; onClose: () => void }) {
  const { t } = useText();
  const action = useAction();
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({});
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState("");

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const given: Record<string, unknown> = {};
    for (const { name, type } of flow.arguments) {
      const text = texts[name] ?? "";
      if (text === "" && !isText(type)) continue;
      if (text === "" && !flow.arguments.find((each) => each.name === name)?.required) continue;
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
        post<FlowStarted>("flows", {
          flow: flow.name,
          arguments: given,
          ...(key === "" ? {} : { key }),
        }),
      (done) => t.flow.started(done.id),
    );
    if (run) navigate(pathOf("flows", run.id));
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      {flow.summary && <p>{flow.summary}</p>}
      {flow.arguments.length === 0 && <p className="faint">{t.flow.noArguments}</p>}
      {flow.arguments.map((each) => (
        <label key={each.name} className="field">
          <span>
            {each.name} <small>{each.type}</small>
          </span>
          <input
            value={texts[each.name] ?? ""}
            required={each.required && !isText(each.type)}
            maxLength={10_000}
            placeholder={each.required ? "" : t.flow.leftOut}
            onChange={(event) => setTexts({ ...texts, [each.name]: event.target.value })}
          />
        </label>
      ))}
      <label className="field">
        <span>{t.flow.key}</span>
        <input
          value={key}
          maxLength={255}
          placeholder={t.flow.keyHint}
          onChange={(event) => setKey(event.target.value)}
        />
      </label>
      {(problem || action.problem) && <Note tone="bad">{problem || action.problem}</Note>}
      <div className="dialog-actions">
        <Button onClick={onClose}>{t.common.keep}</Button>
        <Button type="submit" look="main" icon="play" isBusy={action.isBusy}>
          {t.flow.start}
        </Button>
      </div>
    </form>
  );
}

function isText(type: string): boolean {
  return type === "str";
}
