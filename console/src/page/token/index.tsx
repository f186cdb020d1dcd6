/** Access tokens: who has one, what it allows, and when it was last used. */
import { useState } from "react";
import type { Row } from "../../api/call";
import { post } from "../../api/client";
import { useLive } from "../../data/hook";
import { useAsk } from "../../part/ask";
import { Ago, Button, Card, Missing, Page } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import type { IconName } from "../../part/icon";
import { Badge, type Tone } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import { CreateDialog } from "./create";

type Token = Row<"tokens">;
export type Role = Token["role"];

export const ROLES: readonly Role[] = ["viewer", "producer", "operator", "admin"];

const ROLE_LOOKS: Readonly<Record<Role, readonly [Tone, IconName]>> = {
  viewer: ["calm", "search"],
  producer: ["away", "bolt"],
  operator: ["busy", "play"],
  admin: ["warn", "key"],
};
const STATE_LOOKS: Readonly<Record<Token["state"], readonly [Tone, IconName]>> = {
  active: ["good", "check"],
  expired: ["warn", "clock"],
  revoked: ["idle", "cancel"],
};

export function TokenPage() {
  const { t } = useText();
  const { session } = useSession();
  const resource = useLive("tokens", { topics: ["audit"], seconds: 30 });
  const [isMaking, setMaking] = useState(false);
  const canMake = session.role === "admin";
  const make = canMake && (
    <Button icon="plus" look="main" onClick={() => setMaking(true)}>
      {t.token.create}
    </Button>
  );
  return (
    <Page title={t.menu.tokens} lead={t.token.lead} actions={make}>
      <Card isFlush>
        <Faces
          resource={resource}
          isEmpty={(page) => page.items.length === 0}
          empty={
            <Empty title={t.token.none}>{canMake ? t.token.noneText : t.token.noneForYou}</Empty>
          }
        >
          {(page) => (
            <>
              <Missing shards={page.missing} />
              <Tokens tokens={page.items} canRevoke={canMake} />
            </>
          )}
        </Faces>
      </Card>
      <RoleList />
      {isMaking && <CreateDialog onClose={() => setMaking(false)} />}
    </Page>
  );
}

function Tokens({ tokens, canRevoke }: { tokens: readonly Token[]; canRevoke: boolean }) {
  const { t } = useText();
  const columns: readonly Column<Token>[] = [
    {
      label: t.token.name,
      render: (token) => (
        <span className="stack token-name">
          <span className="name" title={token.name}>
            {token.name}
          </span>
          <small className="name faint">{token.prefix}…</small>
        </span>
      ),
    },
    { label: t.token.role, render: (token) => <RoleBadge role={token.role} /> },
    {
      label: t.field.state,
      render: ({ state }) => (
        <Badge tone={STATE_LOOKS[state][0]} icon={STATE_LOOKS[state][1]}>
          {t.token.states[state]}
        </Badge>
      ),
    },
    {
      label: t.field.created,
      isExtra: true,
      render: (token) => (
        <span className="stack">
          <Ago at={token.created_at} />
          <small>{token.created_by}</small>
        </span>
      ),
    },
    { label: t.token.ends, render: (token) => <End token={token} /> },
    {
      label: t.token.used,
      render: (token) =>
        token.last_used_at ? (
          <Ago at={token.last_used_at} />
        ) : (
          <span className="faint">{t.token.unused}</span>
        ),
    },
  ];
  const act: Column<Token> = { label: "", render: (token) => <Revoke token={token} /> };
  return (
    <Table
      label={t.menu.tokens}
      columns={canRevoke ? [...columns, act] : columns}
      rows={tokens}
      rowKey={(token) => token.prefix}
      tone={(token) => (token.state === "active" ? undefined : "muted")}
    />
  );
}

/** When it ends, or who ended it. */
function End({ token }: { token: Token }) {
  const { t } = useText();
  if (token.revoked_at) {
    return (
      <span className="stack">
        <Ago at={token.revoked_at} />
        <small>{token.revoked_by}</small>
      </span>
    );
  }
  if (token.expires_at) return <Ago at={token.expires_at} />;
  return <span className="faint">{t.token.never}</span>;
}

function Revoke({ token }: { token: Token }) {
  const { t } = useText();
  const action = useAsk();
  if (token.state !== "active") return null;
  const revoke = () =>
    action.ask(
      {
        title: t.token.revokeTitle(token.name),
        text: t.token.revokeText,
        action: t.token.revoke,
        isDanger: true,
      },
      () => post("tokens/{name}/revoke", { params: { name: token.name } }),
      () => t.token.revoked(token.name),
    );
  return (
    <Button icon="cancel" isBusy={action.isBusy} onClick={() => void revoke()}>
      {t.token.revoke}
    </Button>
  );
}

export function RoleBadge({ role }: { role: Role }) {
  const { t } = useText();
  const [tone, icon] = ROLE_LOOKS[role];
  return (
    <Badge tone={tone} icon={icon}>
      {t.token.roles[role]}
    </Badge>
  );
}

function RoleList() {
  const { t } = useText();
  return (
    <Card title={t.token.may}>
      <dl className="roles">
        {ROLES.map((role) => (
          <div key={role}>
            <dt>
              <RoleBadge role={role} />
            </dt>
            <dd>{t.token.rights[role]}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}
