/** Writes messages to a child and bounds the backlog of a child that does not read. */
import type { Writable } from 'node:stream';
import { AbstractMessageWriter, Message } from 'vscode-jsonrpc';
import { CHANNEL_QUEUES_PER_INSTALLATION } from '../../db/channels/queue-limits.ts';
import { FRAME_TO_CHILD_MAX_BYTES, frameBytes } from '../../sandbox-child/frame.ts';
import { encodeMessage, SCRATCH_BYTES } from '../../sandbox-child/message.ts';
import { ChildError, HostCallRefusal, refusalToResponse } from './child-errors.ts';

/**
 * A child with more unread bytes than this is killed: a frame of the largest size for each channel queue of its installation, which may
 * all wait for its start and are then sent at once, and two for everything else.
 */
const BACKLOG_MAX_BYTES = (CHANNEL_QUEUES_PER_INSTALLATION + 2) * FRAME_TO_CHILD_MAX_BYTES;
const DONE = Promise.resolve();

/** Shared by all children, because nearly every write completes synchronously. */
let scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

export class ChildMessageWriter extends AbstractMessageWriter {
  readonly #output: Writable;
  readonly #onViolation: (reason: string) => void;
  /** Ids of the requests that have no response yet. A cancelled one stays until the child responds. */
  readonly #requests = new Set<number>();
  #failure: ChildError | null = null;
  #isDisposed = false;

  /** `onViolation` is called when the backlog is too large. */
  constructor(output: Writable, onViolation: (reason: string) => void) {
    super();
    this.#output = output;
    this.#onViolation = onViolation;
    // A broken pipe means that the child has ended, which `Child` reports.
    output.on('error', () => undefined);
  }

  /** Forgets a request to which the child has responded. False: no such request was sent, or it already has its response. */
  endRequest(id: number): boolean {
    return this.#requests.delete(id);
  }

  /** Returns and clears the error of the last message that could not be encoded: the connection reports only its text. */
  takeFailure(): ChildError | null {
    const failure = this.#failure;
    this.#failure = null;
    return failure;
  }

  override dispose(): void {
    super.dispose();
    this.#isDisposed = true;
  }

  write(message: Message): Promise<void> {
    if (this.#isDisposed) return DONE;
    try {
      this.#send(message);
    } catch (error) {
      const isTooLarge = error instanceof RangeError;
      if (Message.isResponse(message)) {
        const refusal = isTooLarge
          ? new HostCallRefusal('too_large', 'The result is too large for one message.')
          : error;
        this.#send({ ...message, result: undefined, error: refusalToResponse(refusal).toJson() });
        return DONE;
      }
      this.#failure = new ChildError(isTooLarge ? 'too_large' : 'broken', (error as Error).message);
      return Promise.reject(this.#failure);
    }
    if (Message.isRequest(message)) this.#requests.add(message.id as number);
    return DONE;
  }

  /** Does nothing: `Child` closes the pipe when it ends the child. */
  end(): void {}

  #send(message: object): void {
    const output = this.#output;
    // The scratch memory can be reused at once if the kernel takes the whole frame, which requires an empty queue.
    const frame = encodeMessage(message, FRAME_TO_CHILD_MAX_BYTES, output.writableLength === 0 ? scratch : undefined);
    output.write(frame.subarray(0, frameBytes(frame)));
    if (output.writableLength === 0) return;
    if (frame.buffer === scratch.buffer) scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
    if (output.writableLength > BACKLOG_MAX_BYTES) this.#onViolation('it does not read what it is sent');
  }
}
