/** The ring of each shard: its workers, the buckets they own, and who joined and left. */
import type { Answer } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago, Card, Figure, Figures, Missing, Note, Page } from "../../part/basic";
import { Tabs } from "../../part/control";
import { Empty, Faces } from "../../part/faces";
import { letterOf } from "../../part/member";
import { Badge, Heartbeat } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { useQuery } from "../../route/router";
import { useText } from "../../text";
import { RingPicture } from "./picture";
import { Shards } from "./shard";

type Rings = Answer<"rings">;
export type Ring = Rings["rings"][number];
type Member = Ring["members"][number];
type Move = Ring["moves"][number];

export function RingPage() {
  const { t } = useText();
  const resource = useLive("rings", { topics: ["workers"], seconds: 3 });
  return (
    <Page title={t.menu.ring} lead={t.ring.lead}>
      <Faces resource={resource} lines={10}>
        {(data) => <AllRings data={data} />}
      </Faces>
    </Page>
  );
}

function AllRings({ data }: { data: Rings }) {
  const { t } = useText();
  const [query, change] = useQuery();
  const at = Math.min(Number(query.shard ?? 0) || 0, data.rings.length - 1);
  const ring = data.rings[at];
  return (
    <>
      <Missing shards={data.missing} />
      {data.rings.length + data.missing.length > 1 && <Shards />}
      {data.rings.length > 1 && (
        <Tabs
          label={t.field.shard}
          value={String(at)}
          choices={data.rings.map((each, index) => ({
            value: String(index),
            label: each.database,
          }))}
          onChoose={(shard) => change({ shard: shard === "0" ? null : shard, member: null })}
        />
      )}
      {ring && <OneRing ring={ring} />}
    </>
  );
}

function OneRing({ ring }: { ring: Ring }) {
  const { t, f } = useText();
  const [query, change] = useQuery();
  const selected = query.member ? Number(query.member) : null;
  const select = (id: number | null) => change({ member: id === null ? null : String(id) });
  if (ring.members.length === 0) {
    return (
      <>
        <Card>
          <Empty title={t.ring.none}>
            {t.ring.noneText} <code>windlass worker module:app</code>
          </Empty>
        </Card>
        <Moves moves={ring.moves} />
      </>
    );
  }
  return (
    <>
      <div className="columns ring-columns">
        <Card className="ring-card">
          <RingPicture ring={ring} selected={selected} onSelect={select} />
        </Card>
        <div className="main-column">
          <Figures>
            <Figure
              label={t.ring.ownedLabel}
              value={f.number(ring.owned)}
              note={t.ring.ofBuckets(f.number(ring.buckets))}
              tone={ring.owned < ring.buckets && "warn"}
            />
            <Figure
              label={t.ring.moving}
              value={f.number(ring.moving)}
              note={t.ring.movingNote}
              tone={ring.moving > 0 && "warn"}
            />
            <Figure label={t.ring.offers} value={f.count(ring.offers)} note={t.ring.offersNote} />
            <Figure label={t.ring.knownBy} value={<small>{ring.known_by}</small>} />
          </Figures>
          {ring.careful.length > 0 && (
            <Note tone="warn">
              {t.ring.careful} <Ago at={ring.careful_to} />
            </Note>
          )}
          <Card isFlush title={t.ring.membersTitle}>
            <Members members={ring.members} selected={selected} />
          </Card>
        </div>
      </div>
      <Moves moves={ring.moves} />
    </>
  );
}

interface MembersProps {
  members: readonly Member[];
  selected: number | null;
}

function Members({ members, selected }: MembersProps) {
  const { t, f } = useText();
  const columns: readonly Column<Member>[] = [
    {
      label: t.field.worker,
      render: (member) => {
        const index = members.indexOf(member);
        return (
          <span className="inline">
            <span className={`letter member-${index % 8}`}>{letterOf(index)}</span>
            <span className="id">{member.id}</span>
          </span>
        );
      },
    },
    {
      label: t.ring.host,
      isWide: true,
      render: (member) => (
        <span className="stack">
          <span className="name">
            {member.host} <span className="faint">{member.pid}</span>
          </span>
          {member.kinds.length > 0 && <small className="clip">{member.kinds.join(", ")}</small>}
        </span>
      ),
    },
    { label: t.ring.share, isNumber: true, render: (member) => f.percent(member.share) },
    { label: t.ring.buckets, isNumber: true, render: (member) => bucketsOf(member.buckets) },
    {
      label: t.ring.idle,
      isNumber: true,
      isExtra: true,
      render: (member) => f.number(member.idle),
    },
    { label: t.ring.heartbeat, render: (member) => <Heartbeat worker={member} /> },
    { label: t.ring.joined, isNumber: true, render: (member) => <Ago at={member.joined_at} /> },
  ];
  return (
    <Table
      label={t.ring.membersTitle}
      columns={columns}
      rows={members}
      rowKey={(member) => member.id}
      tone={(member) => (member.id === selected ? "selected" : undefined)}
    />
  );
}

function bucketsOf(arcs: Member["buckets"]): string {
  return arcs.map((arc) => `${arc.begin}–${arc.end - 1}`).join(", ") || "–";
}

function Moves({ moves }: { moves: readonly Move[] }) {
  const { t } = useText();
  const words: Readonly<Record<string, string>> = t.ring.what;
  const columns: readonly Column<Move>[] = [
    { label: t.field.when, render: (move) => <Ago at={move.at} /> },
    {
      label: t.ring.move,
      render: (move) => (
        <Badge
          tone={move.what === "joined" ? "good" : "idle"}
          icon={move.what === "joined" ? "plus" : "leave"}
        >
          {words[move.what] ?? move.what}
        </Badge>
      ),
    },
    { label: t.field.worker, render: (move) => <span className="id">{move.worker}</span> },
    {
      label: t.ring.host,
      render: (move) => (
        <span className="name">
          {move.host} <span className="faint">{move.pid}</span>
        </span>
      ),
    },
    {
      label: t.ring.why,
      isWide: true,
      render: (move) => move.why ?? (move.before === null ? null : t.ring.before(move.before)),
    },
  ];
  return (
    <Card isFlush title={t.ring.moves}>
      {moves.length === 0 ? (
        <Empty title={t.ring.noMoves} />
      ) : (
        <Table
          label={t.ring.moves}
          columns={columns}
          rows={moves}
          rowKey={(move) => `${move.at} ${move.worker} ${move.what}`}
        />
      )}
    </Card>
  );
}
