// Runs before the first paint, so that the page does not flash in the other theme.
try {
  const theme = localStorage.getItem("windlass.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden; then the system's preference is used.
}
