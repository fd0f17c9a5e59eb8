/** Counters and histograms for operators. Labels come from protocol keys and slugs, never from what a plugin says. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { LinkOutcome } from './chain.ts';

/** Seconds. A jailed hook call takes well under a millisecond; budgets end at 60 s. */
const CALL_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60];

export interface Metrics {
  readonly registry: Registry;
  linkRan(hook: string, slug: string, outcome: LinkOutcome, ms: number): void;
  targetRan(kind: string, slug: string, outcome: string, ms: number): void;
  hostCalled(member: string, outcome: string): void;
  childEnded(reason: string): void;
  childStarted(seconds: number): void;
  logLines(written: number, dropped: number): void;
  eventAttempted(type: string, outcome: string): void;
  /** What a configured model was asked for by a plugin; the cost in the operator's currency. */
  modelAnswered(slug: string, provider: string, usage: ModelUsage, cost: number): void;
}
export interface ModelUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}
export interface Gauges {
  children(): Record<string, number>;
  logQueue(): number;
  auditQueue(): number;
  sandbox(): { readonly state: string; readonly limiter: string };
}

/** Makes the process's metrics. Gauges are read when somebody scrapes, so that they cost nothing otherwise. */
export function createMetrics(gauges: Gauges): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  const counter = (name: string, help: string, labelNames: string[]) =>
    new Counter({ name: `bulkhead_${name}`, help, labelNames, registers });
  const links = counter('chain_links_total', 'Links of hook chains, by outcome.', ['hook', 'slug', 'outcome']);
  const targets = counter('calls_total', 'Tool, command, provider, channel and event calls.', [
    'kind',
    'slug',
    'outcome',
  ]);
  const hostCalls = counter('host_calls_total', 'Host calls of plugins, by outcome.', ['member', 'outcome']);
  const exits = counter('child_exits_total', 'Children that ended, by reason.', ['reason']);
  const lines = counter('log_lines_total', 'Log lines of plugins.', ['fate']);
  const attempts = counter('event_attempts_total', 'Attempts to deliver events.', ['type', 'outcome']);
  const histogram = (name: string, help: string, labelNames: string[]) =>
    new Histogram({ name: `bulkhead_${name}`, help, labelNames, buckets: CALL_BUCKETS, registers });
  const linkSeconds = histogram('chain_link_seconds', 'Time of one link, from call to checked answer.', ['hook']);
  const callSeconds = histogram('call_seconds', 'Time of one tool, command, provider, channel or event call.', [
    'kind',
  ]);
  const startSeconds = histogram('child_start_seconds', 'From the wish for a child to its loaded bundle.', []);
  readGauges(registers, gauges);
  return {
    registry,
    linkRan: linkRecorder(links, linkSeconds),
    targetRan: (kind, slug, outcome, ms) => {
      targets.inc({ kind, slug, outcome });
      callSeconds.observe({ kind }, ms / 1000);
    },
    hostCalled: (member, outcome) => hostCalls.inc({ member, outcome }),
    childEnded: (reason) => exits.inc({ reason }),
    childStarted: (seconds) => startSeconds.observe(seconds),
    logLines: (written, dropped) => {
      if (written) lines.inc({ fate: 'written' }, written);
      if (dropped) lines.inc({ fate: 'dropped' }, dropped);
    },
    modelAnswered: modelRecorder(counter),
    eventAttempted: (type, outcome) => attempts.inc({ type, outcome }),
  };
}

type MakeCounter = (name: string, help: string, labelNames: string[]) => Counter;

function modelRecorder(counter: MakeCounter): Metrics['modelAnswered'] {
  const answers = counter('model_answers_total', 'Answers of configured models to plugins.', ['slug', 'provider']);
  const tokens = counter('model_tokens_total', 'Tokens of those answers.', ['slug', 'provider', 'direction']);
  const costs = counter('model_cost_total', 'Cost of those answers, by the configured prices.', ['slug', 'provider']);
  return (slug, provider, { inputTokens, outputTokens }, cost) => {
    answers.inc({ slug, provider });
    tokens.inc({ slug, provider, direction: 'input' }, inputTokens);
    tokens.inc({ slug, provider, direction: 'output' }, outputTokens);
    costs.inc({ slug, provider }, cost);
  };
}

/** What one hook's links are counted with. */
interface HookRecord {
  readonly seconds: { observe(seconds: number): void };
  /** By slug, then by outcome. */
  readonly counts: Map<string, Map<string, { inc(): void }>>;
}

/** prom-client sorts and joins the labels of every call; found once, a link's own counter is three look-ups away. */
function linkRecorder(links: Counter<'hook' | 'slug' | 'outcome'>, linkSeconds: Histogram<'hook'>): Metrics['linkRan'] {
  const hooks = new Map<string, HookRecord>();
  const recordOf = (hook: string): HookRecord => {
    const made = { seconds: linkSeconds.labels({ hook }), counts: new Map() };
    hooks.set(hook, made);
    return made;
  };
  const countOf = ({ counts }: HookRecord, hook: string, slug: string, outcome: string): { inc(): void } => {
    const made = links.labels({ hook, slug, outcome });
    const bySlug = counts.get(slug) ?? new Map<string, { inc(): void }>();
    counts.set(slug, bySlug.set(outcome, made));
    return made;
  };
  return (hook, slug, outcome, ms) => {
    const record = hooks.get(hook) ?? recordOf(hook);
    const count = record.counts.get(slug)?.get(outcome) ?? countOf(record, hook, slug, outcome);
    count.inc();
    record.seconds.observe(ms / 1000);
  };
}

function readGauges(registers: Registry[], gauges: Gauges): void {
  new Gauge({
    name: 'bulkhead_children',
    help: 'Children by state.',
    labelNames: ['state'],
    registers,
    collect() {
      this.reset();
      for (const [state, count] of Object.entries(gauges.children())) this.set({ state }, count);
    },
  });
  new Gauge({
    name: 'bulkhead_sandbox',
    help: '1 for the state of the sandbox and the limiter of memory in use.',
    labelNames: ['state', 'limiter'],
    registers,
    collect() {
      const { state, limiter } = gauges.sandbox();
      this.set({ state, limiter }, 1);
    },
  });
  const single = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  single('bulkhead_log_queue_lines', 'Log lines waiting to be written.', gauges.logQueue);
  single('bulkhead_audit_queue_entries', 'Audit entries waiting to be written.', gauges.auditQueue);
}
