-- One row, written by the installer: which version is here and in which form.
create table baton.installation (
    singleton    boolean     primary key default true check (singleton),
    version      text        not null,
    form         text        not null check (form in ('extension', 'sql')),
    installed_at timestamptz not null default now(),
    updated_at   timestamptz not null default now()
);
comment on table baton.installation is 'installed version and form (extension or plain SQL)';
