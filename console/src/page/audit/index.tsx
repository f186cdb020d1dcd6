/** The audit log: who did what, when, and with what result. */
import type { Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago, Button, Page } from "../../part/basic";
import { Find } from "../../part/control";
import { Empty } from "../../part/faces";
import { PagedList } from "../../part/list";
import { Badge } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { useQuery } from "../../route/router";
import { useText } from "../../text";

type Deed = Row<"audit">;

export function AuditPage() {
  const { t } = useText();
  const [query, change] = useQuery();
  const { who, about, after } = query;
  const resource = useLive("audit", { query: { who, about, after }, topics: ["audit"] });
  const isFiltered = Boolean(who ?? about ?? after);
  return (
    <Page title={t.menu.audit} lead={t.audit.lead}>
      <div className="filters">
        <div className="filter-row">
          <Find name="about" label={t.audit.findAbout} />
          {who && (
            <Button icon="close" onClick={() => change({ who: null, after: null })}>
              {t.audit.by(who)}
            </Button>
          )}
        </div>
      </div>
      <PagedList
        resource={resource}
        empty={
          isFiltered ? (
            <Empty title={t.audit.noMatch} />
          ) : (
            <Empty title={t.audit.none}>{t.audit.noneText}</Empty>
          )
        }
      >
        {(page) => (
          <Deeds deeds={page.items} onWho={(name) => change({ who: name, after: null })} />
        )}
      </PagedList>
    </Page>
  );
}

function Deeds({ deeds, onWho }: { deeds: readonly Deed[]; onWho: (who: string) => void }) {
  const { t } = useText();
  const columns: readonly Column<Deed>[] = [
    { label: t.field.when, render: (deed) => <Ago at={deed.acted_at} /> },
    {
      label: t.control.who,
      render: (deed) => (
        <span className="stack">
          <button type="button" className="as-link" onClick={() => onWho(deed.who)}>
            {deed.who}
          </button>
          <small>
            {deed.via}
            {deed.address && ` · ${deed.address}`}
          </small>
        </span>
      ),
    },
    { label: t.audit.action, render: (deed) => <span className="name">{deed.action}</span> },
    { label: t.audit.about, render: (deed) => <span className="name">{deed.about}</span> },
    {
      label: t.audit.outcome,
      isWide: true,
      render: (deed) => (
        <span className="stack">
          <span className="inline">
            <Outcome ok={deed.ok} />
            <span>{deed.outcome}</span>
          </span>
          {deed.detail && <small className="name clip">{deed.detail}</small>}
        </span>
      ),
    },
  ];
  return <Table label={t.menu.audit} columns={columns} rows={deeds} rowKey={(deed) => deed.id} />;
}

function Outcome({ ok }: { ok: boolean | null }) {
  const { t } = useText();
  if (ok === null) return <Badge tone="warn">{t.audit.unknown}</Badge>;
  return ok ? (
    <Badge tone="good" icon="check">
      {t.audit.ok}
    </Badge>
  ) : (
    <Badge tone="bad" icon="close">
      {t.audit.refused}
    </Badge>
  );
}
