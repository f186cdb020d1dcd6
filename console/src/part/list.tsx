/** A list in pages: its faces, the shards that did not answer, and the pager. */
import type { ReactNode } from "react";
import type { Resource } from "../data/hook";
import { Card, Missing } from "./basic";
import { Pager } from "./control";
import { Faces } from "./faces";

interface ListPage {
  readonly items: readonly unknown[];
  readonly next: string | null;
  readonly missing?: readonly string[];
}

interface ListProps<T extends ListPage> {
  resource: Resource<T>;
  title?: string | undefined;
  aside?: ReactNode;
  lines?: number;
  empty: ReactNode;
  children: (page: T) => ReactNode;
}

export function PagedList<T extends ListPage>(props: ListProps<T>) {
  const { resource, title, aside, lines = 6, empty, children } = props;
  return (
    <>
      <Card isFlush title={title} aside={aside}>
        <Faces
          resource={resource}
          lines={lines}
          isEmpty={(page) => page.items.length === 0}
          empty={empty}
        >
          {(page) => (
            <>
              <Missing shards={page.missing ?? []} />
              {children(page)}
            </>
          )}
        </Faces>
      </Card>
      <Pager next={resource.data?.next ?? null} />
    </>
  );
}
