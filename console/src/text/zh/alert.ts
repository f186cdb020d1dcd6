/** Chinese, of alerts. */
import type { Dictionary } from "../en";

export const alert: Dictionary["alert"] = {
  lead: "需要关注的问题。告警保留 30 天。",
  allSeen: "没有未确认的告警",
  allSeenText: "所有告警都已看到。新的告警会出现在这里。",
  isOpen: (trouble) => `“${trouble}”重新待处理`,
  open: "未确认",
  openCount: (count) => `${count} 条未确认`,
  quiet: "静音 1 小时",
  quietText: (trouble) => `“${trouble}”的所有告警静音一小时，新来的也一样；之后重新提醒。`,
  quietUntil: (time) => `静音至 ${time}`,
  seen: "已看到",
  seenBy: (who) => `${who} 已看到`,
  seenText: (trouble) => `到现在为止的“${trouble}”告警您都已看到；有新的会再提醒。`,
  state: "处理",
  trouble: (what, kind) => `${kind} 的 ${what}`,
  undo: "撤销",
  wasQuieted: (trouble) => `“${trouble}”静音一小时`,
  wasSeen: (trouble) => `“${trouble}”已确认；有新的会再提醒`,
  none: "没有告警",
  noneText: "熔断器打开、任务有毒或承诺违约时，会在这里告知。",
  text: "发生了什么",
  what: "告警",
};
