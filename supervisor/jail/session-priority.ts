/**
 * CPU classes of children without control groups. Each jail is a session, to which Linux gives as much CPU time as to the whole
 * supervisor; see `priority.ts`. So the priority of the session follows the classes.
 */
import { SESSION_CHANGE_MS, setSessionPriority } from '../../service/lifecycle/priority.ts';
import { readProcessStat } from '../../service/lifecycle/process-stat.ts';
import type { CpuClasses } from './limiter.ts';

/**
 * A step of one is a tenth of the CPU time: 5 is a third of an ordinary session, 15 a thirtieth, 19 a seventieth. Only root may raise a session
 * above 0.
 */
const PRIORITIES: Readonly<Record<CpuClasses['account'], number>> = { light: 0, normal: 5, reduced: 15, idle: 19 };

/** Changes that the kernel has not accepted yet. */
const waiting = new Set<SessionPriority>();
let timer: NodeJS.Timeout | null = null;

export class SessionPriority {
  readonly #findPid: () => number;
  #wanted = 0;
  #written = 0;

  /** @param findPid process id of the process that created the session; 0 before its start and after its end */
  constructor(findPid: () => number) {
    this.#findPid = findPid;
  }

  get wanted(): number {
    return this.#wanted;
  }

  /** Call it repeatedly: before the process has created its session there is nothing to change. */
  setCpuClasses({ child, account }: CpuClasses): void {
    this.#wanted = PRIORITIES[child === 'idle' ? 'idle' : account];
    if (this.#wanted !== this.#written) writeInTurn(this);
  }

  /** @returns false if it must be tried again later */
  write(): boolean {
    const pid = this.#findPid();
    if (pid === 0 || this.#wanted === this.#written) return true;
    try {
      if (readProcessStat(pid)?.session !== pid) return true;
      setSessionPriority(pid, this.#wanted);
      this.#written = this.#wanted;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return false;
      // The process has ended, or the kernel has no priorities of sessions.
      this.#written = this.#wanted;
    }
    return true;
  }
}

function writeInTurn(priority: SessionPriority): void {
  waiting.add(priority);
  if (timer === null) writeWaiting();
}

/** Writes raised priorities first: calls wait for those processes. */
function writeWaiting(): void {
  timer = null;
  for (const priority of [...waiting].sort((one, other) => one.wanted - other.wanted)) {
    if (!priority.write()) {
      timer = setTimeout(writeWaiting, SESSION_CHANGE_MS).unref();
      return;
    }
    waiting.delete(priority);
  }
}
