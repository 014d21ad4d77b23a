// The answers of the API, as src/operations and docs/openapi.json describe them.

import type { Json } from "./json";

export interface List<T> {
  items: T[];
}
export interface PageOf<T> {
  items: T[];
  next: string | null;
}
export type Time = string;

export interface Session {
  name: string | null;
  right: "none" | "view" | "operate";
  tokens: boolean;
  csrf: string | null;
}

export interface Finding {
  severity: "error" | "warning";
  object: string;
  what: string;
  fix: string | null;
  note: string | null;
}
export interface Server {
  postgresql: string;
  database: string;
  user: string;
  installed: string;
  form: string;
  wake_up: string;
  preloaded: boolean;
  standby: boolean;
  leader: string | null;
  jobs_run_by: string | null;
  program: string;
}
export interface Overview {
  server: Server;
  totals: {
    outboxes: number;
    groups: number;
    pipelines: number;
    inboxes: number;
    stream_tables: number;
    dead_letters: number;
    published: number;
  };
  findings: Finding[];
}
export interface Doctor {
  server: Server;
  checks: { check: string; findings: Finding[] }[];
  findings: Finding[];
}

export interface RelayPipeline {
  pipeline: string;
  group: string | null;
  state: string;
  detail: string;
  trouble: string;
  delivered: number;
  failed: number;
  buffered: number;
  p50_ms: number | null;
  p99_ms: number | null;
}
// With the relay that says so; see GET /relays.
export interface RunningPipeline extends RelayPipeline {
  relay: string;
}
export interface Relay {
  name: string | null;
  pipelines: RelayPipeline[];
  ready: boolean;
  reasons: string[];
  started_at: Time | null;
}

export const seriesNames = ["published", "delivered", "failed", "lag_events", "lag_seconds", "dead_letters", "p50_ms", "p99_ms"] as const;
export type SeriesName = (typeof seriesNames)[number];
export type Values = (number | null)[];
export interface History {
  step: number;
  times: number[];
  series: Record<SeriesName, Values>;
  pipelines: Record<string, Partial<Record<SeriesName, Values>>>;
  groups: Record<string, Partial<Record<SeriesName, Values>>>;
}
export interface Tick {
  at: number;
  overview: Overview | null;
  relay: Relay | null;
  pipelines: RunningPipeline[]; // of all relays
  sample: Partial<Record<SeriesName, number | null>>;
}
export interface Alert {
  at: Time;
  event: string;
  object: string;
  detail: Json;
}

export interface Outbox {
  outbox: string;
  kind: string;
  payload_type: string;
  events: number;
  last_offset: number | null;
  bytes: number | null;
  partitions: number | null;
  retention_seconds: number | null;
  oldest: Time | null;
  newest: Time | null;
  published: number | null;
  groups: number | null;
  dead_letters: number | null;
  claim_checks: number | null;
  storage: string | null;
  problem: string | null;
}
export interface Partition {
  partition: string;
  state: string;
  first_offset: number;
  end_offset: number;
  since: Time | null;
  bytes: number | null;
  waits_for: string[] | null;
}
export interface Event {
  outbox?: string; // in a search of all
  row?: string | null; // in an adopted outbox
  offset: number | null; // in baton's own
  event_id: string;
  event_type: string;
  aggregate_type: string | null;
  aggregate_id: string | null;
  key: string | null;
  topic: string | null;
  tenant_id: string | null;
  trace_id: string | null;
  occurred_at: Time;
  payload: Json;
  headers: Json;
}
export interface FailedAttempt {
  at: Time;
  attempt: number;
  error: string | null;
}
export interface Delivery {
  group_name: string;
  state: string;
  attempts: number;
  consumer: string | null;
  leased_until: Time | null;
  due_at: Time | null;
  error: string | null;
  failures: FailedAttempt[] | null;
  dead_letter: number | string | null;
  leased_at: Time | null;
  parked_at: Time | null;
  settled_at: Time | null;
}
export interface Arrival {
  inbox: string;
  state: string;
  attempts: number | null;
  error: string | null;
  received_at: Time | null;
  processed_at: Time | null;
  leased_by: string | null;
  dead_letter: string | null;
}
export interface EventWay {
  outbox: string;
  row: string | null; // in an adopted outbox
  event: Event;
  committed_at: Time | null;
  groups: Delivery[];
  inboxes: Arrival[];
  actions: { at: Time; actor: string; acting_for: string | null; action: string; object: string }[];
}
export interface Group {
  group: string;
  outbox: string;
  tenant_id: string | null;
  ordered: boolean;
  lag_events: number | null;
  lag_seconds: number | null;
  consumers: number | null;
  healthy_consumers: number | null;
  owner: string | null;
  owned_until: Time | null;
  retrying: number;
  blocked: number;
  dead_letters: number;
  max_attempts: number;
  on_poison: string;
}
export interface Consumer {
  consumer: string;
  last_offset: number | null;
  last_heartbeat: Time | null;
  heartbeat_age_seconds: number | null;
  healthy: boolean;
  leases: number;
}
export interface Lease {
  group: string;
  consumer: string;
  kind: string;
  first_offset: number;
  last_offset: number;
  leased_until: Time | null;
}
export interface BlockedAggregate {
  aggregate: string;
  reason: "gap" | "dead" | "retry" | "scheduled";
  event_id: string | null;
  attempts: number | null;
  error: string | null;
  waiting_since: Time;
  letter: string | null;
  cursor: string;
}
export interface BlockedKey {
  key: string;
  offset: number;
  state: string;
  attempts: number;
  due_at: Time | null;
  error: string | null;
  waiting: number;
}
export interface Pipeline {
  pipeline: string;
  kept_in: "catalog" | "file";
  enabled: boolean | null; // what follows with null: nothing in a relay's file tells
  state: string;
  trouble: string | null;
  trouble_since: Time | null;
  source: string | null;
  group: string | null;
  sink: string | null;
  owner: string | null;
  owned_until: Time | null;
  delivered: number | null;
  failed: number | null;
  lag_events: number | null;
  lag_seconds: number | null;
  dead_letters: number | null;
  revision: number | null;
  updated_at: Time | null;
  updated_by: string | null;
  settings: Json;
}
export interface RenderedMessage {
  offset: number;
  destination: string;
  key: string | null;
  headers: Json;
  body: string;
  event_id: string;
}
// What a pipeline would send: of the events that wait, or of the last ones where none waits.
export interface Rendered {
  waiting: boolean;
  items: RenderedMessage[];
  left_out: { offset: number; why: string }[];
}
export interface Inbox {
  inbox: string;
  table: string;
  layout: string;
  pending: number;
  oldest_seconds: number | null;
  dead_letters: number;
  ordered: boolean;
  prioritised: boolean;
  max_retries: number | null;
  retention_hours: number | null;
  health: string;
}
export interface Message {
  event_id: string;
  event_type: string;
  source: string | null;
  aggregate_id: string | null;
  sequence_num: number | null;
  state: string;
  attempts: number;
  error: string | null;
  received_at: Time;
  processed_at: Time | null;
  leased_by: string | null;
  leased_until: Time | null;
  trace_id: string | null;
  payload: Json;
  headers: Json;
}
export interface Gap {
  aggregate: string;
  expected: number;
  found: number;
  seconds: number;
}
export interface Letter {
  letter: string;
  kind: "group" | "inbox" | "outbox";
  place: string;
  event_offset: number | null;
  event_id: string;
  tenant_id: string | null;
  event_type: string;
  aggregate_id: string | null;
  key: string | null;
  attempts: number;
  error: string | null;
  died_at: Time;
  payload: Json;
  headers: Json;
  failures: FailedAttempt[];
}
export interface StreamTable {
  stream_table: string;
  state: string;
  mode: string;
  effective_mode: string;
  reason: string | null;
  schedule: string | null;
  next_due: Time | null;
  refreshed_at: Time | null;
  last_mode: string | null;
  last_inserted: number | null;
  last_deleted: number | null;
  last_milliseconds: number | null;
  refreshes: number;
  failed_in_a_row: number;
  error: string | null;
  outbox: string | null;
}
export interface Refresh {
  begun_at: Time;
  mode: string;
  inserted: number | null;
  deleted: number | null;
  milliseconds: number | null;
  error: string | null;
}
export interface Job {
  job: string;
  enabled: boolean;
  every_seconds: number;
  last_run: Time | null;
  last_seconds: number | null;
  next_due: Time | null;
  runs: number;
  failed_in_a_row: number;
  error: string | null;
}
export interface Setting {
  setting: string;
  value: string;
  default: string;
  kind: string;
  about: string;
  updated_at: Time | null;
  updated_by: string | null;
}
export interface Action {
  at: Time;
  actor: string;
  acting_for: string | null;
  action: string;
  object: string;
  details: Json;
  cursor: string;
}
export interface Publisher {
  outbox: string;
  pid: number;
  role: string;
  application: string;
  since: Time;
  seconds: number;
  state: string;
}
