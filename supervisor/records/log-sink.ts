/** Log lines of plugins and of the host about them: rate-limited per installation, truncated, written in batches. */
import type { Pool } from 'pg';
import type { InstalledPlugin } from '../../db/installations/account-plugins.ts';
import { orderedId, readIdTime } from '../../db/postgres/ordered-id.ts';
import { mapTexts, replaceUnstorable } from '../../db/postgres/storable-json.ts';
import { insertLogs, type LogLine } from '../../db/records/logs.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import type { LogLevel } from '../../sdk/contract/protocol.ts';
import type { StartTimer } from '../../service/timing/within.ts';
import { formatSourceName } from '../calls/plugin-call.ts';
import { Batch } from './batch.ts';
import { LineMapper, type MappedLine } from './line-mapper.ts';
import { LogDeduplicator } from './log-deduplicator.ts';
import { type SecretMask, SecretMasks } from './secret-mask.ts';
import type { CodedLine, Stacks } from './stacks.ts';

const MINUTE_MS = 60_000;
/** Buffer for lines while the database is slow or unavailable: some ten thousand ordinary ones. */
const QUEUE_BYTES = 8 * MIB;
/** Estimated size of a line besides its texts. Bytes. */
const LINE_OVERHEAD_BYTES = 400;

/** The source of lines that the host writes about a plugin. */
const SYSTEM_SOURCE = 'system';

export interface LogCaps {
  readonly linesPerMinute: number;
  readonly messageBytes: number;
  readonly dataBytes: number;
}
/** The bundle that stack traces refer to. */
type CodeOf = Partial<Pick<InstalledPlugin, 'slug' | 'sourceMapSha256'>>;
/** The installation of a line. */
interface LogOrigin extends Pick<LogLine, 'sessionId' | 'invocationId'> {
  readonly plugin: Pick<InstalledPlugin, 'installationId' | 'accountId' | 'versionId' | 'semVer'> & CodeOf;
  /** The handler, such as `middleware.systemPrompt`. */
  readonly source: string;
}
type LineOwner = Pick<LogOrigin['plugin'], 'installationId' | 'accountId'>;
interface NewLine {
  readonly level: LogLevel;
  readonly message: string;
  readonly data?: unknown;
  /** Whether the child truncated it already. */
  readonly truncated?: boolean;
}
interface Quota {
  minute: number;
  lines: number;
  dropped: number;
  origin: LogOrigin;
}

export class LogSink {
  readonly #caps: LogCaps;
  readonly #batch: Batch<MappedLine>;
  /** Null: no stack trace is mapped. */
  readonly #mapper: LineMapper | null;
  readonly #quotas = new Map<string, Quota>();
  readonly #deduplicator = new LogDeduplicator();
  readonly #masks: SecretMasks;
  readonly #now: () => number;
  readonly #onLines: (written: number, dropped: number) => void;
  readonly #onLine: (plugin: LineOwner, isKept: boolean) => void;
  /** Lines of each installation that found no room since its last report. */
  readonly #refused = new Map<string, { readonly plugin: LogOrigin['plugin']; count: number }>();
  readonly #timer: NodeJS.Timeout;

  constructor(
    pool: Pool,
    options: {
      caps: LogCaps;
      now?: () => number;
      onError(error: Error): void;
      onLines?(written: number, dropped: number): void;
      /** Called for every line of a plugin, written or dropped. */
      onLine?(plugin: LineOwner, isKept: boolean): void;
      /** Masks the secrets of installations. Default: none has any. */
      masks?: SecretMasks;
      /** Maps stack traces to the authors' files. Default: no mapping. */
      stacks?: Pick<Stacks, 'map'>;
      /** Limits how long lines wait for the mapping. Default: Node's timers. */
      startTimer?: StartTimer;
    },
  ) {
    this.#caps = options.caps;
    this.#masks = options.masks ?? new SecretMasks();
    this.#now = options.now ?? Date.now;
    this.#onLines = options.onLines ?? (() => undefined);
    this.#onLine = options.onLine ?? (() => undefined);
    const { stacks, startTimer } = options;
    this.#batch = new Batch<MappedLine>({
      maxBytes: QUEUE_BYTES,
      sizeOf: measureLine,
      accountOf: ({ accountId }) => accountId,
      // Lines of the host have a separate owner, so that the plugin's lines cannot fill their share of the buffer.
      ownerOf: ({ line, accountId }) =>
        line.source === SYSTEM_SOURCE ? `${SYSTEM_SOURCE} ${accountId}` : line.installationId,
      write: async (lines, isRetry) => {
        await insertLogs(
          pool,
          lines.map(({ line }) => line),
          isRetry,
        );
        this.#onLines(lines.length, 0);
      },
      onError: options.onError,
      onRejected: (lines) => this.#reportRejected(lines),
    });
    const onLine = (line: MappedLine): void => this.#addToBatch(line);
    this.#mapper = stacks ? new LineMapper({ stacks, sizeOf: measureLine, onLine, startTimer }) : null;
    this.#timer = setInterval(() => this.#closeMinutes(), MINUTE_MS / 6).unref();
  }

  get waiting(): number {
    return (this.#mapper?.length ?? 0) + this.#batch.length;
  }

  /** Adds a plugin's line. Lines over the limit are counted, and one line reports how many were dropped. */
  write(origin: LogOrigin, line: NewLine): void {
    const quota = this.#findQuota(origin);
    if (quota.lines >= this.#caps.linesPerMinute) {
      quota.dropped += 1;
      this.#onLine(origin.plugin, false);
      this.#onLines(0, 1);
      return;
    }
    quota.lines += 1;
    this.#add(origin, line);
  }

  /** Adds a line of the host about a plugin, such as a crash, time-out or denial. Not subject to the plugin's limit. */
  system(
    plugin: LogOrigin['plugin'],
    level: LogLevel,
    message: string,
    detail: Partial<LogOrigin> & { data?: unknown } = {},
  ): void {
    const { data, ...rest } = detail;
    const origin: LogOrigin = { ...createSystemOrigin(plugin), ...rest };
    this.#add(origin, data === undefined ? { level, message } : { level, message, data });
  }

  /**
   * Adds a line that may repeat: see `LogDeduplicator`.
   *
   * @param topic such as a hook; a different text for the same topic is written sooner
   */
  sometimes(
    plugin: LogOrigin['plugin'],
    topic: string,
    level: LogLevel,
    message: string,
    detail: Partial<LogOrigin> & { data: Readonly<Record<string, unknown>> },
  ): void {
    const suppressed = this.#deduplicator.countRepeat(`${plugin.installationId} ${topic}`, message, this.#now());
    if (suppressed === null) return;
    const data = suppressed === 0 ? detail.data : { ...detail.data, suppressed };
    this.system(plugin, level, message, { ...detail, data });
  }

  async flush(): Promise<void> {
    for (const quota of this.#quotas.values()) this.#reportDropped(quota);
    await this.#mapper?.flush();
    await this.#batch.flush();
    // Rows that are left say that the database takes none now.
    if (this.#refused.size === 0 || this.#batch.length > 0) return;
    this.#reportRefused();
    await this.#batch.flush();
  }

  /** Stops after a last flush, which does not wait for the mapping of stack traces: a stop has little time for the last writes. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#mapper?.close();
    await this.flush();
  }

  #findQuota(origin: LogOrigin): Quota {
    const minute = Math.floor(this.#now() / MINUTE_MS);
    const known = this.#quotas.get(origin.plugin.installationId);
    if (known?.minute === minute) {
      known.origin = origin;
      return known;
    }
    if (known) this.#reportDropped(known);
    const quota: Quota = { minute, lines: 0, dropped: 0, origin };
    this.#quotas.set(origin.plugin.installationId, quota);
    return quota;
  }

  #closeMinutes(): void {
    this.#reportRefused();
    const minute = Math.floor(this.#now() / MINUTE_MS);
    for (const [installationId, quota] of this.#quotas) {
      if (quota.minute === minute) continue;
      this.#reportDropped(quota);
      this.#quotas.delete(installationId);
    }
  }

  #reportDropped(quota: Quota): void {
    if (quota.dropped === 0) return;
    const message = `${quota.dropped} lines dropped: over ${this.#caps.linesPerMinute} a minute`;
    quota.dropped = 0;
    this.system(quota.origin.plugin, 'warn', message);
  }

  /** Lines of the host are not reported: a report that is rejected as well would be reported forever. */
  #reportRejected(lines: readonly MappedLine[]): void {
    this.#onLines(0, lines.length);
    const ofPlugins = lines.filter(({ line }) => line.source !== SYSTEM_SOURCE);
    for (const own of Map.groupBy(ofPlugins, ({ line }) => line.installationId).values()) {
      const [first] = own;
      if (!first) continue;
      this.system(findPlugin(first), 'error', `${own.length} lines dropped: the database rejects them`);
    }
  }

  #countRefused(line: MappedLine): void {
    this.#onLines(0, 1);
    const { installationId } = line.line;
    const refused = this.#refused.get(installationId) ?? { plugin: findPlugin(line), count: 0 };
    refused.count += 1;
    this.#refused.set(installationId, refused);
  }

  /** Adds a line for each installation that lacks some. Those that find no room are added later. */
  #reportRefused(): void {
    for (const [installationId, { plugin, count }] of this.#refused) {
      const message = `${count} lines dropped: too many waited for the database`;
      const report = this.#createLine(createSystemOrigin(plugin), { level: 'error', message });
      if (this.#batch.add(report)) this.#refused.delete(installationId);
    }
  }

  #add(origin: LogOrigin, line: NewLine): void {
    const added = this.#createLine(origin, line);
    if (this.#mapper) this.#mapper.add(added);
    else this.#addToBatch(added);
  }

  #createLine(origin: LogOrigin, line: NewLine): MappedLine {
    const { installationId } = origin.plugin;
    const mask = this.#masks.get(installationId);
    const isCut = line.truncated === true;
    // Masked before it is cut, so that no part of a secret is left.
    const message = cutText(mask.maskText(replaceUnstorable(line.message), isCut), this.#caps.messageBytes);
    const data = cutData(line.data, mask, this.#caps.dataBytes, isCut);
    const id = orderedId(this.#now());
    return {
      code: findLineCode(origin.plugin),
      accountId: origin.plugin.accountId,
      line: {
        id,
        // Not the clock: if it steps back, ids do not, and readers search lines by both.
        at: new Date(readIdTime(id)).toISOString(),
        level: line.level,
        message: message.text,
        data: data.text,
        installationId,
        sessionId: origin.sessionId,
        source: origin.source,
        invocationId: origin.invocationId,
        versionId: origin.plugin.versionId,
        semVer: origin.plugin.semVer,
        truncated: isCut || message.isCut || data.isCut,
      },
    };
  }

  #addToBatch(line: MappedLine): void {
    const isKept = this.#batch.add(line);
    if (line.line.source !== SYSTEM_SOURCE) this.#onLine(findPlugin(line), isKept);
    if (!isKept) this.#countRefused(line);
  }
}

const measureLine = ({ line }: MappedLine): number =>
  LINE_OVERHEAD_BYTES + line.message.length + (line.data?.length ?? 0);

const createSystemOrigin = (plugin: LogOrigin['plugin']): LogOrigin => ({
  plugin,
  sessionId: null,
  invocationId: null,
  source: SYSTEM_SOURCE,
});

function findPlugin({ accountId, line }: MappedLine): LogOrigin['plugin'] {
  const { installationId, versionId, semVer } = line;
  return { accountId, installationId, versionId: versionId ?? '', semVer: semVer ?? '' };
}

const findLineCode = ({ slug, semVer, sourceMapSha256 }: LogOrigin['plugin']): CodedLine['code'] =>
  slug && sourceMapSha256 ? { sourceMapSha256, sourceName: formatSourceName({ slug, semVer }) } : null;

function cutText(text: string, maxBytes: number): { text: string; isCut: boolean } {
  // A UTF-16 unit takes at most three bytes, so short texts need no measuring.
  if (text.length * 3 <= maxBytes || Buffer.byteLength(text) <= maxBytes) return { text, isCut: false };
  const bytes = Buffer.from(text).subarray(0, maxBytes);
  // A character that was cut leaves one to three U+FFFD. A longer match would take quadratic time on a text of U+FFFD.
  return { text: bytes.toString('utf8').replace(/\u{fffd}{1,3}$/u, ''), isCut: true };
}

function cutData(
  data: unknown,
  mask: SecretMask,
  maxBytes: number,
  isCut: boolean,
): { text: string | null; isCut: boolean } {
  if (data === undefined) return { text: null, isCut: false };
  const text = toJson(data, mask, isCut);
  if (Buffer.byteLength(text) <= maxBytes) return { text, isCut: false };
  return { text: JSON.stringify(cutText(text, Math.floor(maxBytes / 2)).text), isCut: true };
}

function toJson(data: unknown, mask: SecretMask, isCut: boolean): string {
  try {
    return JSON.stringify(mask.mask(mapTexts(data, replaceUnstorable), isCut)) ?? 'null';
  } catch {
    // Nested deeper than the stack: keep the line without its data.
    return '"[data nested too deeply]"';
  }
}
