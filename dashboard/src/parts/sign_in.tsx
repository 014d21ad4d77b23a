import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { Problem, session, signIn, signingIn, signOut } from "../api";
import { connect } from "../live";
import { plain } from "../format";
import { useStore } from "../store";
import type { Session } from "../types";
import { attempt } from "./act";
import { Command, Refused } from "./basic";
import { Dialog } from "./dialog";
import { Icon } from "./icons";
import { notify } from "./notices";

function TokenForm({ done }: { done: () => void }): JSX.Element {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const id = useId();
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(token.trim());
      const who = session.get();
      notify(`signed in as ${who?.name ?? "somebody"}: you may ${who?.right === "operate" ? "look and change" : "look"}`);
      connect();
      done();
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(String(error)));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form onSubmit={submit}>
      <div class="dialog-body">
        {problem && <Refused problem={problem} />}
        <div class="field">
          <label for={id}>Token</label>
          <input id={id} type="password" value={token} required autoFocus autocomplete="off" onInput={(event) => setToken(event.currentTarget.value)} />
        </div>
        <p class="faint">The token of an operator allows changes, that of a viewer looking. Every change stands in the audit trail under its name.</p>
      </div>
      <footer><button type="submit" class="primary" disabled={busy || !token.trim()}>Sign in</button></footer>
    </form>
  );
}

const howToSetOne = "BATON_API_TOKEN=$(openssl rand -hex 24) baton relay --config relay.toml --listen 127.0.0.1:9187";

export function SignInDialog(): JSX.Element | null {
  const open = useStore(signingIn);
  const who = useStore(session);
  if (!open) return null;
  const close = (): void => signingIn.set(false);
  return (
    <Dialog title={who?.tokens ? "Sign in" : "No token is set"} onClose={close}>
      {who?.tokens ? (
        <TokenForm done={close} />
      ) : (
        <div class="dialog-body">
          <p>This page may look and not change anything: the program that serves it knows no token. Start it with one to replay, edit and set things here:</p>
          <Command>{howToSetOne}</Command>
        </div>
      )}
    </Dialog>
  );
}

// The whole page, where looking needs a token.
export function SignInPage(): JSX.Element {
  return (
    <main class="sign-in" id="main">
      <div class="dialog panel">
        <header><h1>baton</h1></header>
        <TokenForm done={() => undefined} />
      </div>
    </main>
  );
}

const roleOf = (who: Session): string => (who.right === "operate" ? "operator" : "viewer");

export function Account(): JSX.Element {
  const who = useStore(session);
  if (who?.name)
    return (
      <span class="account">
        <Icon name="user" />
        <bdi>{plain(who.name)}</bdi>
        {who.name !== roleOf(who) && <span class="faint">{roleOf(who)}</span>}
        <button type="button" class="ghost small" onClick={() => attempt(signOut, () => "signed out")}>Sign out</button>
      </span>
    );
  return <button type="button" class="small" onClick={() => signingIn.set(true)}><Icon name="user" size={14} />{who?.tokens ? "Sign in" : "Read only"}</button>;
}
