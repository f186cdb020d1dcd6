/** English, of promises. */
export const promise = {
  cure: "What would help",
  forecast: "Forecast",
  lead: "What kinds must keep: each item in its period, a round or a task in time.",
  none: "No promises",
  noneText: "Declare one:",
  promise: "Promise",
  rates: "Rate / needed",
  see: "Promises",
  state: "State",
  states: { kept: "kept", "at risk": "at risk", broken: "broken", unknown: "unknown" },
};
