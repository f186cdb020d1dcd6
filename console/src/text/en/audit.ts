/** English, of the audit log. */
export const audit = {
  about: "About",
  action: "Action",
  by: (who: string) => `by ${who}`,
  findAbout: "About, for example a kind",
  lead: "Who did what, when, and with what result.",
  noMatch: "Nothing matches",
  none: "No actions yet",
  noneText: "Actions in the console, on the command line and through the API are recorded here.",
  ok: "done",
  outcome: "Outcome",
  refused: "failed",
  unknown: "unknown",
};
