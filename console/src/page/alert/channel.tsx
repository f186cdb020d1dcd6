/** Channels: where alerts go. Their URLs are secrets and are not shown. */
import type { Row } from "../../api/call";
import { post } from "../../api/client";
import { useLive } from "../../data/hook";
import { Button, Card } from "../../part/basic";
import { Empty, Faces } from "../../part/faces";
import { Badge } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { useAction } from "../../part/toast";
import { useSession } from "../../shell/session";
import { useText } from "../../text";

type Channel = Row<"channels">;

export function ChannelCard() {
  const { t } = useText();
  const resource = useLive("channels", { topics: [] });
  const columns: readonly Column<Channel>[] = [
    { label: t.alert.channel, render: (channel) => <strong>{channel.name}</strong> },
    { label: t.alert.to, render: (channel) => `${channel.scheme}://` },
    { label: t.alert.severity, render: (channel) => <Badge tone="idle">{channel.severity}</Badge> },
    {
      label: t.alert.kinds,
      isWide: true,
      render: (channel) => channel.kinds?.join(", ") ?? t.alert.allKinds,
    },
    { label: t.alert.repeats, render: (channel) => channel.every ?? "–" },
    { label: t.alert.quietHours, render: (channel) => channel.quiet ?? "–" },
    { label: "", render: (channel) => <TestButton channel={channel} /> },
  ];
  return (
    <Card title={t.alert.channels} isFlush>
      <Faces
        resource={resource}
        isEmpty={(channels) => channels.length === 0}
        empty={
          <Empty title={t.alert.noChannels}>
            {t.alert.noChannelsText} <code>app.alert_to("slack://…")</code>
          </Empty>
        }
      >
        {(channels) => (
          <Table
            label={t.alert.channels}
            columns={columns}
            rows={channels}
            rowKey={(channel) => channel.name}
          />
        )}
      </Faces>
    </Card>
  );
}

function TestButton({ channel }: { channel: Channel }) {
  const { t } = useText();
  const { canAct } = useSession();
  const action = useAction();
  if (!canAct) return null;
  const test = () =>
    action.run(
      () => post("channels/{name}/test", { params: { name: channel.name } }),
      () => t.alert.wasTested(channel.name),
    );
  return (
    <Button isBusy={action.isBusy} onClick={() => void test()}>
      {t.alert.test}
    </Button>
  );
}
