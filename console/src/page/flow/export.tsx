/** A graph as text, for documents and for other programs. */
import { useState } from "react";
import type { ExportOut } from "../../api/model";
import { useLive } from "../../data/hook";
import { prettyJson } from "../../format/format";
import { Button, Plain } from "../../part/basic";
import { Segments } from "../../part/control";
import { Dialog } from "../../part/dialog";
import { Faces } from "../../part/faces";
import { useTell } from "../../part/toast";
import { queryOf } from "../../route/address";
import { useText } from "../../text";

const FORMATS = [
  { value: "mermaid", label: "Mermaid" },
  { value: "dot", label: "Graphviz" },
  { value: "json", label: "JSON" },
] as const;

interface ExportProps {
  path: string;
  version?: number;
  onClose: () => void;
}

export function ExportDialog({ path, version, onClose }: ExportProps) {
  const { t } = useText();
  const tell = useTell();
  const [format, setFormat] = useState<(typeof FORMATS)[number]["value"]>("mermaid");
  const resource = useLive<ExportOut>(path + queryOf({ format, version }), []);
  const text = resource.data?.text ?? "";
  const shown = format === "json" ? prettyJson(text) : text;
  // Browsers have it only where nobody can listen in.
  const canCopy = window.isSecureContext;
  const copy = async () => {
    await navigator.clipboard.writeText(shown);
    tell("good", t.flow.copied);
  };
  return (
    <Dialog title={t.flow.export} onClose={onClose}>
      <Segments label={t.flow.export} value={format} choices={FORMATS} onChoose={setFormat} />
      <div className="export">
        <Faces resource={resource}>{() => <Plain text={shown} label={t.flow.export} />}</Faces>
      </div>
      <div className="dialog-actions">
        <Button onClick={onClose}>{t.common.close}</Button>
        {canCopy && (
          <Button icon="copy" look="main" disabled={text === ""} onClick={() => void copy()}>
            {t.flow.copy}
          </Button>
        )}
      </div>
    </Dialog>
  );
}
