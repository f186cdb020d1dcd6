/** The small parts that every page is made of. */
import type { ButtonHTMLAttributes, ReactNode } from "react";
import { useNow } from "../data/hook";
import { Link } from "../route/router";
import { useText } from "../text";
import { Icon, type IconName } from "./icon";

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  icon?: IconName | undefined;
  look?: "plain" | "main" | "danger" | "quiet";
  isBusy?: boolean;
}

export function Button({ icon, look = "plain", isBusy = false, children, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={`button ${look} ${rest.className ?? ""}`}
      disabled={rest.disabled ?? isBusy}
      aria-busy={isBusy || undefined}
    >
      {icon && <Icon name={icon} />}
      {children !== undefined && <span>{children}</span>}
    </button>
  );
}

interface PageProps {
  title: ReactNode;
  /** What stands beside the title, such as a status. */
  badge?: ReactNode;
  /** The page above this one. */
  up?: { to: string; label: string };
  lead?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

export function Page({ title, badge, up, lead, actions, children }: PageProps) {
  return (
    <>
      <header className="page-head">
        <div className="page-title">
          {up && (
            <Link className="crumb" to={up.to}>
              {up.label}
            </Link>
          )}
          <h1>
            {badge ? (
              <span className="title-row">
                {title}
                {badge}
              </span>
            ) : (
              title
            )}
          </h1>
          {lead && <p className="lead">{lead}</p>}
        </div>
        {actions && <div className="actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}

interface CardProps {
  title?: ReactNode;
  aside?: ReactNode;
  isFlush?: boolean;
  className?: string;
  children: ReactNode;
}

export function Card({ title, aside, isFlush = false, className = "", children }: CardProps) {
  return (
    <section className={`card ${isFlush ? "flush" : ""} ${className}`}>
      {(title !== undefined || aside !== undefined) && (
        <header className="card-head">
          <h2>{title}</h2>
          {aside && <div className="card-aside">{aside}</div>}
        </header>
      )}
      <div className="card-body">{children}</div>
    </section>
  );
}

interface FigureProps {
  label: string;
  value: ReactNode;
  note?: ReactNode;
  tone?: "bad" | "warn" | "good" | false;
  to?: string;
}

export function Figure({ label, value, note, tone, to }: FigureProps) {
  const body = (
    <>
      <span className="figure-label">{label}</span>
      <span className={`figure-value ${tone ? `text-${tone}` : ""}`}>{value}</span>
      {note !== undefined && <span className="figure-note">{note}</span>}
    </>
  );
  return to === undefined ? (
    <div className="figure">{body}</div>
  ) : (
    <Link className="figure" to={to}>
      {body}
    </Link>
  );
}

export function Figures({ children }: { children: ReactNode }) {
  return <div className="figures">{children}</div>;
}

/** A count of what should not happen. */
export function BadCount({ value }: { value: number }) {
  const { f } = useText();
  return <span className={value > 0 ? "text-bad" : "faint"}>{f.number(value)}</span>;
}

/** A relative time, with the exact one in its title. */
export function Ago({ at }: { at: string | null | undefined }) {
  const { f } = useText();
  const now = useNow();
  if (!at) return <span className="faint">–</span>;
  return (
    <time dateTime={at} title={f.moment(at)}>
      {f.relative(at, now)}
    </time>
  );
}

/** A list of names and values. */
export function Facts({ facts }: { facts: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value ?? <span className="faint">–</span>}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Text from users or programs, shown as it is. */
export function Plain({ text, label }: { text: string; label?: string }) {
  return (
    <pre className="text-block" tabIndex={0} aria-label={label}>
      {text}
    </pre>
  );
}

export function Bar({ percent, tone = "busy" }: { percent: number; tone?: string }) {
  return (
    <span className={`bar tone-${tone}`} aria-hidden>
      <span style={{ width: `${Math.min(100, Math.max(0, percent))}%` }} />
    </span>
  );
}

export function Missing({ shards }: { shards: readonly string[] }) {
  const { t } = useText();
  if (shards.length === 0) return null;
  return <Note tone="warn">{t.common.missing(shards.join(", "))}</Note>;
}

export function Note({
  tone,
  children,
}: {
  tone: "warn" | "bad" | "good" | "calm";
  children: ReactNode;
}) {
  const icon = tone === "good" ? "check" : tone === "calm" ? "clock" : "warning";
  return (
    <p className={`note tone-${tone}`} role={tone === "bad" ? "alert" : undefined}>
      <Icon name={icon} />
      <span>{children}</span>
    </p>
  );
}
