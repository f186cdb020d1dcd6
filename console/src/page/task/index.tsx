/** Tasks: find them by kind, status, key and age, and act on one or on all that match. */
import type { KindOut, TaskOut, TaskPage as TaskPageOut } from "../../api/model";
import { useLive } from "../../data/hook";
import { Ago, Button, Card, Missing, Page } from "../../part/basic";
import { Pager, Search, Segments, Select } from "../../part/control";
import { Empty, Faces } from "../../part/faces";
import { Status } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { pathOf } from "../../route/address";
import { useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import { useBulk } from "./bulk";
import { AGES, ageOf, STATUSES, taskPath, type TaskFilter } from "./filter";

export function TaskPage() {
  const { t } = useText();
  const [query, change] = useQuery();
  const filter: TaskFilter = query;
  const resource = useLive<TaskPageOut>(taskPath(filter), ["tasks"]);
  const set = (patch: TaskFilter) => change({ ...patch, after: null });
  return (
    <Page title={t.menu.tasks} actions={<BulkButton filter={filter} />}>
      <Filters filter={filter} onSet={set} />
      <Card isFlush>
        <Faces
          resource={resource}
          lines={12}
          isEmpty={(page) => page.items.length === 0}
          empty={<NothingFound page={resource.data} filter={filter} onSet={set} />}
        >
          {(page) => (
            <>
              <Missing shards={page.missing} />
              <Tasks tasks={page.items} />
            </>
          )}
        </Faces>
      </Card>
      <Pager next={resource.data?.next ?? null} />
    </Page>
  );
}

interface FilterProps {
  filter: TaskFilter;
  onSet: (patch: TaskFilter) => void;
}

function Filters({ filter, onSet }: FilterProps) {
  const { t, f } = useText();
  const kinds = useLive<readonly KindOut[]>("kinds", []);
  const names = kinds.data?.map((kind) => kind.kind) ?? [];
  if (filter.kind && !names.includes(filter.kind)) names.unshift(filter.kind);
  return (
    <div className="filters" role="search">
      <Segments
        label={t.field.status}
        value={filter.status ?? ""}
        choices={[
          { value: "", label: t.common.all },
          ...STATUSES.map((value) => ({ value: value as string, label: t.status[value] })),
        ]}
        onChoose={(status) => onSet({ status })}
      />
      <div className="filter-row">
        <Search
          label={t.task.searchKey}
          value={filter.key ?? ""}
          onSearch={(key) => onSet({ key })}
        />
        <Select
          label={t.field.kind}
          value={filter.kind ?? ""}
          choices={[
            { value: "", label: t.task.anyKind },
            ...names.map((name) => ({ value: name, label: name })),
          ]}
          onChoose={(kind) => onSet({ kind })}
        />
        <Select
          label={t.field.age}
          value={filter.age ?? ""}
          choices={[
            { value: "", label: t.task.anyAge },
            ...AGES.map((value) => ({ value: value as string, label: ageLabel(value) })),
          ]}
          onChoose={(age) => onSet({ age })}
        />
      </div>
    </div>
  );

  function ageLabel(value: string): string {
    const { isOlder, seconds } = ageOf(value);
    return isOlder ? t.task.olderThan(f.span(seconds)) : t.task.newerThan(f.span(seconds));
  }
}

function Tasks({ tasks }: { tasks: readonly TaskOut[] }) {
  const { t, f } = useText();
  const columns: readonly Column<TaskOut>[] = [
    { name: "id", label: t.field.task, render: (task) => <span className="id">{task.id}</span> },
    {
      name: "kind",
      label: t.field.kind,
      render: (task) => <span className="name">{task.kind}</span>,
    },
    {
      name: "status",
      label: t.field.status,
      render: (task) => <Status status={task.status} />,
    },
    {
      name: "key",
      label: t.field.key,
      isWide: true,
      render: (task) => (
        <span className="stack">
          {task.key !== null && <span className="name clip">{task.key}</span>}
          {task.remark && <small className="clip">{task.remark}</small>}
        </span>
      ),
    },
    {
      name: "attempt",
      label: t.field.attempt,
      isNumber: true,
      render: (task) => (
        <>
          {f.number(task.attempt)}
          {task.lost > 0 && <small className="text-bad"> {t.task.lost(task.lost)}</small>}
        </>
      ),
    },
    {
      name: "due",
      label: t.field.due,
      isNumber: true,
      render: (task) => <Ago at={task.due_at} />,
    },
    {
      name: "created",
      label: t.field.created,
      isNumber: true,
      isExtra: true,
      render: (task) => <Ago at={task.created_at} />,
    },
  ];
  return (
    <Table
      label={t.menu.tasks}
      columns={columns}
      rows={tasks}
      rowKey={(task) => task.id}
      to={(task) => pathOf("tasks", task.id)}
    />
  );
}

interface NothingProps extends FilterProps {
  page: TaskPageOut | undefined;
}

function NothingFound({ page, filter, onSet }: NothingProps) {
  const { t, f } = useText();
  const isFiltered = Boolean(filter.kind ?? filter.status ?? filter.key ?? filter.age);
  if (page?.next) {
    return <Empty title={t.task.notYet}>{t.task.notYetText(f.number(page.looked_at))}</Empty>;
  }
  if (!isFiltered) return <Empty title={t.task.none}>{t.task.noneText}</Empty>;
  const clear = () => onSet({ kind: "", status: "", key: "", age: "" });
  return (
    <Empty title={t.task.noMatch} action={<Button onClick={clear}>{t.common.clearFilters}</Button>}>
      {t.task.noMatchText}
    </Empty>
  );
}

function BulkButton({ filter }: { filter: TaskFilter }) {
  const { t } = useText();
  const { canAct } = useSession();
  const { act, start, isBusy } = useBulk(filter);
  if (!canAct || act === null) return null;
  return (
    <Button
      icon={act === "retry" ? "retry" : "cancel"}
      look={act === "retry" ? "plain" : "danger"}
      isBusy={isBusy}
      onClick={() => void start()}
    >
      {act === "retry" ? t.task.retryAll : t.task.cancelAll}
    </Button>
  );
}
