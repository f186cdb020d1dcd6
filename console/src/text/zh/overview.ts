/** Chinese, of the overview. */
import type { Dictionary } from "../en";

export const overview: Dictionary["overview"] = {
  alive: "全部在线",
  done: "最近一小时完成",
  dueNow: (count) => `${count} 个已到期`,
  failed: "最近一小时失败",
  failures: "最近的错误",
  flows: "流程",
  held: "受限",
  heldBack: "受限类型",
  kinds: "类型",
  lastHour: "最近一小时（按分钟）",
  noAlerts: "最近 30 天没有告警。",
  noFailures: "没有错误。",
  noFlows: "没有正在运行或失败的流程。",
  noKinds: "没有声明任何类型",
  noKindsText: "用 @app.task 装饰一个函数，然后重新启动控制台。",
  noWorkers: "没有工作进程。启动一个：",
  ofKinds: (count) => `共 ${count} 个类型`,
  perMinute: (count) => `上一分钟 ${count} 个`,
  running: "运行中",
  silent: (count) => `${count} 个没有心跳`,
  workers: "工作进程",
};
