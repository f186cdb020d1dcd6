/** Settings: the look of the console, versions, databases and findings. */
import type { Answer } from "../../api/call";
import { useLive } from "../../data/hook";
import { Button, Card, Facts, Note, Page } from "../../part/basic";
import { Segments } from "../../part/control";
import { Faces } from "../../part/faces";
import { Badge } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { canLeave, useSession } from "../../shell/session";
import { useTheme, type Theme } from "../../shell/theme";
import { useText } from "../../text";
import type { Language } from "../../format/format";
import { urlOf } from "../../api/client";

type About = Answer<"about">;

export function AboutPage() {
  const { t } = useText();
  const resource = useLive("about", { topics: ["switches"], seconds: 30 });
  return (
    <Page title={t.menu.about}>
      <div className="columns even">
        <div className="main-column">
          <Faces resource={resource} lines={8}>
            {(about) => (
              <>
                <Findings findings={about.findings} />
                <Databases databases={about.databases} />
                <Versions about={about} />
              </>
            )}
          </Faces>
        </div>
        <div className="side-column">
          <Look />
          <Who />
        </div>
      </div>
    </Page>
  );
}

function Look() {
  const { t, language, setLanguage } = useText();
  const [theme, choose] = useTheme();
  return (
    <Card title={t.about.look}>
      <div className="setting">
        <span>{t.about.theme}</span>
        <Segments<Theme>
          label={t.about.theme}
          value={theme}
          choices={[
            { value: "auto", label: t.about.auto },
            { value: "light", label: t.about.light },
            { value: "dark", label: t.about.dark },
          ]}
          onChoose={choose}
        />
      </div>
      <div className="setting">
        <span>{t.about.language}</span>
        <Segments<Language>
          label={t.about.language}
          value={language}
          choices={[
            { value: "en", label: "English" },
            { value: "zh", label: "中文" },
          ]}
          onChoose={setLanguage}
        />
      </div>
    </Card>
  );
}

function Who() {
  const { t, f } = useText();
  const { session, leave } = useSession();
  const facts = [
    [t.about.name, session.name],
    [t.about.role, session.role === null ? null : t.about.roles[session.role]],
    [t.about.expires, f.moment(session.expires_at)],
  ] as const;
  return (
    <Card title={t.about.who}>
      <Facts facts={facts} />
      {canLeave(session) && (
        <Button icon="leave" onClick={leave}>
          {t.door.leave}
        </Button>
      )}
    </Card>
  );
}

function Findings({ findings }: { findings: About["findings"] }) {
  const { t } = useText();
  if (findings.length === 0) return <Note tone="good">{t.about.well}</Note>;
  return (
    <>
      {findings.map((finding) => (
        <Note key={finding.about + finding.text} tone={finding.level === "error" ? "bad" : "warn"}>
          <b>{finding.about}</b> {finding.text}
        </Note>
      ))}
    </>
  );
}

function Databases({ databases }: { databases: About["databases"] }) {
  const { t, f } = useText();
  const columns: readonly Column<About["databases"][number]>[] = [
    {
      label: t.about.database,
      isWide: true,
      render: (database) => (
        <span className="stack">
          <span className="name">{database.name}</span>
          {database.problem && <small className="text-bad">{database.problem}</small>}
        </span>
      ),
    },
    { label: t.about.server, render: (database) => `${database.dialect} ${database.server ?? ""}` },
    {
      label: t.about.connection,
      render: (database) =>
        database.user === null ? (
          "–"
        ) : (
          <span className="stack">
            <span className="name">{database.user}</span>
            <small>{database.tls ?? t.about.plain}</small>
          </span>
        ),
    },
    {
      label: t.about.schema,
      render: (database) =>
        database.schema_found === database.schema_needed ? (
          <Badge tone="good" icon="check">
            {database.schema_needed}
          </Badge>
        ) : (
          <Badge tone={database.problem ? "bad" : "warn"} icon="warning">
            {`${database.schema_found ?? "–"} ≠ ${database.schema_needed}`}
          </Badge>
        ),
    },
    {
      label: t.about.answers,
      isNumber: true,
      render: (database) => f.milliseconds(database.milliseconds),
    },
  ];
  return (
    <Card isFlush title={t.about.databases}>
      <Table
        label={t.about.databases}
        columns={columns}
        rows={databases}
        rowKey={(row) => row.name}
      />
    </Card>
  );
}

function Versions({ about }: { about: About }) {
  const { t } = useText();
  const facts = [
    ["Windlass", about.version],
    ["Python", about.python],
    ...Object.entries(about.packages),
  ] as const;
  return (
    <Card title={t.about.versions} aside={<a href={urlOf("openapi.json")}>{t.about.openapi}</a>}>
      <Facts facts={facts} />
    </Card>
  );
}
