/** Tasks: find them by kind, status, key and age, and act on one or on all that match. */
import type { Answer, Row } from "../../api/call";
import { useLive } from "../../data/hook";
import { Ago, Button, Page } from "../../part/basic";
import { Filter, Find } from "../../part/control";
import { Empty } from "../../part/faces";
import { Icon } from "../../part/icon";
import { PagedList } from "../../part/list";
import { Progress } from "./progress";
import { Status } from "../../part/status";
import { Table, type Column } from "../../part/table";
import { pathOf, queryOf } from "../../route/address";
import { Link, useQuery } from "../../route/router";
import { useSession } from "../../shell/session";
import { useText } from "../../text";
import { useBulk } from "./bulk";
import { AGES, ageOf, STATUSES, wireFilter, type TaskFilter } from "./filter";

type Task = Row<"tasks">;

export function TaskPage() {
  const { t } = useText();
  const [query, change] = useQuery();
  const filter: TaskFilter = query;
  const resource = useLive("tasks", {
    query: { ...wireFilter(filter), after: filter.after },
    topics: ["tasks"],
    // How far running tasks are is told by no topic.
    seconds: filter.status === "running" ? 2 : 10,
  });
  const clear = () => change({ kind: null, status: null, key: null, age: null, after: null });
  return (
    <Page
      title={t.menu.tasks}
      actions={
        <>
          <BulkButton filter={filter} />
          <NewLink kind={filter.kind} />
        </>
      }
    >
      <Filters filter={filter} />
      <PagedList
        resource={resource}
        lines={12}
        empty={<NothingFound page={resource.data} filter={filter} onClear={clear} />}
      >
        {(page) => <Tasks tasks={page.items} />}
      </PagedList>
    </Page>
  );
}

function Filters({ filter }: { filter: TaskFilter }) {
  const { t, f } = useText();
  const names = useLive("kinds").data?.map((kind) => kind.kind) ?? [];
  if (filter.kind && !names.includes(filter.kind)) names.unshift(filter.kind);
  const ages = Object.fromEntries(AGES.map((value) => [value, ageLabel(value)]));
  return (
    <div className="filters" role="search">
      <Filter name="status" label={t.field.status} values={STATUSES} words={t.status} />
      <div className="filter-row">
        <Find name="key" label={t.task.searchKey} />
        <Filter isSelect name="kind" label={t.field.kind} all={t.task.anyKind} values={names} />
        <Filter
          isSelect
          name="age"
          label={t.field.age}
          all={t.task.anyAge}
          values={AGES}
          words={ages}
        />
      </div>
    </div>
  );

  function ageLabel(value: string): string {
    const { isOlder, seconds } = ageOf(value);
    return isOlder ? t.task.olderThan(f.span(seconds)) : t.task.newerThan(f.span(seconds));
  }
}

function Tasks({ tasks }: { tasks: readonly Task[] }) {
  const { t, f } = useText();
  const columns: readonly Column<Task>[] = [
    { label: t.field.task, render: (task) => <span className="id">{task.id}</span> },
    { label: t.field.kind, render: (task) => <span className="name">{task.kind}</span> },
    {
      label: t.field.status,
      render: (task) => (
        <span className="stack">
          <Status status={task.status} />
          {task.progress && <Progress progress={task.progress} />}
        </span>
      ),
    },
    {
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
      label: t.field.attempt,
      isNumber: true,
      render: (task) => (
        <>
          {f.number(task.attempt)}
          {task.lost > 0 && <small className="text-bad"> {t.task.lost(task.lost)}</small>}
        </>
      ),
    },
    { label: t.field.due, isNumber: true, render: (task) => <Ago at={task.due_at} /> },
    {
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

interface NothingProps {
  page: Answer<"tasks"> | undefined;
  filter: TaskFilter;
  onClear: () => void;
}

function NothingFound({ page, filter, onClear }: NothingProps) {
  const { t, f } = useText();
  const isFiltered = Boolean(filter.kind ?? filter.status ?? filter.key ?? filter.age);
  if (page?.next) {
    return <Empty title={t.task.notYet}>{t.task.notYetText(f.number(page.looked_at))}</Empty>;
  }
  if (!isFiltered) return <Empty title={t.task.none}>{t.task.noneText}</Empty>;
  return (
    <Empty
      title={t.task.noMatch}
      action={<Button onClick={onClear}>{t.common.clearFilters}</Button>}
    >
      {t.task.noMatchText}
    </Empty>
  );
}

function NewLink({ kind }: { kind: string | undefined }) {
  const { t } = useText();
  const { canAct } = useSession();
  if (!canAct) return null;
  return (
    <Link className="button main" to={`tasks/new${queryOf({ kind })}`}>
      <Icon name="plus" />
      <span>{t.form.enqueue}</span>
    </Link>
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
