/** Icons: strokes on a 20 by 20 grid, in the colour of the text around them. */

const PATHS = {
  overview: "M3 11a7 7 0 0 1 14 0M10 11l3.2-3.6M3 15h14",
  task: "M4 5h12M4 10h12M4 15h7",
  rolling: "M16 10a6 6 0 1 1-1.8-4.3M16 3v3.5h-3.5",
  sweep: "M3 6h14M3 10h9M3 14h5M12 8v4M8 12v4",
  flow: "M3 8h4v4H3zM13 3h4v4h-4zM13 13h4v4h-4zM7 10h3M13 5h-3v10h3",
  control: "M5 4v12M5 6h6a2 2 0 0 1 0 4H8a2 2 0 0 0 0 4h7M13 12l2 2-2 2",
  ring: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM10 3v4M16 13.5l-3.4-2M4 13.5l3.4-2",
  ledger: "M4 3h10l2 2v12H4zM7 8h6M7 11h6M7 14h3",
  queue: "M3 5h14v10H3zM3 6l7 5 7-5",
  switch: "M7 6h6a4 4 0 0 1 0 8H7a4 4 0 0 1 0-8zM13 10h.01",
  downstream: "M3 4h6v4H3zM11 12h6v4h-6zM6 8v6h5M9 12l2 2-2 2",
  alert: "M10 3a4.5 4.5 0 0 1 4.5 4.5V11l1.5 3H4l1.5-3V7.5A4.5 4.5 0 0 1 10 3zM8.5 16.5h3",
  promise: "M10 3l6 2v5c0 3.500-2.500 6-6 7-3.500-1-6-3.500-6-7V5zM7 10l2.200 2.200L13 8",
  audit: "M5 3h10v14H5zM8 7h4M8 10h4M8 13h2",
  settings: "M4 6h6M14 6h2M12 4v4M4 14h2M10 14h6M8 12v4",
  search: "M9 4a5 5 0 1 0 0 10A5 5 0 0 0 9 4zM13 13l4 4",
  close: "M5 5l10 10M15 5L5 15",
  menu: "M3 6h14M3 10h14M3 14h14",
  check: "M4 10.5l4 4L16 6",
  warning: "M10 4l7 12H3zM10 9v3M10 14h.01",
  pause: "M7 5v10M13 5v10",
  play: "M7 5l8 5-8 5z",
  retry: "M4 10a6 6 0 1 0 2-4.5M4 3v4h4",
  cancel: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM5 5l10 10",
  sun: "M10 7a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM10 2v2M10 16v2M2 10h2M16 10h2M4.5 4.5l1.3 1.3M14.2 14.2l1.3 1.3M15.5 4.5l-1.3 1.3M5.8 14.2l-1.3 1.3",
  moon: "M16 12.5A7 7 0 0 1 7.5 4a6.5 6.5 0 1 0 8.500 8.500z",
  next: "M8 5l5 5-5 5",
  first: "M12 5l-5 5 5 5",
  clock: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM10 6v4l3 2",
  worker: "M4 5h12v8H4zM7 16h6M10 13v3",
  plus: "M10 4v12M4 10h12",
  copy: "M7 7h9v9H7zM4 13V4h9",
  leave: "M8 4H4v12h4M8 10h9M14 7l3 3-3 3",
  cut: "M10 3v14M6 7l-3 3 3 3M14 7l3 3-3 3",
  dot: "M10 8a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
  bolt: "M11 3l-6 8h4l-1 6 6-8h-4z",
  key: "M7 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM9.200 9.800L16 3M13.500 5.500l2 2",
  link: "M8 12l4-4M7 9l-2 2a3 3 0 0 0 4 4l2-2M13 11l2-2a3 3 0 0 0-4-4L9 7",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, label }: { name: IconName; label?: string }) {
  return (
    <svg
      className="icon"
      viewBox="0 0 20 20"
      role={label ? "img" : undefined}
      aria-label={label}
      aria-hidden={label ? undefined : true}
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
