// Derived from crates/schema and crates/show/src/*/page.rs; do not edit by hand.
// `WEIGH_BLESS=1 cargo test -p weigh-show` writes it anew.

export type MetricName =
  | "wall_seconds"
  | "cpu_seconds"
  | "cpu_user_seconds"
  | "cpu_system_seconds"
  | "cpu_cores_average"
  | "cpu_cores_peak"
  | "cpu_instructions_total"
  | "cpu_cycles_total"
  | "cpu_cache_misses_total"
  | "memory_peak_bytes"
  | "memory_peak_anonymous_bytes"
  | "memory_peak_shared_bytes"
  | "memory_peak_file_bytes"
  | "memory_peak_hugetlb_bytes"
  | "memory_peak_rss_sum_bytes"
  | "memory_peak_process_rss_bytes"
  | "memory_peak_cgroup_bytes"
  | "memory_peak_virtual_bytes"
  | "memory_peak_swap_bytes"
  | "oom_kills_total"
  | "io_read_bytes_total"
  | "io_written_bytes_total"
  | "io_read_calls_total"
  | "io_write_calls_total"
  | "mmap_read_bytes_total"
  | "mmap_written_bytes_total"
  | "storage_read_bytes_total"
  | "storage_written_bytes_total"
  | "files_opened_total"
  | "disk_footprint_peak_bytes"
  | "disk_growth_peak_bytes"
  | "disk_files_peak"
  | "disk_free_least_bytes"
  | "disk_free_inodes_least"
  | "net_sent_bytes_total"
  | "net_received_bytes_total"
  | "net_connections_total"
  | "net_retransmits_total"
  | "processes_total"
  | "processes_peak"
  | "threads_peak"
  | "context_switches_voluntary_total"
  | "context_switches_involuntary_total"
  | "page_faults_minor_total"
  | "page_faults_major_total"
  | "delay_cpu_seconds"
  | "delay_cpu_throttled_seconds"
  | "delay_cpu_own_seconds"
  | "delay_cpu_others_seconds"
  | "delay_cpu_stolen_seconds"
  | "delay_block_seconds"
  | "delay_reclaim_seconds"
  | "delay_swapin_seconds"
  | "node_pressure_cpu_some_seconds_total"
  | "node_pressure_memory_some_seconds_total"
  | "node_pressure_memory_full_seconds_total"
  | "node_pressure_io_some_seconds_total"
  | "node_pressure_io_full_seconds_total"
  | "gpu_memory_peak_bytes"
  | "gpu_seconds"
  | "gpu_utilization_ratio";

export type CollectorState = "active" | "degraded" | "unavailable" | "disabled";

export type ExitKind = "exited" | "signaled" | "limit" | "interrupted" | "failed_to_start" | "detached";

export type FileSystemPurpose = "working_directory" | "temporary" | "watched" | "recording" | "output";

export type Fold = "own" | "system" | "waited";

export type Group = "time" | "cpu" | "memory" | "io" | "storage" | "files" | "network" | "processes" | "scheduler" | "waiting" | "gpu" | "power";

export type Mechanism = "bpf" | "preload+bpf" | "ptrace" | "preload" | "preload+ptrace" | "fuse" | "perf" | "cgroup" | "proc" | "rusage" | "fanotify" | "inotify" | "stat" | "nvml" | "clock" | "none";

export type MetricKind = "counter" | "peak" | "floor" | "gauge";

export type ProgramState = "running" | "ended" | "cut_short" | "left";

export type Quality = "exact" | "sampled" | "estimated" | "unavailable";

export type RegionKind = "thread" | "region" | "phase" | "range";

export type RuleStanding = "holds" | "pending" | "unavailable";

export type SenderKind = "kernel" | "itself" | "job" | "other";

export type Severity = "critical" | "warning" | "note";

export type Tone = "good" | "open" | "bad";

export type TopJobKind = "weigh" | "slurm" | "unit" | "container";

export type Unit = "seconds" | "bytes" | "count" | "cores" | "ratio" | "threads" | "celsius" | "watts" | "joules";

export interface AdviceRow {
  rule: string;
  file: string;
  text: string;
}

export interface Amounts {
  seconds: number;
  calls: number;
  read_bytes: number;
  written_bytes: number;
}

export interface BusiestKind {
  rows: BusiestRow[];
  rows_total: number;
  jobs_without: number;
  jobs_cut: number;
}

export interface BusiestReport {
  schema: string;
  jobs: number;
  files: BusiestKind;
  connections: BusiestKind;
  phases: BusiestKind;
  syscalls: BusiestKind;
}

export interface BusiestRow {
  job: string;
  name: string;
  total: Amounts;
  per_second: Amounts | null;
}

export interface CallKindRow {
  call: string;
  calls: number;
  errors: number;
  bytes: number;
  total: number;
  p50: number;
  p99: number;
  max: number;
  later: number;
  parts: string;
}

export interface CallsPage {
  headline: string;
  total: number;
  rows: CallKindRow[];
  notes: string[];
}

export interface CollectorStatus {
  name: string;
  mechanism: Mechanism;
  status: CollectorState;
  reason?: string | null;
  lost: number;
}

export interface CoreUse {
  core: number;
  busy_ratio: number | null;
  steal_ratio: number | null;
}

export interface CounterRow {
  part: string;
  later: boolean;
  name: string;
  help: string;
  slow: string;
  ordinary: string;
  slow_calls: number;
  ordinary_calls: number;
}

export interface CounterSeries {
  name: string;
  process: number;
  rows: SeriesRows;
}

export interface DetailDoubt {
  about: string;
  quality: Quality;
  sign: string;
  reason: string;
  keys: string[];
}

export interface DetailField {
  key: string;
  word: string;
  help: string;
  unit: Unit;
}

export interface DetailPart {
  title: string;
  fields: DetailField[];
}

export interface DigestRow {
  label: string;
  text: string;
}

export interface EventRow {
  name: string;
  total: number;
  per_second: number;
  lost: number | null;
  which: string;
}

export interface Exit {
  kind: ExitKind;
  code: number | null;
  signal: number | null;
  sender?: Sender | null;
  limit: string | null;
  error?: string | null;
}

export interface ExplainPage {
  command: string;
  noun: string;
  calls: number;
  definitions: string;
  warnings: string[];
  parts: PartTitle[];
  kinds: KindRow[];
  left_out: number;
}

export interface FileDetails {
  parts: DetailPart[];
  doubt: DetailDoubt[];
  kind: string[];
  texts: string[];
  about: number[];
  numbers: number[][];
  kinds: number[][];
  read_sizes: number[][];
  write_sizes: number[][];
  read_strides: number[][];
  write_strides: number[][];
  slowest: (number | null)[];
  slowest_seconds: number[];
  slowest_at: number[];
  doubts: number[][];
}

export interface FileHeat {
  path: string;
  place_bytes: number;
  places: number;
  read: number[];
  written: number[];
}

export interface FileSystemRoom {
  mount: string;
  mount_base64?: string | null;
  kind: string;
  device: number;
  used_for: FileSystemPurpose[];
  at_start: Record<string, Value>;
  least: Record<string, Value>;
  at_end: Record<string, Value>;
}

export interface Files {
  total: number;
  paths: string[];
  path: number[];
  pid: number[];
  opened: number[];
  quality: Quality[];
  fold: Fold[];
  is_waited_at: boolean[];
  used: FilesUsed | null;
}

export interface FilesUsed {
  seconds: number[];
  read: (number | null)[];
  reads: (number | null)[];
  written: (number | null)[];
  writes: (number | null)[];
  is_bound: boolean[];
  mapped: number[];
  from_device: number[];
  to_device: number[];
  tid: number[];
  pattern: string[];
  details: FileDetails;
}

export interface FlatRegion {
  name: string;
  name_base64?: string | null;
  threads: number;
  calls: number;
  inclusive_seconds: number;
  exclusive_seconds: number;
  longest_thread_seconds: number;
  error_seconds?: number | null;
  min_seconds: number | null;
  max_seconds: number | null;
  unbalanced_calls?: number;
  open_calls?: number;
  ranks?: RankImbalance | null;
  quality: Quality;
  kernel_costs?: KernelCosts | null;
}

export interface FlowRow {
  writer: number;
  writer_name: string;
  reader: number;
  reader_name: string;
  name: string;
  is_file: boolean;
  bytes: number | null;
  text: string;
}

export interface GpuUse {
  pid: number;
  gpu: string;
  uuid: string | null;
  opened: string[];
  metrics: Record<string, Value>;
}

export interface GroupTitle {
  group: Group;
  title: string;
}

export interface Host {
  node: string;
  kernel: string;
  cpus: number;
  memory_bytes: number;
  cgroup_version: string;
  virtualisation: string | null;
  weigh: string;
  at_start?: Record<string, Value>;
  at_end?: Record<string, Value>;
}

export interface IoHeat {
  read: number[];
  written: number[];
  seconds: number[];
}

export interface IoOverTime {
  from: number[];
  to: number[];
  all: IoHeat;
  processes_total: number;
  processes: ProcessHeat[];
  files_total: number;
  files: FileHeat[];
}

export interface IoPage {
  sums: string;
  advice: AdviceRow[];
  flows: FlowRow[];
  is_mapped_unseen: boolean;
  are_reads_unseen: boolean;
  are_writes_unseen: boolean;
  are_devices_unseen: boolean;
  slowest: string[];
  rest: string | null;
  notes: string[];
  trust: TrustRow[];
}

export interface Job {
  id: string;
  command: string[];
  command_base64?: string[];
  cwd: string;
  cwd_base64?: string | null;
  category: string | null;
  labels: Record<string, string>;
  user: string;
  node: string;
  started: string;
  ended: string | null;
}

export interface KernelCosts {
  quality: Quality;
  reason?: string | null;
  measured?: string[];
  counters?: Record<string, number>;
  parts?: Record<string, Record<string, number>>;
  later?: Record<string, number>;
}

export interface KernelCostsRow {
  row: number;
  quality: Quality;
  words: string[];
}

export interface KindRow {
  title: string;
  calls: number;
  asked: boolean;
  differs: boolean;
  sentences: string[];
  counters: CounterRow[];
  slow: number;
  ordinary: number;
  slow_from: number | null;
  ordinary_from: number | null;
  ordinary_to: number | null;
  from: number[];
  to: number[];
  count: number[];
  shares: number[][];
}

export interface LaneRow {
  tgid: number;
  tid: number;
  label: string;
  total: number;
  events: number[];
  counts: number[][];
}

export interface LimitOutcome {
  metric: string;
  limit: number;
  written: string | null;
  enforced_by: string;
  exceeded: boolean;
  observed: number | null;
  overshoot?: string | null;
  overshoot_at_most?: number | null;
  at_seconds: number | null;
  offender?: Offender | null;
}

export interface LimitRow {
  words: string;
  outcome: LimitOutcome;
}

export interface Mapping {
  name: string;
  name_base64?: string | null;
  rss_bytes: number;
  size_bytes: number;
}

export interface MarkRows {
  lane: number[];
  event: number[];
  at: number[];
}

export interface MetricRow {
  name: string;
  help: string;
  counts: string;
  group: Group;
  kind: MetricKind;
  unit: Unit;
  series: string | null;
  value: number | null;
  text: string | null;
  source: Mechanism;
  quality: Quality;
  reason: string | null;
}

export interface Moment {
  label: string;
  at: number;
  when: string;
  because: string;
  values: (string | null)[];
}

export interface Offender {
  pid: number;
  thread: number;
  name: string;
  name_base64: string | null;
  command: string[];
  command_base64: string[];
  mappings: Mapping[];
  stack: string[];
  stack_base64: string[];
  kernel_stack: string[];
  open_files: string[];
  open_files_base64: string[];
  unreadable: string[];
}

export interface Outcome {
  words: string;
  tone: Tone;
}

export interface Page {
  command: string;
  outcome: Outcome;
  digest: DigestRow[];
  advice: string | null;
  job: Job;
  exit: Exit | null;
  duration: number;
  groups: GroupTitle[];
  metrics: MetricRow[];
  limits: LimitRow[];
  snapshot_metrics: string[];
  snapshots: Moment[];
  collectors: CollectorStatus[];
  gpus: GpuUse[];
  host: Host;
  file_systems: FileSystemRoom[];
  series: Record<string, SeriesRows>;
  processes: Processes;
  files: Files;
  io: IoPage | null;
  io_over_time: IoOverTime | null;
  regions: RegionsPage | null;
  calls: CallsPage | null;
}

export interface PairRow {
  name: string;
  total: number;
  mean: number;
  least: number;
  p50: number;
  p99: number;
  most: number;
  from: number[];
  to: number[];
  count: number[];
  heat_from: number[];
  heat: number[][];
}

export interface PartTitle {
  name: string;
  help: string;
}

export interface PhaseBands {
  total: number;
  left_out: number;
  name: number[];
  process: number[];
  thread: number[];
  first: string[];
  last: string[];
  phases: number[];
  start: number[];
  end: number[];
}

export interface ProcessHeat {
  pid: number;
  name: string;
  heat: IoHeat;
}

export interface ProcessHeatRow {
  label: string;
  total: number;
  counts: number[];
}

export interface Processes {
  total: number;
  texts: string[];
  pid: number[];
  parent: number[];
  uid: number[];
  name: number[];
  command: number[];
  start: number[];
  end: (number | null)[];
  ended: number[];
  failed: boolean[];
  metrics: Record<string, (number | null)[]>;
}

export interface PublishedValue {
  scope: string;
  metric: string;
  value: number;
  unit?: Unit | null;
  query?: TraceQuery | null;
  user: string | null;
  pid: number | null;
  job?: number | null;
  time: string;
}

export interface RankImbalance {
  ranks: number;
  mean_seconds: number;
  max_seconds: number;
  max_rank: number;
  imbalance_ratio: number;
}

export interface RegionCounter {
  name: string;
  name_base64?: string | null;
  kind: string;
  value: number;
  samples: number;
  min: number;
  max: number;
}

export interface RegionTree {
  left_out: number;
  depth: number[];
  name: number[];
  kind: RegionKind[];
  threads: number[];
  calls: number[];
  inclusive: number[];
  exclusive: number[];
  error: (number | null)[];
  least: (number | null)[];
  most: (number | null)[];
  open_calls: number[];
  open: number[];
  unbalanced: number[];
  quality: Quality[];
  kernel_costs: KernelCostsRow[];
}

export interface RegionsPage {
  scope: string;
  texts: string[];
  tree: RegionTree;
  flat: FlatRegion[];
  flat_total: number;
  phases: PhaseBands;
  counters: RegionCounter[];
  counter_series: CounterSeries[];
  counter_series_left_out: number;
  metadata: Record<string, string>;
  metadata_differs: string[];
  notes: string[];
}

export interface RuleStatus {
  rule: string;
  state: RuleStanding;
  severity: Severity;
  scope: string | null;
  metric: string;
  value: number | null;
  unit: Unit;
  per_second?: boolean;
  true_seconds: number | null;
  for_seconds: number;
  text: string;
  paste: string;
  reason?: string | null;
}

export interface Sender {
  kind: SenderKind;
  pid: number | null;
  name: string | null;
  name_base64: string | null;
  uid: number | null;
  source: Mechanism;
  quality: Quality;
}

export interface SeriesRows {
  total: number;
  at: number[];
  value: number[];
}

export interface SpanRows {
  lane: number[];
  pair: number[];
  from: number[];
  to: number[];
}

export interface TopCollector {
  name: string;
  mechanism: Mechanism;
  status: CollectorState;
  reason?: string | null;
  no_data_seconds?: number | null;
  failures: number;
}

export interface TopGroup {
  scope: string;
  name: string;
  name_base64: string | null;
  manager: string;
  missing: Record<string, string>;
}

export interface TopJob {
  kind: TopJobKind;
  group?: TopGroup | null;
  pid: number;
  user: string;
  command: string[];
  command_base64?: string[];
  processes: number;
  cpu_cores: number | null;
  memory_rss_sum_bytes: number;
  cpus_requested: number | null;
  memory_limit_bytes: number | null;
  time_left_seconds: number | null;
}

export interface TopProcess {
  pid: number;
  parent_pid: number;
  user: string;
  name: string;
  name_base64?: string | null;
  command: string[];
  command_base64?: string[];
  state: string;
  threads: number;
  cpu_cores: number | null;
  cpu_seconds: number;
  memory_rss_bytes: number;
  job?: number | null;
}

export interface TopProfile {
  uid: number;
  user: string;
  pid: number | null;
  told_pid?: number | null;
  name: string;
  name_base64?: string | null;
  state: ProgramState;
  job?: number | null;
  time: string;
  calls_total: number;
  publishes_total: number;
  regions: FlatRegion[];
  regions_left_out: number;
}

export interface TopReport {
  schema: string;
  node: string;
  time: string;
  interval_seconds: number | null;
  user: string | null;
  metrics: Record<string, Record<string, TopValue>>;
  cores: CoreUse[];
  collectors: TopCollector[];
  rules: RuleStatus[];
  jobs: TopJob[];
  processes: TopProcess[];
  profiles: TopProfile[];
  processes_unreadable: number;
  processes_left_out?: number;
  published: PublishedValue[];
  published_left_out?: number;
  profiles_left_out?: number;
  busiest?: BusiestReport | null;
}

export interface TopValue {
  value: number | null;
  unit: Unit;
  quality: Quality;
  per_second?: number | null;
}

export interface TracePage {
  command: string;
  place: string;
  summary: string;
  warnings: string[];
  duration: number;
  events: EventRow[];
  from: number[];
  to: number[];
  lanes: LaneRow[];
  marks: MarkRows;
  marks_note: string;
  spans: SpanRows;
  spans_note: string;
  pairs: PairRow[];
  processes: ProcessHeatRow[];
}

export interface TraceQuery {
  asked: string;
  followed_pid: number | null;
}

export interface TrustRow {
  key: string;
  quality: Quality;
  reason: string;
}

export interface Value {
  value: number | null;
  unit: Unit;
  source: Mechanism;
  quality: Quality;
  reason?: string | null;
}
