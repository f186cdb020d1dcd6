/** A kind with the family that it belongs to. */
import type { Row } from "../api/call";
import { useText } from "../text";
import { Icon, type IconName } from "./icon";

type Kind = Row<"kinds">;

const ICONS: Readonly<Record<Kind["family"], IconName>> = {
  task: "task",
  cron: "clock",
  rolling: "rolling",
  sweep: "sweep",
  flow: "flow",
  external: "link",
  queue: "queue",
  unknown: "warning",
};

export function KindName({ kind }: { kind: Pick<Kind, "kind" | "family"> }) {
  const { t } = useText();
  return (
    <span className="kind-name">
      <Icon name={ICONS[kind.family] ?? "task"} label={t.family[kind.family] ?? kind.family} />
      <span className="name">{kind.kind}</span>
    </span>
  );
}
