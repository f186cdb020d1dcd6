import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ConfirmProvider } from "./part/dialog";
import { ToastProvider } from "./part/toast";
import { Door } from "./shell/door";
import { TextProvider } from "./text";
import "./style/base.css";
import "./style/shell.css";
import "./style/part.css";
import "./style/dialog.css";
import "./style/table.css";
import "./style/picture.css";
import "./style/ledger.css";
import "./style/adapt.css";

const root = document.getElementById("root");
if (root === null) throw new Error("the page has no root");
createRoot(root).render(
  <StrictMode>
    <TextProvider>
      <ToastProvider>
        <ConfirmProvider>
          <Door />
        </ConfirmProvider>
      </ToastProvider>
    </TextProvider>
  </StrictMode>,
);
