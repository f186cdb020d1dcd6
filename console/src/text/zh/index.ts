/** Chinese. */
import type { Dictionary } from "../en";
import { about } from "./about";
import { alert, promise } from "./alert";
import { audit } from "./audit";
import { control } from "./control";
import { flow } from "./flow";
import { ledger } from "./ledger";
import { overview } from "./overview";
import { ring } from "./ring";
import { cron, rolling } from "./rolling";
import { said } from "../said/zh";
import { sweep } from "./sweep";
import { downstream, switch_ } from "./switch";
import { form, queue, task } from "./task";
import { token } from "./token";
import { shared } from "./shared";

export const zh: Dictionary = {
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
