/** A sentence of the server, in the user's language. */
import { useText } from "../text";
import { sentence, type Said as Given } from "../text/said";

export function Said({ said }: { said: Given }) {
  const { t, f } = useText();
  return <>{sentence(said, t, f)}</>;
}
