/** What the code that is traced and the OpenTelemetry exporter share. Interfaces only. */

export type Facts = Readonly<Record<string, string | number | boolean>>;
export interface SpanSettings {
  readonly kind?: 'server' | 'consumer' | 'internal';
  /** W3C traceparent of what it belongs to; absent: the span under way, or none; null: none. */
  readonly parent?: string | null | undefined;
  /** Another trace it has to do with, which must not become its parent: what a stranger sent. */
  readonly link?: string | undefined;
  /** Ids, keys of the protocol and slugs; never what a plugin or a user says. */
  readonly facts?: Facts;
}
/** A span under way. */
export interface Span {
  /** Adds what is known by now. */
  note(facts: Facts): void;
  /** Marks it as failed; the text of errors stays out of traces. */
  fail(): void;
}
export interface Tracer {
  run<T>(name: string, settings: SpanSettings, work: (span: Span) => Promise<T>): Promise<T>;
  current(): string | null;
  /** Exports what is left. */
  close(): Promise<void>;
}
