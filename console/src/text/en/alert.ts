/** English, of alerts. */
export const alert = {
  lead: "Problems that need attention. Alerts are kept for 30 days.",
  allSeen: "No open alerts",
  allSeenText: "Every alert has been seen. New alerts appear here.",
  isOpen: (trouble: string) => `${trouble} is open again`,
  open: "Open",
  openCount: (count: string) => `${count} open`,
  quiet: "Quiet for 1 h",
  quietText: (trouble: string) =>
    `All “${trouble}” alerts are quiet for an hour, new ones too; then they are open again.`,
  quietUntil: (time: string) => `quiet until ${time}`,
  seen: "Seen",
  seenBy: (who: string) => `seen by ${who}`,
  seenText: (trouble: string) =>
    `Marks all “${trouble}” alerts up to now as seen; a new one is shown again.`,
  state: "State",
  trouble: (what: string, kind: string) => `${what} of ${kind}`,
  undo: "Undo",
  wasQuieted: (trouble: string) => `${trouble} is quiet for an hour`,
  wasSeen: (trouble: string) => `${trouble} is marked as seen; a new one is shown again`,
  none: "No alerts",
  noneText: "When a breaker opens, a task is poison or a promise breaks, an alert appears here.",
  text: "What happened",
  what: "Alert",
};
