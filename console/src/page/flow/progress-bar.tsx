/** The progress of a flow run as a bar. */
import { Bar } from "../../part/basic";
import { toneOf } from "../../part/status";
import { useText } from "../../text";
import { MOST_COUNTED, progressOf, type FlowRun } from "./progress";

/** How many nodes of a flow run have ended; the count stops at 1,000. */
export function Progress({ run }: { run: FlowRun }) {
  const { t, f } = useText();
  const { ended, percent } = progressOf(run);
  const isCounted = run.nodes <= MOST_COUNTED;
  const words = isCounted
    ? `${f.number(ended)} / ${f.number(run.nodes)}`
    : run.left > 0
      ? t.flow.left(f.number(run.left))
      : `${f.number(MOST_COUNTED)}+`;
  return (
    <span className="with-bar">
      {words}
      {percent !== null && <Bar percent={percent} tone={toneOf(run.status)} />}
    </span>
  );
}
