/** Services of the host for the agents and people of a session. Their hooks run by themselves. */
import type {
  NewReminder,
  NewTodo,
  Page,
  Reminder,
  SentMail,
  SshCommand,
  SshResult,
  Todo,
  TodoChanges,
  Trigger,
} from './api-types.ts';
import { addId } from './default-id.ts';
import { toQueryString } from './query-string.ts';
import type { Call, Cancellable, Transport } from './transport.ts';

/** The cause of the operation. Plugins may allow a person what they refuse an agent. */
interface Started extends Cancellable {
  readonly trigger: Trigger;
}

export class HostServices {
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, sessionId: string) {
    this.#transport = transport;
    this.#path = `/sessions/${encodeURIComponent(sessionId)}`;
  }

  /** Creates a to-do of the account. Idempotent by `id`. @throws BulkheadError `cancelled` */
  createTodo(todo: NewTodo, { trigger, signal }: Started): Promise<Todo> {
    return this.#send('POST', '/todos', { ...addId(todo), trigger }, signal);
  }

  /** Lists the to-dos of the account, oldest first. */
  todos({
    signal,
    ...query
  }: { done?: boolean; assigneeAgentId?: string; limit?: number; cursor?: string } & Cancellable = {}): Promise<
    Page<Todo>
  > {
    return this.#send('GET', `/todos${toQueryString(query)}`, undefined, signal);
  }

  /** Changes, completes or reopens a to-do. @throws BulkheadError `cancelled` */
  changeTodo(id: string, changes: TodoChanges, { trigger, signal }: Started): Promise<Todo> {
    return this.#send('PATCH', `/todos/${encodeURIComponent(id)}`, { ...changes, trigger }, signal);
  }

  /** Deletes a to-do, and returns it as it was. @throws BulkheadError `cancelled` */
  deleteTodo(id: string, { trigger, signal }: Started): Promise<Todo> {
    return this.#send('DELETE', `/todos/${encodeURIComponent(id)}?trigger=${trigger}`, undefined, signal);
  }

  /** Schedules a reminder. Idempotent by `id`. @throws BulkheadError `cancelled` */
  scheduleReminder(reminder: NewReminder, { trigger, signal }: Started): Promise<Reminder> {
    return this.#send('POST', '/notifications', { ...addId(reminder), trigger }, signal);
  }

  /** Lists the reminders of the session, oldest first. */
  reminders({ signal, ...query }: { limit?: number; cursor?: string } & Cancellable = {}): Promise<Page<Reminder>> {
    return this.#send('GET', `/notifications${toQueryString(query)}`, undefined, signal);
  }

  /** Cancels what is to come of a reminder, and returns it as it was. */
  cancelReminder(id: string, { signal }: Cancellable = {}): Promise<Reminder> {
    return this.#send('DELETE', `/notifications/${encodeURIComponent(id)}`, undefined, signal);
  }

  /**
   * Sends a message to another agent of the account. Idempotent by `id`. `toSessionId` names the session of that agent that gets it.
   * Default: the newest one without a channel.
   *
   * @throws BulkheadError `cancelled`
   */
  sendMail(
    mail: { readonly id?: string; readonly toAgentId: string; readonly toSessionId?: string; readonly text: string },
    { trigger, signal }: Started,
  ): Promise<SentMail> {
    return this.#send('POST', '/mail', { ...addId(mail), trigger }, signal);
  }

  /**
   * Runs a command over SSH. Not repeated after a broken connection.
   *
   * @throws BulkheadError `cancelled`; ConnectionLostError if the command may have run
   */
  runSsh(command: SshCommand, { trigger, signal }: Started): Promise<SshResult> {
    const path = `${this.#path}/ssh`;
    return this.#transport.json({ method: 'POST', path, body: { ...command, trigger }, signal });
  }

  #send<T>(method: Call['method'], suffix: string, body: unknown, signal: AbortSignal | undefined): Promise<T> {
    const request = { method, path: this.#path + suffix, signal, repeatable: method !== 'DELETE' };
    return this.#transport.json(body === undefined ? request : { ...request, body });
  }
}
