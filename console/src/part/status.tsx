/** Statuses: an icon, a word and a colour, so that each alone is enough. */
import { useText } from "../text";
import { Icon, type IconName } from "./icon";

export type Tone = "calm" | "busy" | "good" | "bad" | "warn" | "away" | "idle";

const TONES: Readonly<Record<string, readonly [Tone, IconName]>> = {
  waiting: ["calm", "clock"],
  ready: ["calm", "clock"],
  running: ["busy", "play"],
  succeeded: ["good", "check"],
  done: ["good", "check"],
  failed: ["bad", "close"],
  blocked: ["idle", "pause"],
  external: ["away", "link"],
  cancelled: ["idle", "cancel"],
};

export function toneOf(status: string): Tone {
  return TONES[status]?.[0] ?? "idle";
}

export function iconOf(status: string): IconName {
  return TONES[status]?.[1] ?? "dot";
}

export function Status({ status }: { status: string }) {
  const { t } = useText();
  const [tone, icon] = TONES[status] ?? (["idle", "dot"] as const);
  const names: Readonly<Record<string, string>> = t.status;
  return (
    <Badge tone={tone} icon={icon}>
      {names[status] ?? status}
    </Badge>
  );
}

/** Whether a worker is alive. */
export function Heartbeat({ worker }: { worker: { readonly is_alive: boolean } }) {
  const { t } = useText();
  return worker.is_alive ? (
    <Badge tone="good" icon="check">
      {t.ring.alive}
    </Badge>
  ) : (
    <Badge tone="bad" icon="warning">
      {t.ring.silent}
    </Badge>
  );
}

interface BadgeProps {
  tone: Tone;
  icon?: IconName;
  children: React.ReactNode;
}

export function Badge({ tone, icon, children }: BadgeProps) {
  return (
    <span className={`badge tone-${tone}`}>
      {icon && <Icon name={icon} />}
      {children}
    </span>
  );
}
