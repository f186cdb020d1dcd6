/** The name and the sign of Windlass. */
export function Mark() {
  return (
    <span className="mark">
      <svg viewBox="0 0 32 32" aria-hidden>
        <rect width="32" height="32" rx="8" />
        <circle cx="16" cy="16" r="6.2" />
        <path d="M16 3.800v6M16 22.200v6M3.800 16h6M22.200 16h6M7.400 7.400l4.200 4.200M20.400 20.400l4.200 4.200M24.600 7.400l-4.200 4.200M11.600 20.400l-4.200 4.200" />
      </svg>
      Windlass
    </span>
  );
}
