/** Services of the host for the agents and people of a session. Their hooks run by themselves. */
import type { NewReminder, NewTodo, Page, Reminder, SentMail, SshCommand, SshResult, Todo, TodoChanges, Trigger } from './api-types.js';
import type { Cancellable, Transport } from './transport.js';
/** The cause of the operation. Plugins may allow a person what they refuse an agent. */
interface Started extends Cancellable {
    readonly trigger: Trigger;
}
export declare class HostServices {
    #private;
    constructor(transport: Transport, sessionId: string);
    /** Creates a to-do of the account. Idempotent by `id`. @throws BulkheadError `cancelled` */
    createTodo(todo: NewTodo, { trigger, signal }: Started): Promise<Todo>;
    /** Lists the to-dos of the account, oldest first. */
    todos({ signal, ...query }?: {
        done?: boolean;
        assigneeAgentId?: string;
        limit?: number;
        cursor?: string;
    } & Cancellable): Promise<Page<Todo>>;
    /** Changes, completes or reopens a to-do. @throws BulkheadError `cancelled` */
    changeTodo(id: string, changes: TodoChanges, { trigger, signal }: Started): Promise<Todo>;
    /** Deletes a to-do, and returns it as it was. @throws BulkheadError `cancelled` */
    deleteTodo(id: string, { trigger, signal }: Started): Promise<Todo>;
    /** Schedules a reminder. Idempotent by `id`. @throws BulkheadError `cancelled` */
    scheduleReminder(reminder: NewReminder, { trigger, signal }: Started): Promise<Reminder>;
    /** Lists the reminders of the session, oldest first. */
    reminders({ signal, ...query }?: {
        limit?: number;
        cursor?: string;
    } & Cancellable): Promise<Page<Reminder>>;
    /** Cancels what is to come of a reminder, and returns it as it was. */
    cancelReminder(id: string, { signal }?: Cancellable): Promise<Reminder>;
    /**
     * Sends a message to another agent of the account. Idempotent by `id`. `toSessionId` names the session of that agent that gets it.
     * Default: the newest one without a channel.
     *
     * @throws BulkheadError `cancelled`
     */
    sendMail(mail: {
        readonly id?: string;
        readonly toAgentId: string;
        readonly toSessionId?: string;
        readonly text: string;
    }, { trigger, signal }: Started): Promise<SentMail>;
    /**
     * Runs a command over SSH. Not repeated after a broken connection.
     *
     * @throws BulkheadError `cancelled`; ConnectionLostError if the command may have run
     */
    runSsh(command: SshCommand, { trigger, signal }: Started): Promise<SshResult>;
}
export {};
