/** The error by which all adapters say that a plugin stopped something. */
import { describeCancel } from '../contract/errors.ts';

/** A plugin cancelled the operation, or a required plugin did not run. `message` is safe to show to users. */
export class VetoError extends Error {
  override readonly name = 'VetoError';
  /** Slug of the plugin that cancelled, or that is required and did not run. */
  readonly plugin: string;
  readonly reason: string;
  /** Whether the plugin itself cancelled. False: it is required and did not run, and the operation may pass later. */
  readonly isFinal: boolean;

  constructor(plugin: string | null, reason: string | null, isFinal = true) {
    super(describeCancel(plugin, reason, isFinal));
    this.plugin = plugin ?? '';
    this.reason = reason ?? '';
    this.isFinal = isFinal;
  }
}
