import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { change, path } from "../api";
import { plain } from "../format";
import { Act, attempt } from "../parts/act";
import { Ago, Badge, Empty, Loading, Page, Panel, Refused } from "../parts/basic";
import { Dialog } from "../parts/dialog";
import { FilterField, Filters } from "../parts/form";
import { Table } from "../parts/table";
import { useResource } from "../resource";
import { setQuery, usePlace } from "../router";
import type { List, Setting } from "../types";

export function SettingsPage(): JSX.Element {
  const { data, problem, reload } = useResource<List<Setting>>("/settings", 15_000);
  const [editing, setEditing] = useState<Setting | null>(null);
  const find = usePlace().query.get("find") ?? "";
  const rows = data?.items.filter((one) => `${one.setting} ${one.about}`.toLowerCase().includes(find.toLowerCase())) ?? [];
  return (
    <Page title="Settings" about="Of this database. What differs from its default is marked.">
      {problem && <Refused problem={problem} retry={reload} />}
      {data ? (
        <Panel flush>
          <Filters><FilterField label="Find" value={find} onChange={(words) => setQuery({ find: words })} wide /></Filters>
          <Table<Setting> caption="settings" rows={rows} id={(one) => one.setting}
            columns={[
              { name: "setting", sort: (one) => one.setting, cell: (one) => <code>{plain(one.setting)}</code> },
              { name: "value", cell: (one) => <span class="nowrap"><strong class="tabular">{plain(one.value)}</strong> {one.value !== one.default && <Badge tone="accent">changed</Badge>}</span> },
              { name: "default", cell: (one) => <span class="faint tabular">{plain(one.default)}</span> },
              { name: "what it does", wide: true, cell: (one) => plain(one.about) },
              { name: "set", cell: (one) => (one.updated_at ? <><Ago at={one.updated_at} /> <span class="faint">by <bdi>{plain(one.updated_by)}</bdi></span></> : <span class="faint">never</span>), hideEmpty: (one) => !one.updated_at },
              { name: "", cell: (one) => <Act small label={`change ${one.setting}`} onClick={() => setEditing(one)}>Change…</Act> },
            ]}
            empty={<Empty icon="settings" title="No setting fits" />} />
        </Panel>
      ) : !problem && <Loading />}
      {editing && <SettingDialog setting={editing} close={() => setEditing(null)} />}
    </Page>
  );
}

function SettingDialog({ setting, close }: { setting: Setting; close: () => void }): JSX.Element {
  const [value, setValue] = useState(setting.value);
  const id = useId();
  const save = async (event: globalThis.Event): Promise<void> => {
    event.preventDefault();
    if (await attempt(() => change("PUT", path`/settings/${setting.setting}`, { value }), () => `${setting.setting} is ${value} now`)) close();
  };
  return (
    <Dialog title={setting.setting} onClose={close}>
      <form onSubmit={save}>
        <div class="dialog-body">
          <p>{plain(setting.about)}</p>
          <div class="field">
            <label for={id}>Value, {plain(setting.kind)}</label>
            {setting.kind === "boolean"
              ? <select id={id} value={value} onChange={(event) => setValue(event.currentTarget.value)}><option value="on">on</option><option value="off">off</option></select>
              : <input id={id} value={value} required autoFocus inputMode={setting.kind === "integer" ? "numeric" : undefined} onInput={(event) => setValue(event.currentTarget.value)} />}
          </div>
          <p class="faint">Default: {plain(setting.default)}</p>
        </div>
        <footer>
          <button type="button" onClick={() => setValue(setting.default)}>Default</button>
          <button type="button" onClick={close}>Cancel</button>
          <button type="submit" class="primary" disabled={value === setting.value}>Set</button>
        </footer>
      </form>
    </Dialog>
  );
}
