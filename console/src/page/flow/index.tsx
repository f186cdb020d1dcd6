/** The pages of flows. The code that draws graphs is large, so it is loaded when needed. */
import { lazy, Suspense, type ReactNode } from "react";
import { Skeleton } from "../../part/faces";
import { FlowPage } from "./list";

const Detail = lazy(() => import("./run").then((found) => ({ default: found.FlowDetailPage })));
const Template = lazy(() => import("./editor").then((found) => ({ default: found.TemplatePage })));

export function flowList(): ReactNode {
  return <FlowPage />;
}

/** `flows/7` is a flow run, `flows/template/NAME` a template, `flows/template` a new one. */
export function flowDetail([first = "", second = ""]: readonly string[]): ReactNode {
  return (
    <Suspense fallback={<Skeleton lines={10} />}>
      {first === "template" ? (
        <Template key={second} name={second} />
      ) : (
        <Detail key={first} id={first} />
      )}
    </Suspense>
  );
}
