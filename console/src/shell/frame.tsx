/** The frame around every page: menu, live state, keys, and the page itself. */
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { cache } from "../data/cache";
import { useLive } from "../data/hook";
import { Live, type LiveState } from "../data/live";
import { Page } from "../part/basic";
import { Dialog } from "../part/dialog";
import { Empty } from "../part/faces";
import { Icon } from "../part/icon";
import { Link, useAddress } from "../route/router";
import { useText } from "../text";
import { useKeys } from "./keys";
import { Mark } from "./mark";
import { contentOf, entryOf, PAGES } from "./page";
import { canLeave, useSession } from "./session";
import { isDark, useTheme } from "./theme";

const GROUPS = ["watch", "work", "rule"] as const;

export function Frame() {
  const { t } = useText();
  const { parts } = useAddress();
  const [isHelp, setHelp] = useState(false);
  const [isOpen, setOpen] = useState(false);
  const live = useLiveState();
  const letters = useMemo(() => new Map(PAGES.map((page) => [page.letter, page.path])), []);
  const help = useCallback(() => setHelp(true), []);
  const main = useRef<HTMLElement>(null);
  const place = parts.join("/");
  const open = useOpenAlerts();
  useKeys(letters, help);

  useEffect(() => {
    const entry = entryOf(place.split("/"));
    const name = entry ? t.menu[entry.name] : t.common.nowhere;
    const words = [place.split("/")[1], name, "Windlass"].filter(Boolean).join(" · ");
    document.title = open ? `(${open}) ${words}` : words;
  }, [place, t, open]);

  useEffect(() => setOpen(false), [place]);

  return (
    <div className={`frame ${isOpen ? "open" : ""}`}>
      <a
        className="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        {t.common.skip}
      </a>
      <header className="side">
        <div className="side-top">
          <Link to="" aria-label="Windlass">
            <Mark />
          </Link>
          <button
            type="button"
            className="button quiet menu-button"
            aria-expanded={isOpen}
            aria-label={t.common.menu}
            onClick={() => setOpen(!isOpen)}
          >
            <Icon name={isOpen ? "close" : "menu"} />
            {open && !isOpen && <span className="count">{open}</span>}
          </button>
        </div>
        <Menu current={parts[0] ?? ""} open={open} />
        <SideFoot live={live} onHelp={help} />
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        {contentOf(parts) ?? (
          <Page title={t.common.nowhere}>
            <Empty title={t.common.nowhereText} />
          </Page>
        )}
      </main>
      {isHelp && <Help onClose={() => setHelp(false)} />}
    </div>
  );
}

function Menu({ current, open }: { current: string; open: string }) {
  const { t } = useText();
  return (
    <nav className="menu" aria-label={t.common.menu}>
      {GROUPS.map((group) => (
        <ul key={group}>
          {PAGES.filter((page) => page.group === group).map((page) => (
            <li key={page.name}>
              <Link to={page.path} aria-current={page.path === current ? "page" : undefined}>
                <Icon name={page.icon} />
                {t.menu[page.name]}
                {page.name === "alerts" && open && (
                  <span className="count" aria-label={t.alert.openCount(open)}>
                    {open}
                  </span>
                )}
              </Link>
            </li>
          ))}
        </ul>
      ))}
    </nav>
  );
}

function SideFoot({ live, onHelp }: { live: LiveState; onHelp: () => void }) {
  const { t, language, setLanguage } = useText();
  const { session, leave } = useSession();
  const [theme, choose] = useTheme();
  const dark = isDark(theme);
  return (
    <div className="side-foot">
      <p className={`live ${live}`} role="status">
        <span className="live-dot" aria-hidden />
        {t.live[live]}
      </p>
      <p className="who">
        <span title={session.name ?? ""}>{session.name}</span>
        {session.read_only && <span className="badge tone-idle">{t.common.readOnly}</span>}
      </p>
      <div className="side-buttons">
        <button
          type="button"
          className="button quiet"
          aria-label={dark ? t.common.light : t.common.dark}
          title={dark ? t.common.light : t.common.dark}
          onClick={() => choose(dark ? "light" : "dark")}
        >
          <Icon name={dark ? "sun" : "moon"} />
        </button>
        <button
          type="button"
          className="button quiet"
          lang={language === "en" ? "zh-CN" : "en"}
          onClick={() => setLanguage(language === "en" ? "zh" : "en")}
        >
          {language === "en" ? "中文" : "English"}
        </button>
        <button type="button" className="button quiet" aria-label={t.help.title} onClick={onHelp}>
          ?
        </button>
        {canLeave(session) && (
          <button
            type="button"
            className="button quiet"
            aria-label={t.door.leave}
            title={t.door.leave}
            onClick={leave}
          >
            <Icon name="leave" />
          </button>
        )}
      </div>
    </div>
  );
}

function Help({ onClose }: { onClose: () => void }) {
  const { t } = useText();
  const lines: [string, string][] = [
    ...PAGES.map((page): [string, string] => [`g ${page.letter}`, t.menu[page.name]]),
    ["/", t.help.search],
    ["Esc", t.help.close],
    ["?", t.help.title],
  ];
  return (
    <Dialog title={t.help.title} onClose={onClose}>
      <dl className="keys">
        {lines.map(([keys, words]) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

/** The number of open alerts as a short text; empty if there are none. */
function useOpenAlerts(): string {
  const { data } = useLive("alerts/open", { topics: ["alerts"] });
  if (!data?.count) return "";
  return data.count > 99 ? "99+" : String(data.count);
}

function useLiveState(): LiveState {
  const [state, setState] = useState<LiveState>("offline");
  useEffect(() => {
    const live = new Live((topics) => cache.changed(topics), setState);
    live.start();
    return () => live.stop();
  }, []);
  return state;
}
