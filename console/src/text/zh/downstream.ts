/** Chinese, of downstreams. */
import type { Dictionary } from "../en";

export const downstream: Dictionary["downstream"] = {
  atOnce: "同时运行",
  closed: "不在时间窗内",
  errors: "错误/分",
  held: "许可",
  home: "所在分片",
  kinds: "各任务类型的用量",
  lead: "任务所调用的系统。同一下游的所有任务类型在全部工作进程中共享其限制。",
  limits: "限制",
  mean: "平均耗时",
  most: (count) => `同时 ${count} 个`,
  noKinds: "没有任务类型调用它",
  noRate: "不限速",
  none: "没有下游",
  noneText: "声明一个：",
  one: "下游",
  permits: "各工作进程的许可",
  starts: "开始/分",
  waits: "等待自",
  wanted: "需要",
  worker: "工作进程",
};
