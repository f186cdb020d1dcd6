/** English. Every other language has the same keys, or it does not compile. */
import { about } from "./about";
import { alert, promise } from "./alert";
import { audit } from "./audit";
import { control } from "./control";
import { flow } from "./flow";
import { ledger } from "./ledger";
import { overview } from "./overview";
import { ring } from "./ring";
import { cron, rolling } from "./rolling";
import { said } from "../said/en";
import { sweep } from "./sweep";
import { downstream, switch_ } from "./switch";
import { form, queue, task } from "./task";
import { token } from "./token";
import { shared } from "./shared";

export const en = {
  ...shared,
  about,
  alert,
  audit,
  control,
  cron,
  downstream,
  flow,
  form,
  ledger,
  overview,
  promise,
  queue,
  ring,
  rolling,
  said,
  sweep,
  switch: switch_,
  task,
  token,
};

export type Dictionary = typeof en;
