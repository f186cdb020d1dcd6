/** A kind with the family that it belongs to. */
import type { KindOut } from "../api/model";
import { useText } from "../text";
import { Icon, type IconName } from "./icon";

const ICONS: Readonly<Record<KindOut["family"], IconName>> = {
  task: "task",
  cron: "clock",
  rolling: "rolling",
  sweep: "sweep",
  flow: "flow",
  external: "link",
  unknown: "warning",
};

export function KindName({ kind }: { kind: Pick<KindOut, "kind" | "family"> }) {
  const { t } = useText();
  return (
    <span className="kind-name">
      <Icon name={ICONS[kind.family] ?? "task"} label={t.family[kind.family] ?? kind.family} />
      <span className="name">{kind.kind}</span>
    </span>
  );
}
