/** Chinese, of the audit log. */
import type { Dictionary } from "../en";

export const audit: Dictionary["audit"] = {
  about: "对象",
  action: "操作",
  by: (who) => `操作者：${who}`,
  findAbout: "对象，例如一个类型",
  lead: "谁在什么时候做了什么，结果如何。",
  noMatch: "没有符合的记录",
  none: "还没有操作",
  noneText: "在这里、命令行或 API 所做的操作都会被记录。",
  ok: "完成",
  outcome: "结果",
  refused: "失败",
  unknown: "未知",
};
