/** A graph as text, for documents and for other programs. */
import { useState } from "react";
import type { Answer } from "../../api/call";
import { useLive, type Resource } from "../../data/hook";
import { prettyJson } from "../../format/format";
import { Button, Plain } from "../../part/basic";
import { Segments } from "../../part/control";
import { Dialog } from "../../part/dialog";
import { Faces } from "../../part/faces";
import { useTell } from "../../part/toast";
import { useText } from "../../text";

const FORMATS = [
  { value: "mermaid", label: "Mermaid" },
  { value: "dot", label: "Graphviz" },
  { value: "json", label: "JSON" },
] as const;

type Format = (typeof FORMATS)[number]["value"];
type Exported = Resource<Answer<"flows/{number}/export">>;

interface ExportProps {
  onClose: () => void;
}

export function RunExport({ run, onClose }: ExportProps & { run: number }) {
  const [format, setFormat] = useState<Format>("mermaid");
  const resource = useLive("flows/{number}/export", {
    params: { number: run },
    query: { format },
  });
  return <ExportDialog {...{ resource, format, onFormat: setFormat, onClose }} />;
}

export function TemplateExport({
  name,
  version,
  onClose,
}: ExportProps & { name: string; version: number }) {
  const [format, setFormat] = useState<Format>("mermaid");
  const resource = useLive("templates/{name}/export", {
    params: { name },
    query: { format, version },
  });
  return <ExportDialog {...{ resource, format, onFormat: setFormat, onClose }} />;
}

interface DialogProps extends ExportProps {
  resource: Exported;
  format: Format;
  onFormat: (format: Format) => void;
}

function ExportDialog({ resource, format, onFormat, onClose }: DialogProps) {
  const { t } = useText();
  const tell = useTell();
  const text = resource.data?.text ?? "";
  const shown = format === "json" ? prettyJson(text) : text;
  // Browsers offer the clipboard only over HTTPS.
  const canCopy = window.isSecureContext;
  const copy = async () => {
    await navigator.clipboard.writeText(shown);
    tell("good", t.flow.copied);
  };
  return (
    <Dialog title={t.flow.export} onClose={onClose}>
      <Segments label={t.flow.export} value={format} choices={FORMATS} onChoose={onFormat} />
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
