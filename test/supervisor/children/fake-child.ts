/** A child without a process, for tests of what the supervisor makes of its ends. */
import type { InstalledPlugin } from '../../../db/installations/account-plugins.ts';
import type { ChildHandlers } from '../../../supervisor/children/child.ts';
import type { ChildEnd } from '../../../supervisor/children/child-end.ts';
import { ChildError } from '../../../supervisor/children/child-errors.ts';

const registrations = { hooks: [], events: [], channel: {}, tools: { run: {} }, commands: {}, providers: {} };
/** An installation whose row is of the time `versionId`. */
export const installed = (versionId: string, more: Partial<InstalledPlugin> = {}): InstalledPlugin =>
  ({
    installationId: 'i1',
    accountId: 'a1',
    slug: 'plugin',
    semVer: '1.0.0',
    versionId,
    updatedAt: versionId,
    status: 'ready',
    rollbackUntil: null,
    registrations,
    secretNames: [],
    secretUses: {},
    granted: [],
    settings: {},
    ...more,
  }) as unknown as InstalledPlugin;

export class FakeChild {
  readonly pid = 1;
  state = 'ready';
  ready = Promise.resolve();
  inspector = null;
  handlers: ChildHandlers | null = null;
  /** Graces of its stops. */
  readonly stops: number[] = [];
  readonly #ended = Promise.withResolvers<ChildEnd>();
  readonly ended = this.#ended.promise;

  load: () => Promise<unknown> = async () => {
    this.state = 'loaded';
  };

  end(end: Partial<ChildEnd> = {}): Promise<ChildEnd> {
    const whole = { code: 1, signal: null, reason: 'it ended', stderr: '', ranMs: 1, requested: false, ...end };
    if (this.state !== 'dead') this.handlers?.onExit(whole as ChildEnd);
    this.state = 'dead';
    this.#ended.resolve(whole as ChildEnd);
    return this.ended;
  }

  /** As a process that ends by itself: its exit is reported before the request fails. */
  endAtLoad(interrupted: boolean): void {
    this.load = async () => {
      void this.end({ interrupted });
      throw new ChildError('dead', 'it ended', { interrupted });
    };
  }

  stop({ graceMs }: { readonly graceMs: number }): Promise<ChildEnd> {
    this.stops.push(graceMs);
    return this.kill();
  }
  kill = (): Promise<ChildEnd> => this.end({ requested: true });
  checkHealth = async (): Promise<void> => undefined;
  rss = (): number => 0;
  chargeOutputTo = (): void => undefined;
  /** The settings that it was given since its start; null: none. */
  settings: unknown = null;
  configure = (settings: unknown): void => {
    this.settings = settings;
  };
  assignAccount: (accountId: string) => void = () => undefined;
  setCpuClasses = (): void => undefined;
  processorMs = (): number => 0;
  cpuDemand = () => ({ hadMs: 0, waitedMs: 0, isRunnable: false });
  invoke = async (): Promise<unknown> => {
    if (this.state !== 'loaded') throw new ChildError('dead', 'it ended');
    return { outcome: 'answered', answer: 'done' };
  };
}
