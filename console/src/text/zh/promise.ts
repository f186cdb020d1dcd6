/** Chinese, of promises. */
import type { Dictionary } from "../en";

export const promise: Dictionary["promise"] = {
  cure: "补救办法",
  forecast: "预测",
  lead: "各类型必须做到的事：每个条目在周期内被访问，一轮扫描或一个任务按时完成。",
  none: "没有承诺",
  noneText: "声明一个：",
  promise: "承诺",
  rates: "速率/需要",
  see: "承诺",
  state: "状态",
  states: { kept: "守约", "at risk": "有风险", broken: "已违约", unknown: "未知" },
};
